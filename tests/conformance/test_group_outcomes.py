"""Scripts of groups end on this broker as they ended on Apache Kafka 3.9.2, over sockets and in real time; see
tests/conformance/group_scripts. Most of their time is waiting, so they are played together."""

import pytest

from tests.conformance.differential import _paths
from tests.conformance.group_differential import played
from tests.conformance.group_scripts import SCRIPTS
from tests.conformance.group_scripts.recorded import read
from tests.conformance.group_scripts.transports import SETTINGS
from tests.harness.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_every_outcome_is_kafkas(tmp_path):
    kafkas = [read()[script.name, script.version] for script in SCRIPTS]
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        ours = played(SCRIPTS, broker.port(), kafkas)
    wrong = {
        script.title: list(_paths(mine, theirs))
        for script, mine, theirs in zip(SCRIPTS, ours, kafkas, strict=True)
        if mine != theirs
    }
    assert not wrong, "\n".join(f"{title}: {lines}" for title, lines in wrong.items())
