"""What changes make of a topic's own settings, and of a list in one of them."""

import pytest

from mpbroker.config.topic_changes import NotAList, Operation, changed_items, changed_topic_configs
from mpbroker.metadata.commands import ConfigChange

POLICY, THROTTLED = "cleanup.policy", "leader.replication.throttled.replicas"
OWN = {"segment.bytes": "100", POLICY: "compact"}
SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (("segment.bytes", SET, "200"), {**OWN, "segment.bytes": "200"}),
        (("segment.ms", SET, "5"), {**OWN, "segment.ms": "5"}),
        (("segment.bytes", SET, None), {**OWN, "segment.bytes": ""}),
        (("segment.bytes", DELETE, None), {POLICY: "compact"}),
        (("segment.ms", DELETE, None), OWN),
        ((POLICY, APPEND, "delete"), {**OWN, POLICY: "compact,delete"}),
        ((POLICY, SUBTRACT, "compact"), {**OWN, POLICY: ""}),
        ((THROTTLED, APPEND, "0:1,1:1"), {**OWN, THROTTLED: "0:1,1:1"}),
        ((THROTTLED, SUBTRACT, "0:1"), {**OWN, THROTTLED: ""}),
    ],
)
def test_each_operation(change, after):
    own = dict(OWN)
    assert changed_topic_configs(own, [ConfigChange(*change)]) == after and own == OWN


def test_a_list_that_the_topic_has_not_begins_as_the_settings_default_and_changes_add_up():
    changes = [ConfigChange(POLICY, APPEND, "compact"), ConfigChange(POLICY, SUBTRACT, "delete")]
    assert changed_topic_configs({}, changes[:1]) == {POLICY: "delete,compact"}
    assert changed_topic_configs({}, changes) == {POLICY: "compact"}


@pytest.mark.parametrize("name", ["segment.bytes", "no.such"])
@pytest.mark.parametrize(("operation", "word"), [(APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")])
def test_only_lists_have_items(name, operation, word):
    with pytest.raises(NotAList, match=f"^Can't {word} to key {name} because its type is not LIST.$"):
        changed_topic_configs(OWN, [ConfigChange(name, operation, "1")])


@pytest.mark.parametrize(
    ("present", "operation", "value", "after"),
    [
        ("a,b", APPEND, "c", "a,b,c"),
        ("a,b", APPEND, "b,c,c", "a,b,c"),
        ("", APPEND, "a", "a"),
        ("a,,b", APPEND, "a", "a,b"),
        ("a,b,a", SUBTRACT, "a", "b,a"),
        ("a,b", SUBTRACT, "c", "a,b"),
        ("a,b", SUBTRACT, "b,a", ""),
        ("a", SUBTRACT, None, "a"),
    ],
)
def test_items_are_added_where_they_lack_and_taken_where_they_are(present, operation, value, after):
    assert changed_items(present, ConfigChange("x", operation, value), operation) == after
