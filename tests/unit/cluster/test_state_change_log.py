"""Lines of the log about partitions, replicas and requests: what an operator sees, and what only who asks for it."""

import pytest

from mpbroker.cluster.cluster_image import NO_LEADER
from mpbroker.cluster.controller_metrics import ControllerMetrics
from mpbroker.cluster.events import Log
from mpbroker.cluster.state_change_log import StateChangeLog
from mpbroker.cluster.wanted_state import Batch, Lead, Named, PartitionView, Stop
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from mpbroker.protocol.messages.update_metadata import UpdateMetadataResponse

ID = b"t" * 16


def view(leader=1, isr=(1, 2), epoch=4, replicas=(1, 2), **fields):
    return PartitionView("t", ID, 5, 6, leader, epoch, isr, 8, replicas, **fields)


def batch(roles=(), metadata=(), brokers=False, full=False):
    return Batch(
        {Named("t", n): item for n, item in enumerate(roles)},
        {Named("t", n): item for n, item in enumerate(metadata)},
        brokers,
        full,
    )


ABOUT = {"controller_epoch": 7, "topic": "t", "partition": 5}
TOLD = {"leader": 1, "leader_epoch": 4, "isr": "1,2", "partition_epoch": 8}
OFFLINE = Log("INFO", "partition_offline", {**ABOUT, "isr": "1,2"})


def partition_line(before, after, **told):
    return Log(
        "DEBUG", "partition_state_changed", {**ABOUT, "from": f"{before}Partition", "to": f"{after}Partition"} | told
    )


def replica_line(broker, before, after):
    fields = {**ABOUT, "replica": broker, "from": before, "to": after}
    return Log("DEBUG", "replica_state_changed", fields)


@pytest.mark.parametrize(
    ("before", "after", "offline", "lines"),
    [
        (view(), view(epoch=5), False, [partition_line("Online", "Online", **TOLD | {"leader_epoch": 5})]),
        (
            view(),
            view(NO_LEADER),
            True,
            [partition_line("Online", "Offline", **TOLD | {"leader": NO_LEADER})],
        ),
        (
            view(NO_LEADER),
            view(NO_LEADER),
            False,
            [partition_line("Offline", "Offline", **TOLD | {"leader": NO_LEADER})],
        ),
        (view(NO_LEADER), view(), False, [partition_line("Offline", "Online", **TOLD)]),
        (
            None,
            view(),
            False,
            [
                partition_line("NonExistent", "New"),
                partition_line("New", "Online", **TOLD),
                replica_line(1, "NonExistentReplica", "NewReplica"),
                replica_line(1, "NewReplica", "OnlineReplica"),
                replica_line(2, "NonExistentReplica", "NewReplica"),
                replica_line(2, "NewReplica", "OnlineReplica"),
            ],
        ),
        (
            view(offline=(2,)),
            view(),
            False,
            [partition_line("Online", "Online", **TOLD), replica_line(2, "OfflineReplica", "OnlineReplica")],
        ),
    ],
)
def test_a_partition_in_another_state(before, after, offline, lines):
    told = [OFFLINE] if offline else []
    assert StateChangeLog(7, False).partition_changed(before, after) == told
    assert StateChangeLog(7, True).partition_changed(before, after) == told + lines


def test_a_partition_that_is_deleted_goes_all_the_way():
    lines = StateChangeLog(7, True).partition_changed(view(replicas=(1,)), None)
    words = [(one.fields["from"], one.fields["to"]) for one in lines]
    assert words == [
        ("OnlinePartition", "OfflinePartition"),
        ("OfflinePartition", "NonExistentPartition"),
        ("OnlineReplica", "OfflineReplica"),
        ("OfflineReplica", "ReplicaDeletionStarted"),
        ("ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
        ("ReplicaDeletionSuccessful", "NonExistentReplica"),
    ]
    assert StateChangeLog(7, False).partition_changed(view(), None) == []
    new = StateChangeLog(7, False).partition_changed(None, view(NO_LEADER))
    assert new == [OFFLINE]


@pytest.mark.parametrize(
    ("sent", "kind", "partitions"),
    [
        (batch(metadata=[view(), view()], brokers=True), "UpdateMetadata", 2),
        (batch([Lead(view(), False)]), "LeaderAndIsr", 1),
        (batch([Stop("t", ID, 0, 4, True)]), "StopReplica", 1),
        (batch(full=True), "LeaderAndIsr", 0),
    ],
)
def test_a_request_is_named_with_what_it_has(sent, kind, partitions):
    about = {"controller_epoch": 7, "broker": 3, "request": kind, "partitions": partitions, "full": sent.full}
    assert StateChangeLog(7, False).request_sent(3, sent) == []
    assert StateChangeLog(7, True).request_sent(3, sent) == [Log("DEBUG", "control_request_sent", about)]
    for response, outcome in ((None, "no answer"), (UpdateMetadataResponse(error_code=11), "STALE_CONTROLLER_EPOCH")):
        line = Log("INFO", "control_request_answered", {**about, "outcome": outcome})
        assert StateChangeLog(7, False).request_answered(3, sent, response) == [line]
    usual = StateChangeLog(7, False).request_answered(3, sent, UpdateMetadataResponse())
    line = Log("INFO", "control_request_answered", {**about, "outcome": "NONE"})
    assert usual == ([line] if sent.full else [])
    [line] = StateChangeLog(7, True).request_answered(3, sent, UpdateMetadataResponse())
    assert (line.level, line.fields["outcome"]) == ("INFO" if sent.full else "DEBUG", "NONE")


def test_partitions_that_were_refused_have_lines_of_their_own():
    rows = [LeaderAndIsrPartitionError(partition_index=n, error_code=code) for n, code in enumerate((0, 11, 56))]
    response = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id=ID, partition_errors=rows)])
    sent = batch([Lead(view(), False)])
    refused = [
        Log("DEBUG", "partition_refused", {"topic_id": ID.hex(), "partition": n, "broker": 3, "error": error})
        for n, error in ((1, "STALE_CONTROLLER_EPOCH"), (2, "KAFKA_STORAGE_ERROR"))
    ]
    assert StateChangeLog(7, True).request_answered(3, sent, response)[1:] == refused
    assert StateChangeLog(7, False).request_answered(3, sent, response) == []


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (view(1), view(2), (1, 0)),
        (view(1), view(0), (1, 0)),
        (view(1), view(1, epoch=9), (0, 0)),
        (view(1), view(NO_LEADER), (0, 0)),
        (view(NO_LEADER), view(1, recovering=True), (1, 1)),
        (view(2, recovering=True), view(1, recovering=True), (1, 0)),
        (None, view(1), (0, 0)),
        (view(1), None, (0, 0)),
    ],
)
def test_an_election_is_counted_where_another_one_leads(before, after, counted):
    metrics = ControllerMetrics()
    metrics.partition_changed(before, after)
    assert (metrics.elections, metrics.unclean_elections) == counted


def test_a_term_begins_without_any_count():
    metrics = ControllerMetrics()
    counts = (metrics.elections, metrics.unclean_elections, metrics.transactions, metrics.conflicts, metrics.unknown)
    timers = (metrics.event_queue_time, metrics.election_time)
    assert counts == (0,) * 5 and [(one.count, one.sum_ms, one.max_ms) for one in timers] == [(0, 0, 0)] * 2
    assert timers[0] is not timers[1]
