"""The coordinator, or the handler beside it, is killed while a producer of version 2 writes and ends transactions: each
record of a committed transaction is there once, none of an aborted one is. LONG=1: more named moments."""

import os

import pytest

from tests.conformance.transaction_scripts.stage import Stage
from tests.harness.broker import Broker
from tests.harness.transaction_chain import copied

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SETTINGS = {
    "transaction.state.log.num.partitions": 2,
    "num.io.threads": 2,
    "mpbroker.trace.enabled": "false",
    "mpbroker.admin.listener": "",
}
#: Moments on the way of a Produce request to the coordinator and back, with how often they pass before the death.
POINTS = (
    "handler.given_back:3",
    "coordinator.appended:8",
    *(
        (
            "handler.given_back_hinted:5",
            "handler.handed:6",
            "handler.handed_hinted:9",
            "coordinator.taken:7",
            "coordinator.decided:9",
            "coordinator.prepared:3",
            "coordinator.answered:8",
        )
        if os.environ.get("LONG")
        else ()
    ),
)
TRANSACTIONS, LARGE = 10, b"x" * 400  # records of this size do not fit into an entry


@pytest.mark.parametrize("point", POINTS)
def test_each_record_is_there_once(tmp_path, point):
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": point}) as broker:
        stage, written = Stage(broker.port(), "k-"), []
        producer = stage.init()
        for number in range(TRANSACTIONS):
            text, is_committed = b"%d" % number, number % 3 != 2
            values = [b"a" + text, b"b" + text + LARGE]
            stage.produce_all(producer, 0, values, 12)
            producer = stage.end(producer, is_committed, 5)
            written += values if is_committed else []
        stage.settled()
        assert sorted(copied(broker.bootstrap, stage.topic)) == sorted(written), stage.outcomes
        assert not any(code for kind, code, *_ in stage.outcomes if kind in ("commit", "abort")), stage.outcomes
        died = [row["role"] for row in broker.status()["processes"] if row["restarts"]]
        assert died, f"nobody passed {point}"
        assert stage.outcomes[-1][-1] == TRANSACTIONS  # each end raised the epoch once
        stage.close()
