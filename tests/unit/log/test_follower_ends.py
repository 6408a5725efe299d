"""What a leader's answer makes of a follower's ends, and which answers it does not take: at each bound, beside it."""

import pytest

from mpbroker._native import LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from mpbroker.shm.process_table import ProcessRow
from tests.unit.log.test_follower_runs import SIZE, batch, plain, replica
from tests.unit.log.test_followers_transactions import Replica

OPTIONS = LogOptions(segment_bytes=1 << 20, index_interval_bytes=4096)
PROCESS = 118


def answered(one: Replica, records: bytes = b"", **fields: int) -> tuple[int, ...]:
    """An answer of the leader of epoch 9, taken at the follower's end unless `fields` say something else."""
    told = {"offset": one.log.state(0).leo, "leader_epoch": 9, "leader_hw": 0, "leader_log_start": 0} | fields
    return one.log.append_follower(0, records=records, options=OPTIONS, now_ms=60, **told)


@pytest.fixture
def ten(tmp_path) -> Replica:
    """Offsets 0 to 9, of which 6 are replicated; the log begins at 2."""
    one = replica(tmp_path / "one")
    assert answered(one, b"".join(plain(5)), leader_hw=6, leader_log_start=2) == (0, 5, 10, 6, 1, 2)
    return one


@pytest.mark.parametrize(
    ("leader_hw", "leader_log_start", "hw", "log_start"),
    [
        (0, 0, 6, 2),  # both go forward only
        (5, 1, 6, 2),
        (6, 2, 6, 2),
        (7, 2, 7, 2),
        (10, 3, 10, 3),
        (11, 2, 10, 2),  # no further than the log goes
        (6, 3, 6, 3),
        (6, 6, 6, 6),
        (6, 7, 6, 2),  # not above what is replicated
        (7, 7, 7, 7),
        (99, 10, 10, 10),
        (99, 11, 10, 2),
    ],
)
def test_the_ends_that_an_answer_without_records_tells(ten, leader_hw, leader_log_start, hw, log_start):
    answer = answered(ten, leader_hw=leader_hw, leader_log_start=leader_log_start)
    assert answer == (0, 0, 10, hw, 1, log_start)
    state = ten.log.state(0)
    assert (state.leo, state.hw, state.lso, state.log_start) == (10, hw, hw, log_start)


@pytest.mark.parametrize(("leader_hw", "hw"), [(6, 6), (11, 11), (12, 12), (13, 12)])
def test_the_ends_that_an_answer_with_records_tells(ten, leader_hw, hw):
    assert answered(ten, batch(10, 5, 3), leader_hw=leader_hw, leader_log_start=4) == (0, 1, 12, hw, 3, 4)
    state = ten.log.state(0)
    assert (state.leo, state.hw, state.lso, state.log_start) == (12, hw, hw, 4)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"offset": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 11}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"leader_epoch": 8}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 10}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_of_another_time_nothing_is_taken(ten, fields, code):
    answer = answered(ten, batch(10, 5), leader_hw=99, leader_log_start=5, **fields)
    state = ten.log.state(0)
    if code == 0:
        assert answer == (0, 1, 12, 12, 1, 5)
        return
    assert answer == (code, 0, -1, -1, 0, 0)
    assert (state.leo, state.hw, state.log_start) == (10, 6, 2)


def test_a_leader_takes_no_answer_of_a_leader(ten):
    assert ten.log.become(0, ReplicaRole.LEADER, 10, 2, [0, 1], (0, 1), 1, 1, 0, leader=1) == 0
    for epoch in (9, 10):
        assert answered(ten, batch(10, 5), leader_epoch=epoch)[:2] == (ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert ten.log.state(0).leo == 10


@pytest.mark.parametrize(
    ("base", "epoch", "code"),
    [
        (10, 9, 0),
        (11, 9, 0),  # a compacted log has gaps
        (9, 9, ErrorCode.OFFSET_OUT_OF_RANGE),
        (10, 10, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_batch_neither_goes_back_nor_is_of_a_later_leader(ten, base, epoch, code):
    """What the answer says of the ends counts all the same."""
    taken = 0 if code else 1
    end = base + 2 if taken else 10
    epoch_known = epoch if taken else 1
    assert answered(ten, batch(base, 5, epoch), leader_hw=8, leader_log_start=3) == (
        code,
        taken,
        end,
        8,
        epoch_known,
        3,
    )


def test_where_the_disk_is_full_nothing_is_taken_at_all(ten):
    ten.log.refuse_appends(0, True)
    assert answered(ten, batch(10, 5), leader_hw=9, leader_log_start=3) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        0,
        -1,
        -1,
        0,
        0,
    )
    assert (ten.log.state(0).hw, ten.log.state(0).log_start) == (6, 2)
    ten.log.refuse_appends(0, False)
    assert answered(ten, batch(10, 5), leader_hw=9)[:4] == (0, 1, 12, 9)


def test_every_batch_is_counted_with_its_bytes(tmp_path):
    one = replica(tmp_path / "one")
    row = ProcessRow(one.core, PROCESS)
    before = [row.counter(Counter.LOG_APPENDS), row.counter(Counter.LOG_APPEND_BYTES)]
    assert answered(one, b"".join(plain(6)))[:2] == (0, 6)
    after = [row.counter(Counter.LOG_APPENDS), row.counter(Counter.LOG_APPEND_BYTES)]
    assert [now - then for now, then in zip(after, before, strict=True)] == [6, 6 * SIZE]


def test_part_of_a_batch_at_the_end_is_asked_for_again(ten):
    whole, cut = batch(10, 5), batch(12, 6)[:-1]
    assert answered(ten, whole + cut)[:3] == (0, 1, 12)
    assert answered(ten, cut)[:3] == (0, 0, 12)
    assert answered(ten, batch(12, 6))[:3] == (0, 1, 14)


def test_a_transaction_holds_the_stable_end_from_its_first_batch_on(ten):
    fields = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    assert answered(ten, batch(10, 5), leader_hw=99)[:4] == (0, 1, 12, 12)
    opens = batch(12, 5, base_sequence=0, **fields)
    assert answered(ten, opens, leader_hw=99)[:4] == (0, 1, 14, 14)
    assert ten.log.state(0).lso == 12
    assert answered(ten, batch(14, 5, base_sequence=2, **fields) + batch(16, 5), leader_hw=99)[:4] == (0, 2, 18, 18)
    assert (ten.log.state(0).lso, ten.log.state(0).open_transactions) == (12, 1)


def test_a_run_has_the_newest_time_and_the_offset_of_its_last_record(tmp_path):
    """TIMES of the batches: 50 90 70 90 95 95 10 20; of equal ones the first counts."""
    found = []
    for count in range(1, 9):
        one = replica(tmp_path / str(count))
        assert answered(one, b"".join(plain(count)))[:2] == (0, count)
        found.append((one.log.state(0).max_timestamp, one.log.state(0).max_timestamp_offset))
    assert found == [(50, 1), (90, 3), (90, 3), (90, 3), (95, 9), (95, 9), (95, 9), (95, 9)]


def test_no_row_is_followed_without_a_fetcher(ten):
    assert ten.log.followed(0, 1) == (0, [(0, bytes(range(16)), 0, 0, 9, 10, 1, 2, 6)])
    assert ten.log.followed(0, 2)[1] == ten.log.followed(0, 1, 0)[1] == ten.log.followed(0, 1)[1]
    assert ten.log.followed(1, 2) == ten.log.followed(0, 1, 1) == ten.log.followed(0, 1, 5000) == (0, [])
    with pytest.raises(ValueError, match="at least one fetcher"):
        ten.log.followed(0, 0)
    assert ten.log.stop(0) == 0 and ten.log.followed(0, 1) == (0, [])
