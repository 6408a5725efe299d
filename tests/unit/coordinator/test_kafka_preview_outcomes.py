"""Scripts of the next-generation group protocol beside what Apache Kafka 3.9.2 made of them, where it was a preview
(version 0, off by default): the same codes and fields but for what Kafka 4 changed, each of which is named here."""

import re

import pytest

from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from tests.conformance.differential import _paths
from tests.conformance.group_differential import alone
from tests.conformance.group_scripts import PREVIEWS
from tests.conformance.group_scripts.recorded import read
from tests.conformance.group_scripts.stage import PREVIEW

OUTCOMES = read(PREVIEW)
#: A member that gives partitions back: 3.9 shows only those it may keep, 4 all that are still its own.
GIVING_BACK = ["groups[.] members[.] assignment topic_partitions[.] partitions"]
#: 3.9 took no consumer's id in a LeaveGroup (25).
LEAVING = ["members[.] error_code", "groups[.] group_state"]
#: Script → where it differs, without who was answered. Sentences first: 3.9 has others, and none for a missing group.
CHANGED = {
    "consumers: one member, from nothing to nothing": ["groups[.] error_message"],
    # One empty group id spoiled the description of all others (-1).
    "consumers: refused before anything else": [
        "error_message",
        *(f"groups[.] {field}" for field in ("assignment_epoch", "assignor_name", "error_code", "group_epoch")),
        *(f"groups[.] {field}" for field in ("group_id", "group_state", "members")),
    ],
    "consumers: partitions go from one to the other": GIVING_BACK,
    # A member that joins again under its id was fenced (110); today it is given what it has.
    "consumers: epochs that are not the member's": [
        *("assignment", "error_code", "error_message", "heartbeat_interval_ms", "member_epoch", "member_id"),
    ],
    "migration: up and down again": GIVING_BACK,
    "migration: classic members come and go": LEAVING,
    "migration: what cannot be upgraded": ["error_message"],
}


@pytest.fixture(autouse=True)
def _first_epoch_of_3_9(monkeypatch):
    """Groups of Kafka 4 begin with epoch 1, and their first member is in epoch 2; those of 3.9 began with 0."""
    init = ConsumerGroup.__init__

    def begin(group, *arguments):
        init(group, *arguments)
        group.epoch = 0

    monkeypatch.setattr(ConsumerGroup, "__init__", begin)


def test_every_script_is_on_record():
    assert {(script.name, script.version) for script in PREVIEWS} == set(OUTCOMES)
    assert {script.name for script in PREVIEWS} >= set(CHANGED)


@pytest.mark.parametrize("script", PREVIEWS, ids=lambda script: script.title)
def test_the_outcome_differs_only_where_kafka_4_does(script):
    ours, kafkas = alone(script), OUTCOMES[script.name, script.version]
    assert len(ours) == len(kafkas)
    lines = [line for mine, theirs in zip(ours, kafkas, strict=True) for line in _paths(mine, theirs)]
    places = {re.sub(r"\d+", ".", re.sub(r"^ *\[1\] \w+ |: ours .*", "", line)) for line in lines}
    assert sorted(places) == sorted(CHANGED.get(script.name, []))
