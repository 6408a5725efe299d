"""A broker that shuts down hears after the others who leads now."""

import pytest

from mpbroker.cluster.cluster_config import TOLD_LAST_MS
from mpbroker.cluster.events import Answered
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.cluster.controller_bench import ControllerBench, epoch_of, stops


@pytest.fixture
def bench():
    return ControllerBench()


def test_the_broker_hears_last_who_leads_now(bench):
    """It stops then, perhaps with this controller, and its clients ask the others."""
    topic = bench.create()
    bench.take_sent()
    bench.answering.discard(3)
    bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
    assert bench.state(topic)[0] == 2
    sent = bench.take_sent()
    assert stops(sent) == [(1, 0, 1, False)], "it gives up at once"
    told = [broker for broker, request in sent if isinstance(request, UpdateMetadataRequest)]
    assert told == [2], "3 has not answered its LeaderAndIsr"
    bench.event(Answered(3, epoch_of(bench, 3), LeaderAndIsrResponse()))
    bench.answering.add(3)
    bench.settle()
    told = [broker for broker, request in bench.take_sent() if isinstance(request, UpdateMetadataRequest)]
    assert told == [3, 1]


def test_one_that_does_not_answer_is_not_waited_for(bench):
    bench.create()
    bench.take_sent()
    bench.answering.discard(3)
    bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
    bench.take_sent()
    bench.now_ms += TOLD_LAST_MS
    bench.settle()
    told = [broker for broker, request in bench.take_sent() if isinstance(request, UpdateMetadataRequest)]
    assert told == [1]
