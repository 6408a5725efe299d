"""Up to where somebody may read, and which error a topic id gets that is no topic's any more."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.server import replica_read
from mpbroker.server.replica_read import _bound, _no_such_id, _place, _send_away, fill
from mpbroker.shm.cluster_table import NOBODY


@pytest.mark.parametrize(
    ("replica", "version", "cluster", "committed", "bound"),
    [
        (2, 12, True, 0, "READ_TO_END"),
        (-1, 10, True, 0, "READ_TO_HIGH_WATERMARK"),
        (-1, 10, True, 1, "READ_TO_STABLE"),
        (-1, 11, True, 0, "READ_REPLICA_TO_HIGH_WATERMARK"),
        (-1, 11, True, 1, "READ_REPLICA_TO_STABLE"),
        (-1, 11, False, 0, "READ_TO_HIGH_WATERMARK"),
        (-1, 11, False, 1, "READ_TO_STABLE"),
    ],
)
def test_who_may_read_from_followers_and_up_to_where(replica, version, cluster, committed, bound):
    context = SimpleNamespace(cluster=object() if cluster else None)
    message = FetchRequest(replica_id=replica, isolation_level=committed)
    assert _bound(context, message, version) == getattr(replica_read, bound)


@pytest.mark.parametrize(
    ("name", "partition", "error"),
    [
        ("", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", 0, ErrorCode.INCONSISTENT_TOPIC_ID),
        ("t", 1, ErrorCode.INCONSISTENT_TOPIC_ID),
        ("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_id_that_is_gone(name, partition, error):
    topics = {"t": SimpleNamespace(partitions=[4, 5])}
    context = SimpleNamespace(metadata=SimpleNamespace(topic=topics.get))
    assert _no_such_id(context, name, partition) == error


def test_what_was_read_stands_before_errors_and_unknown_ids_before_the_rest():
    def row(was_looked_at, error=0):
        return ("t", b""), SimpleNamespace(was_looked_at=was_looked_at, error=error)

    rows = [row(False), row(False, ErrorCode.UNKNOWN_TOPIC_ID), row(True, 3), row(True)]
    assert [_place(one) for one in rows] == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("refusal", "preferred", "sent"), [(0, 3, True), (0, NOBODY, False), (74, 3, False), (None, 3, False)]
)
def test_a_consumer_that_is_sent_elsewhere_is_told_where_the_log_ends(monkeypatch, refusal, preferred, sent):
    state = None if refusal is None else SimpleNamespace(hw=9, lso=8, log_start=2, leader_epoch=5)
    asked, checked = SimpleNamespace(current_leader_epoch=-7, fetch_offset=4), []
    monkeypatch.setattr(replica_read, "check_leadership", lambda *words: checked.append(words) or refusal)
    monkeypatch.setattr(replica_read, "preferred_replica", lambda _, *words: checked.append(words) or preferred)
    context = SimpleNamespace(log_manager=SimpleNamespace(state=lambda ordinal: state))
    read = SimpleNamespace(ordinal=6, preferred=NOBODY, high_watermark=-1, committed_only=None)
    message = FetchRequest(isolation_level=1, rack_id="r")
    assert _send_away(context, asked, message, read) is sent
    if refusal == 0:
        assert checked == [(state, -1), (6, 4, "r")] and read.preferred == preferred
    if sent:
        assert (read.high_watermark, read.last_stable_offset, read.log_start, read.leader_epoch) == (9, 8, 2, 5)
        assert read.committed_only is True
    else:
        assert read.high_watermark == -1


@pytest.mark.parametrize(
    ("results", "whole"), [([(0, 4), (0, 2)], True), ([(6, 4), (0, 2)], False), ([(0, 4), (0, 1)], False)]
)
def test_what_was_planned_is_copied_into_its_places_or_planned_again(results, whole):
    """A log that changed underneath gives an error, or less than there was."""
    reads = [SimpleNamespace(plan="first"), SimpleNamespace(plan=None), SimpleNamespace(plan="second")]
    given = []

    def read_into(plan, place):
        given.append((plan, len(place)))
        error, count = results[len(given) - 1]
        place[:count] = bytes([len(given)]) * count
        return error, count

    context = SimpleNamespace(log_manager=SimpleNamespace(read_into=read_into))
    answer = bytearray(9)
    done = fill(context, SimpleNamespace(reads=lambda: reads), memoryview(answer), [(1, 4), (6, 2)])
    assert done is whole and given == [("first", 4), ("second", 2)][: 1 if results[0][0] else 2]
    if whole:
        assert answer == bytes([0, 1, 1, 1, 1, 0, 2, 2, 0])
