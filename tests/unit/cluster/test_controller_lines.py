"""What the elected controller says of brokers and requests, when its term ends, and whom it names to followers."""

import pytest

from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.control_requests import RequestBuilder
from mpbroker.cluster.events import Answered
from mpbroker.cluster.wanted_state import Batch, Lead, Named, PartitionView
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrLiveLeader
from mpbroker.protocol.messages.update_metadata import UpdateMetadataEndpoint, UpdateMetadataResponse
from tests.unit.cluster.controller_bench import ControllerBench, epoch_of

ID = b"t" * 16


def said(bench, *events):
    """(event, broker, its epoch, the controller's) of the lines since the last call."""
    lines, bench.logs = bench.logs, []
    return [
        (one.event, one.fields["broker"], one.fields["broker_epoch"], one.fields["controller_epoch"])
        for one in lines
        if one.event in events
    ]


def test_brokers_that_come_and_go_are_said():
    bench = ControllerBench()
    events = ("broker_lost", "broker_came", "broker_restarted")
    assert said(bench, *events) == []
    old = epoch_of(bench, 2)
    bench.lose(2)
    bench.come(2)
    again = epoch_of(bench, 2)
    assert said(bench, *events) == [("broker_lost", 2, old, 1), ("broker_came", 2, again, 1)]
    key = bench.keys.broker(2)
    value = bench.store.get(key)[1].value
    bench.store.txn([], [Put(key, value)], tag="")
    bench.watch()
    assert said(bench, *events) == [], "the same life says something else of itself"


def test_a_term_ends_with_the_session_of_its_controller():
    bench = ControllerBench()
    bench.store.txn([], [Put(bench.keys.controller, b"1")], tag="")
    bench.watch()
    assert bench.resigned is None
    bench.store.txn([], [Delete(bench.keys.controller)], tag="")
    bench.watch()
    assert bench.resigned == "the controller's session has ended"


@pytest.mark.parametrize("wanted", [False, True])
def test_lines_about_single_partitions_are_for_who_wants_them(wanted):
    bench = ControllerBench(config=ClusterConfig(log_partitions=wanted))
    bench.logs.clear()
    bench.create()
    found = {one.event for one in bench.logs}
    of_partitions = {
        "partition_state_changed",
        "replica_state_changed",
        "control_request_sent",
        "control_request_answered",
    }
    assert found & of_partitions == (of_partitions if wanted else set())


def test_how_long_an_election_took_is_from_the_loss_on():
    bench = ControllerBench()
    bench.create()
    timer = bench.controller.metrics.election_time
    before = timer.sum_ms
    bench.now_ms = 5000
    bench.lose(1)
    assert (timer.sum_ms - before, timer.max_ms) == (0, 0), "the store in memory takes no time"


def test_a_request_that_failed_is_sent_again_after_a_pause():
    bench = ControllerBench()
    bench.answering.discard(3)
    bench.create()
    bench.take_sent()
    bench.event(Answered(3, epoch_of(bench, 3), None))
    assert not bench.send(3)
    bench.now_ms += 99
    assert not bench.send(3)
    bench.now_ms += 1
    assert bench.send(3)
    bench.event(Answered(3, epoch_of(bench, 3), UpdateMetadataResponse(error_code=-1)))
    assert not bench.send(3), "an error that says nothing is none, either"


def live(broker, *listeners, rack=None):
    record = BrokerRecord(broker, "m", "d", "i", [ListenerRecord(*one) for one in listeners], rack, False, [])
    return type("Live", (), {"record": record})()


BROKERS = {
    1: live(1, ("IN", "SSL", "one", 91), ("OUT", "PLAINTEXT", "public", 11)),
    2: live(2, ("OUT", "SASL_SSL", "two", 12), rack="r"),
    4: live(4, ("IN", "STRANGE", "four", 94)),
}


def view(number, leader):
    return PartitionView("t", ID, number, 6, leader, 4, (1, 2), 8, (1, 2))


def test_followers_hear_where_their_leaders_are_for_brokers():
    leads = {Named("t", n): Lead(view(n, leader), False) for n, leader in enumerate((4, 1, 2, 3, -1, 1))}
    request = RequestBuilder(9, 7, "IN").build(Batch(leads, {}, False), 55, BROKERS)
    assert request.live_leaders == [
        LeaderAndIsrLiveLeader(broker_id=1, host_name="one", port=91),
        LeaderAndIsrLiveLeader(broker_id=4, host_name="four", port=94),
    ]
    assert (request.controller_id, request.controller_epoch, request.broker_epoch, request.type) == (9, 7, 55, 1)


@pytest.mark.parametrize(("full", "kind"), [(False, 1), (True, 2)])
def test_everybody_hears_of_every_listener(full, kind):
    request = RequestBuilder(9, 7, "IN").build(Batch({}, {Named("t", 0): view(0, 1)}, True, full), 55, BROKERS)
    assert (request.type, request.controller_epoch, request.broker_epoch) == (kind, 7, 55)
    assert [(one.id, one.rack) for one in request.live_brokers] == [(1, None), (2, "r"), (4, None)]
    assert [one.endpoints for one in request.live_brokers] == [
        [
            UpdateMetadataEndpoint(port=91, host="one", listener="IN", security_protocol=1),
            UpdateMetadataEndpoint(port=11, host="public", listener="OUT", security_protocol=0),
        ],
        [UpdateMetadataEndpoint(port=12, host="two", listener="OUT", security_protocol=3)],
        [UpdateMetadataEndpoint(port=94, host="four", listener="IN", security_protocol=0)],
    ]
