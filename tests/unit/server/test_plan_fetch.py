"""What of each partition answers a fetch: the budget over them in their order, errors, whom it is not meant for."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import NOT_KNOWN, EpochEnd
from mpbroker.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from mpbroker.server import replica_read
from mpbroker.server.replica_read import LARGEST_ANSWER_BYTES, PartitionRead, check_leadership, plan_fetch
from mpbroker.shm.cluster_table import NOBODY

UNKNOWN, NOT_LEADER = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
RANGE, FENCED, NEWER = ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
IDS = {"t": b"t" * 16, "u": b"u" * 16}


class World:
    """Topics t (rows 10, 11, 12) and u (row 0); each row has a batch of 50 bytes, unless `sizes` says otherwise.
    `found`: by row, in place of a plan."""

    def __init__(self, monkeypatch, *, replicated=False, in_cluster=False):
        self.sizes, self.found, self.asked, self.kinds = {}, {}, [], {"t": "producer", "u": "producer"}
        self.ends, self.aborted = NOT_KNOWN, (0, [(7, 3)])
        self.monkeypatch = monkeypatch
        topics = {
            name: SimpleNamespace(
                id=IDS[name],
                partitions=rows,
                settings=SimpleNamespace(compression_type="producer", leader_replication_throttled_replicas=()),
            )
            for name, rows in (("t", [10, 11, 12]), ("u", [0]))
        }
        self.topics = topics
        log = SimpleNamespace(is_replicated=lambda: replicated, aborted=lambda plan, offset: self.aborted)
        self.context = SimpleNamespace(
            config=SimpleNamespace(fetch_max_bytes=1000),
            cluster="cluster" if in_cluster else None,
            metadata=SimpleNamespace(topic=topics.get, topic_by_id={one.id: one for one in topics.values()}.get),
            log_manager=SimpleNamespace(
                find=self._find,
                state=lambda ordinal: f"state {ordinal}",
                end_of_epoch=lambda *words: self.ends,
                log=log,
            ),
        )
        self.patch("selects_by_rack", lambda context, rack: False)
        self.patch("lists", lambda context, topic, partition: False)

    def patch(self, name, value):
        self.monkeypatch.setattr(replica_read, name, value)

    def _find(self, ordinal, offset, bound, limit, oversized, topic_id):
        self.asked.append((ordinal, offset, limit, oversized))
        assert topic_id == (IDS["u"] if ordinal == 0 else IDS["t"])
        size = self.sizes.get(ordinal, 50)
        length = size if oversized or size <= limit else 0
        plan = SimpleNamespace(
            length=length, leader_epoch=5, high_watermark=9, last_stable=8, log_start=2, aborted_end=100
        )
        return self.found.get(ordinal, 0), plan

    def plan(self, *asked, version=11, most_bytes=LARGEST_ANSWER_BYTES, first_look=False, **fields):
        """`asked`: (topic, partition), or a FetchPartition in the partition's place."""
        topics = []
        for name, one in asked:
            row = (
                one if isinstance(one, FetchPartition) else FetchPartition(one, fetch_offset=4, partition_max_bytes=60)
            )
            topics.append(FetchTopic(name, IDS.get(name, b"x" * 16), [row]))
        message = FetchRequest(**{"max_bytes": 1000, "topics": topics} | fields)
        return plan_fetch(self.context, message, version, most_bytes, first_look)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


T = (("t", 0), ("t", 1), ("t", 2))


def rows(plan):
    return [(read.partition, read.error, read.length) for read in plan.reads()]


@pytest.mark.parametrize(
    ("bounds", "limits"),
    [
        ({"max_bytes": 1000}, [60, 60, 60]),
        ({"max_bytes": 110}, [60, 60, 10]),
        ({"max_bytes": 40}, [40, 0, 0]),
        ({"max_bytes": 1000, "most_bytes": 105}, [60, 55, 5]),
        ({"max_bytes": 10_000, "config": 101}, [60, 51, 1]),
    ],
)
def test_the_budget_goes_over_them_in_their_order(world, bounds, limits):
    world.context.config.fetch_max_bytes = bounds.get("config", 1000)
    plan = world.plan(*T, max_bytes=bounds["max_bytes"], most_bytes=bounds.get("most_bytes", LARGEST_ANSWER_BYTES))
    assert [(row, limit) for row, _, limit, _ in world.asked] == list(zip((10, 11, 12), limits, strict=True))
    assert [oversized for *_, oversized in world.asked] == [True, False, False]
    assert plan.total_bytes == sum(read.length for read in plan.reads()) and not plan.is_urgent


def test_the_first_with_data_may_be_larger_than_every_limit(world):
    world.sizes = {10: 0, 11: 5000}
    plan = world.plan(*T, max_bytes=100)
    assert [oversized for *_, oversized in world.asked] == [True, True, False]
    assert rows(plan) == [(0, 0, 0), (1, 0, 5000), (2, 0, 0)] and plan.total_bytes == 5000
    assert [read.plan is None for read in plan.reads()] == [True, False, True]
    assert [limit for _, _, limit, _ in world.asked] == [60, 60, 0]


@pytest.mark.parametrize(("size", "code"), [(50, ErrorCode.UNKNOWN_SERVER_ERROR), (0, 0)])
@pytest.mark.parametrize("where", ["request", "partition"])
def test_a_negative_limit_is_an_error_where_there_is_data(world, where, size, code):
    world.sizes = {10: size, 11: 0}
    one = FetchPartition(0, fetch_offset=4, partition_max_bytes=-1 if where == "partition" else 60)
    plan = world.plan(("t", one), ("t", 1), max_bytes=-1 if where == "request" else 1000)
    assert world.asked[0] == (10, 4, 0, True)
    assert [read.error for read in plan.reads()] == [code, 0] and plan.is_urgent is bool(code)
    assert world.asked[1][2] == (0 if where == "request" else 60), "for the first only"


@pytest.mark.parametrize(
    ("asked", "is_urgent"),
    [
        ([("t", 0)], False),
        ([("gone", 0)], True),
        ([("gone", 0), ("t", 0)], False),
        ([("t", 3)], True),
        ([("t", -1), ("u", 0)], False),
        ([("u", 1)], True),
    ],
)
def test_what_is_not_here_is_told_at_once_if_nothing_else_is(world, asked, is_urgent):
    assert world.plan(*asked).is_urgent is is_urgent


def test_what_is_not_here_comes_last_and_topics_stay_together(world):
    plan = world.plan(("gone", 0), ("t", 0), ("t", 7), ("u", 0), ("t", 1))
    assert [key[0] for key, _ in plan.topics] == ["t", "u", "t", "gone", "t"]
    assert rows(plan) == [(0, 0, 50), (0, 0, 50), (1, 0, 50), (0, UNKNOWN, 0), (7, UNKNOWN, 0)]
    plan = world.plan(("t", 0), ("t", 1), ("u", 0))
    assert [(key[0], len(reads)) for key, reads in plan.topics] == [("t", 2), ("u", 1)]


def test_by_id_from_version_13_on(world):
    assert rows(world.plan(("t", 0), version=13)) == [(0, 0, 50)]
    assert rows(world.plan(("gone", 0), version=13)) == [(0, UNKNOWN, 0)]
    assert rows(world.plan(("", 0), version=13)) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]


@pytest.mark.parametrize(
    ("error", "known"), [(RANGE, False), (NOT_LEADER, False), (ErrorCode.KAFKA_STORAGE_ERROR, False), (0, True)]
)
def test_an_error_is_told_at_once_and_nothing_of_the_log(world, error, known):
    world.found[10] = error
    plan = world.plan(("t", 0))
    [read] = plan.reads()
    found = (read.error, read.high_watermark, read.last_stable_offset, read.log_start, read.length, read.leader_epoch)
    assert found == ((0, 9, 8, 2, 50, 5) if known else (error, -1, -1, -1, 0, 5))
    assert plan.is_urgent is not known and (read.plan is None) is not known


@pytest.mark.parametrize(
    ("epoch", "error", "code"),
    [
        (-1, 0, 0),
        (-9, 0, 0),
        (5, 0, 0),
        (4, 0, FENCED),
        (6, 0, NEWER),
        (4, RANGE, FENCED),
        (4, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
        (5, RANGE, RANGE),
    ],
)
def test_the_leaders_epoch_counts_before_the_offset(world, epoch, error, code):
    world.found[10] = error
    one = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=4, partition_max_bytes=60)
    [read] = world.plan(("t", one)).reads()
    assert read.error == code


@pytest.mark.parametrize("replica", [-2, -1, 0, 3])
def test_a_broker_that_is_alone_has_no_followers(world, replica):
    state = ReplicaState(replica_id=replica, replica_epoch=-1)
    for version, fields in ((11, {"replica_id": replica}), (15, {"replica_state": state})):
        [read] = world.plan(("t", 0), version=version, **fields).reads()
        assert read.error == (NOT_LEADER if replica >= 0 else 0)


@pytest.mark.parametrize(
    ("ends", "error", "code", "diverging"),
    [
        (EpochEnd(3, 4), 0, 0, None),
        (EpochEnd(3, 3), 0, 0, EpochEnd(3, 3)),
        (EpochEnd(2, 9), 0, 0, EpochEnd(2, 9)),
        (EpochEnd(2, 9), RANGE, 0, EpochEnd(2, 9)),
        (NOT_KNOWN, 0, RANGE, None),
        (EpochEnd(3, 4), RANGE, RANGE, None),
        (EpochEnd(2, 9), NOT_LEADER, NOT_LEADER, None),
    ],
    ids=["same", "ended before", "older", "out of range", "not known", "beyond the end", "not led here"],
)
def test_a_reader_whose_last_epoch_ended_before_hears_where(world, ends, error, code, diverging):
    world.ends, world.found[10] = ends, error
    one = FetchPartition(0, fetch_offset=4, last_fetched_epoch=3, partition_max_bytes=60)
    plan = world.plan(("t", one))
    [read] = plan.reads()
    assert (read.error, read.diverging, plan.is_urgent) == (code, diverging, bool(code or diverging))
    if diverging:
        told = (read.high_watermark, read.last_stable_offset, read.log_start, read.length, read.plan)
        assert told == (9, 8, 2, 0, None)


def test_without_a_last_epoch_nobody_diverges(world):
    world.ends = EpochEnd(-1, 0)
    one = FetchPartition(0, fetch_offset=4, last_fetched_epoch=-1, partition_max_bytes=60)
    assert rows(world.plan(("t", one))) == [(0, 0, 50)]


@pytest.mark.parametrize(
    ("isolation", "size", "offset", "aborted", "expected"),
    [
        (1, 50, 4, (0, [(7, 3)]), (0, [(7, 3)], 50, 9)),
        (0, 50, 4, (0, [(7, 3)]), (0, [], 50, 9)),
        (1, 0, 4, (0, [(7, 3)]), (0, [], 0, 9)),
        (1, 50, 99, (0, [(7, 3)]), (0, [(7, 3)], 50, 9)),
        (1, 50, 100, (0, [(7, 3)]), (0, [], 50, 9)),
        (1, 50, 4, (ErrorCode.KAFKA_STORAGE_ERROR, []), (ErrorCode.KAFKA_STORAGE_ERROR, [], 0, -1)),
    ],
    ids=["committed", "all", "no records", "the last", "behind them", "not to be read"],
)
def test_who_reads_what_is_committed_hears_what_was_aborted(world, isolation, size, offset, aborted, expected):
    world.sizes, world.aborted = {10: size}, aborted
    one = FetchPartition(0, fetch_offset=offset, partition_max_bytes=60)
    [read] = world.plan(("t", one), isolation_level=isolation).reads()
    assert (read.error, read.aborted, read.length, read.high_watermark) == expected
    assert read.committed_only is bool(isolation)


@pytest.mark.parametrize(("version", "kind", "code"), [(9, "zstd", 76), (10, "zstd", 0), (9, "producer", 0)])
def test_who_cannot_read_zstd_is_refused_at_its_topics(world, version, kind, code):
    world.topics["t"].settings.compression_type = kind
    plan = world.plan(("t", 0), ("u", 0), version=version)
    assert rows(plan) == [(0, code, 0 if code else 50), (0, 0, 50)]
    assert plan.total_bytes == (50 if code else 100) and plan.is_urgent is bool(code)


@pytest.mark.parametrize(
    ("replica", "selects", "preferred", "sent"),
    [(-1, True, 3, True), (-1, True, NOBODY, False), (-1, False, 3, False), (2, True, 3, False), (-2, True, 3, False)],
)
def test_only_consumers_are_sent_to_another_replica(monkeypatch, replica, selects, preferred, sent):
    world = World(monkeypatch, replicated=True, in_cluster=True)
    world.patch("selects_by_rack", lambda context, rack: selects)
    world.patch("is_by_follower", lambda context, message: True)

    def send_away(context, asked, message, read):
        read.preferred = preferred
        return preferred != NOBODY

    world.patch("_send_away", send_away)
    plan = world.plan(("t", 0), ("t", 1), replica_id=replica)
    assert plan.is_urgent is sent and [row for row, *_ in world.asked] == ([] if sent else [10, 11])


@pytest.mark.parametrize(
    ("first_look", "follower", "is_told", "read"),
    [(True, True, True, []), (True, True, False, [10]), (False, True, True, [10]), (True, False, True, [10])],
)
def test_a_followers_position_is_counted_at_the_first_look(monkeypatch, first_look, follower, is_told, read):
    world, counted = World(monkeypatch, replicated=True, in_cluster=True), []
    world.patch("is_by_follower", lambda context, message: follower)
    world.patch("count_position", lambda context, topic, asked, message, read: counted.append(read) or is_told)
    plan = world.plan(("t", 0), replica_id=2, first_look=first_look)
    assert len(counted) == (first_look and follower) and [row for row, *_ in world.asked] == read
    assert plan.is_urgent is (not read or not follower)


@pytest.mark.parametrize(
    ("replica", "listed", "exceeded", "lengths", "throttled"),
    [
        (2, True, True, [0, 0], True),
        (2, True, False, [50, 50], True),
        (2, False, True, [50, 50], False),
        (-1, True, True, [50, 50], False),
        (0, True, True, [0, 0], True),
    ],
)
def test_a_throttled_follower_gets_no_records_while_the_rate_is_used_up(
    monkeypatch, replica, listed, exceeded, lengths, throttled
):
    world = World(monkeypatch, replicated=True, in_cluster=True)
    world.patch("is_by_follower", lambda context, message: True)
    world.patch("lists", lambda context, topic, partition: listed)
    world.patch("holds_back", lambda context, ordinal, follower: exceeded and follower == replica)
    plan = world.plan(("t", 0), ("t", 1), replica_id=replica)
    assert [(read.length, read.throttled) for read in plan.reads()] == [(length, throttled) for length in lengths]
    assert plan.total_bytes == sum(lengths) and not plan.is_urgent
    assert [limit for _, _, limit, _ in world.asked] == [60, 60]


@pytest.mark.parametrize(("version", "by_id"), [(12, False), (13, True), (14, True)])
def test_an_id_names_a_topic_from_version_13_on(world, version, by_id):
    for name, topic_id, is_found in (("", IDS["t"], by_id), ("t", bytes(16), not by_id)):
        topics = [FetchTopic(name, topic_id, [FetchPartition(0, partition_max_bytes=60)])]
        [read] = plan_fetch(world.context, FetchRequest(max_bytes=1000, topics=topics), version).reads()
        assert (read.length > 0) is is_found


def test_without_any_budget_one_batch_is_sent(world):
    plan = world.plan(*T, max_bytes=0)
    assert rows(plan) == [(0, 0, 50), (1, 0, 0), (2, 0, 0)] and not plan.is_urgent


def test_the_first_epoch_of_all_is_compared_too(world):
    world.ends = EpochEnd(0, 3)
    one = FetchPartition(0, fetch_offset=4, last_fetched_epoch=0, partition_max_bytes=60)
    [read] = world.plan(("t", one)).reads()
    assert (read.diverging, read.length) == (EpochEnd(0, 3), 0)


@pytest.mark.parametrize(
    ("fields", "aborted", "records"),
    [
        ({}, None, 9),
        ({"length": 0}, None, b""),
        ({"committed_only": True}, [AbortedTransaction(7, 3)], 9),
        ({"committed_only": True, "aborted": []}, [], 9),
        ({"committed_only": True, "error": RANGE, "length": 0}, None, b""),
        ({"error": 76, "length": 0}, [AbortedTransaction(7, 3)], None),
        ({"error": UNKNOWN, "ordinal": -1, "length": 0, "aborted": []}, [], b""),
        ({"error": 103, "ordinal": -1, "length": 0, "aborted": []}, None, b""),
        ({"ordinal": 0}, None, 9),
    ],
)
def test_what_is_told_of_a_partition(fields, aborted, records):
    read = PartitionRead(3, **{"ordinal": 5, "high_watermark": 9, "length": 9, "aborted": [(7, 3)]} | fields)
    assert read.to_message() == PartitionData(
        partition_index=3,
        error_code=fields.get("error", 0),
        high_watermark=9,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging_epoch=None,
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
    )
    read.diverging, read.preferred = EpochEnd(2, 8), 4
    told = read.to_message()
    assert (told.diverging_epoch, told.preferred_read_replica) == (EpochEndOffset(epoch=2, end_offset=8), 4)


@pytest.mark.parametrize(
    ("asked", "leads", "code"),
    [
        (-1, True, 0),
        (5, True, 0),
        (4, True, FENCED),
        (6, True, NEWER),
        (-1, False, NOT_LEADER),
        (5, False, NOT_LEADER),
        (4, False, FENCED),
    ],
)
def test_who_leads_and_in_which_epoch(asked, leads, code):
    state = SimpleNamespace(leader_epoch=5, role=replica_read.LEADER if leads else replica_read.LEADER + 1)
    assert check_leadership(state, asked) == code
