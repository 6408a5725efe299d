"""Transactions on a follower, against its leader: what a replica knows of them is what its log says, also after a
truncation. The oracle is another replica that never had what was cut."""

import os
import random

import pytest

from mpbroker._native import NO_REQUEST, READ_REPLICA_TO_HIGH_WATERMARK, Log, LogOptions, seal_batch
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.record_batch import iterate_batches
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core

OPTIONS = LogOptions(segment_bytes=900, index_interval_bytes=200)
WHOLE = LogOptions(segment_bytes=1 << 20)  # no snapshot of a segment's end is asked of the oracle
SEEDS = range(400 if os.environ.get("LONG") else 6)
LEADER, FOLLOWER, IDS = 0, 1, (0, 1, 64)  # two of them in one chain


class Replica:
    """One log of one partition, in memory of its own."""

    def __init__(self, path, role=ReplicaRole.FOLLOWER, isr=(LEADER,)) -> None:
        self.path = path
        path.mkdir()
        self.core = small_core(replicated=True).core
        self.core.transactions_ready = 1
        self.log = Log(self.core, [str(path)], 118)
        assert self.log.create(0, bytes(range(16)), 0, 0, 0, "t-0", 0, 1) == 0
        own = LEADER if role == ReplicaRole.LEADER else FOLLOWER
        assert self.log.become(0, role, 1, 1, [LEADER, FOLLOWER], isr, own, 1, 0, leader=LEADER) == 0

    def take(self, batches: list[bytes], high_watermark: int) -> None:
        leo = self.log.state(0).leo
        code, taken, *_ = self.log.append_follower(0, 1, leo, b"".join(batches), high_watermark, 0, OPTIONS, 9)
        assert (code, taken) == (0, len(batches))

    def truncate(self, offset: int) -> None:
        assert self.log.truncate_follower(0, offset, 1, 7) == 0

    def batches(self) -> list[bytes]:
        content = b"".join(each.read_bytes() for each in sorted((self.path / "t-0").glob("*.log")))
        return [bytes(batch) for _, batch in iterate_batches(content)]

    def known(self) -> dict[str, object]:
        """What must follow from the log alone; times of arrival do not."""
        state = self.log.state(0)
        _, open_rows = self.log.open_transactions(0)
        _, entries = self.log.producer_entries(0)
        index = {each.name: each.read_bytes() for each in (self.path / "t-0").glob("*.txnindex")}
        return {
            "ends": (state.leo, state.hw, state.lso),
            "open": sorted((row[0], row[1], row[2], row[3]) for row in open_rows),
            "count": state.open_transactions,
            "producers": sorted(row[:5] + row[6:] for row in entries),
            "aborted": {name: content for name, content in index.items() if content},
        }


def write(leader: Replica, rng: random.Random) -> None:
    """Some step that a partition's leader may take: batches in and outside of transactions, markers, raised epochs."""
    producer = rng.choice(IDS)
    rows = {row[0]: row for row in leader.log.producer_entries(0)[1]}
    epoch, last = (rows[producer][1], rows[producer][2]) if producer in rows else (0, -1)
    is_open = producer in rows and rows[producer][7] >= 0
    records = [(b"k", bytes(rng.randrange(1, 60)), 1)] * rng.randrange(1, 4)
    kind = rng.randrange(6)
    if kind == 0 or (kind == 1 and is_open):
        leader.log.append(0, NO_REQUEST, 0, encode_batch(records), OPTIONS, 5)
    elif kind <= 3:
        fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": last + 1}
        if kind > 1:
            assert leader.log.verify(0, producer, epoch) == 0
        batch = encode_batch(records, transactional=kind > 1, **fields)
        assert leader.log.append(0, NO_REQUEST, 0, batch, OPTIONS, 5).error == 0
    else:
        raised = epoch + (rng.random() < 0.3)
        assert leader.log.append_marker(0, producer, raised, 7, rng.random() < 0.5, OPTIONS, 5).error == 0


def leader_of(path, rng: random.Random, steps: int = 40) -> Replica:
    leader = Replica(path, ReplicaRole.LEADER)
    for _ in range(steps):
        write(leader, rng)
    return leader


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_truncation_all_is_as_if_the_rest_had_never_come(tmp_path, seed):
    rng = random.Random(seed)
    leader = leader_of(tmp_path / "leader", rng)
    batches = leader.batches()
    kept = rng.randrange(len(batches) + 1)
    high = sum(1 for _ in batches[:kept])  # of offsets below, so many batches have one each at least
    follower, oracle = Replica(tmp_path / "follower"), Replica(tmp_path / "oracle")
    follower.take(batches, high)
    oracle.take(batches[:kept], high)
    follower.truncate(oracle.log.state(0).leo)
    assert follower.known() == oracle.known()
    assert follower.batches() == batches[:kept]
    end = leader.log.state(0).leo
    follower.take(batches[kept:], end)
    assert follower.known() == leader.known()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_knows_of_transactions_what_its_leader_knows(tmp_path, seed):
    rng = random.Random(seed)
    leader = leader_of(tmp_path / "leader", rng)
    batches, follower = leader.batches(), Replica(tmp_path / "follower")
    while batches:
        count = rng.randrange(1, 6)
        follower.take(batches[:count], rng.randrange(follower.log.state(0).leo + 1))
        batches = batches[count:]
    follower.take([], leader.log.state(0).leo)
    assert follower.known() == leader.known()


def led_with_a_follower(path) -> Replica:
    return Replica(path, ReplicaRole.LEADER, (LEADER, FOLLOWER))


def has(leader: Replica, offset: int) -> None:
    """The follower fetches: it has everything below."""
    assert leader.log.follower_fetched(0, FOLLOWER, -1, 1, offset, -1, 0, 0)[0] == 0


def undecided(batches: list[bytes], high_watermark: int) -> int:
    """The last stable offset, naively: below the high watermark, and below each transaction without a marker below."""
    firsts: dict[int, int] = {}
    least = high_watermark
    for info, _ in iterate_batches(b"".join(batches)):
        if info.attributes & 0x20:
            first = firsts.pop(info.producer_id, high_watermark)
            if info.base_offset >= high_watermark:
                least = min(least, first)
        elif info.attributes & 0x10:
            firsts.setdefault(info.producer_id, info.base_offset)
    return min([least, *firsts.values()])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_marker_counts_when_the_high_watermark_has_passed_it(tmp_path, seed):
    rng = random.Random(seed)
    leader, last = led_with_a_follower(tmp_path / "leader"), 0
    for _ in range(40):
        write(leader, rng)
        if rng.random() < 0.4:
            state = leader.log.state(0)
            has(leader, rng.randrange(state.hw, state.leo + 1))
        state = leader.log.state(0)
        assert state.lso == undecided(leader.batches(), state.hw) and state.lso >= last
        last = state.lso
    follower = Replica(tmp_path / "follower")
    follower.take(leader.batches(), state.hw)
    assert follower.log.state(0).lso == state.lso


def test_many_ended_transactions_above_the_high_watermark_hold_it_together(tmp_path):
    leader, count = led_with_a_follower(tmp_path / "leader"), 40
    for producer in range(count):
        assert leader.log.verify(0, producer, 0) == 0
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        leader.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"v", 1)], **fields), WHOLE, 5)
    for producer in range(count):
        assert leader.log.append_marker(0, producer, 0, 7, True, WHOLE, 5).error == 0
    for offset in (count, count + 1, count + 16, 2 * count - 1):
        has(leader, offset)
        state = leader.log.state(0)
        assert state.hw == offset and state.lso <= offset - count  # never too far
    has(leader, 2 * count)
    assert leader.log.state(0).lso == 2 * count


def test_a_guard_is_good_until_the_next_marker(tmp_path):
    leader = Replica(tmp_path / "leader", ReplicaRole.LEADER)
    log, fields = leader.log, {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    batch = encode_batch([(b"k", b"v", 1)], transactional=True, **fields)
    assert log.guard(0, 9, 0, -7, None) == (0, -7)
    assert log.guard(0, 9, 0, -8, None) == (0, -7), "one question is enough"
    assert log.append(0, NO_REQUEST, 0, batch, WHOLE, 5).unverified
    assert log.append_marker(0, 9, 0, 7, True, WHOLE, 5).error == 0
    assert log.verify(0, 9, 0, None, -7) == 48
    assert log.append(0, NO_REQUEST, 0, batch, WHOLE, 5).unverified, "what was true before the marker is not any more"
    assert log.guard(0, 9, 0, -8, None) == (0, -8)
    assert log.verify(0, 9, -1, None, -8) == 0 and log.guard(0, 9, 0, -9, None) == (0, -9), "taken back"
    assert log.verify(0, 9, 0, None, -9) == 0 and log.guard(0, 9, 0, -10, None) == (0, 0), "nothing to ask"
    assert log.append(0, NO_REQUEST, 0, batch, WHOLE, 5).error == 0


def test_a_follower_that_becomes_leader_goes_on_with_its_producers_sequences(tmp_path):
    leader, follower = Replica(tmp_path / "leader", ReplicaRole.LEADER), Replica(tmp_path / "follower")

    def batch(sequence: int) -> bytes:
        return encode_batch([(b"k", b"v", 1)] * 2, producer_id=5, producer_epoch=0, base_sequence=sequence)

    def append(replica: Replica, sequence: int):
        return replica.log.append(0, NO_REQUEST, 0, batch(sequence), WHOLE, 5)

    for sequence in range(0, 14, 2):
        assert append(leader, sequence).error == 0
    follower.take(leader.batches()[:6], 4)  # the last one was acknowledged to nobody
    assert follower.log.become(0, ReplicaRole.LEADER, 2, 2, [LEADER, FOLLOWER], [FOLLOWER], FOLLOWER, 1, 0) == 0
    again = append(follower, 10)
    assert (again.error, again.duplicate, again.base_offset) == (0, True, 10), "answered as it was at the first leader"
    assert append(follower, 14).error == 45, "what the old leader had alone has to come again"
    assert (append(follower, 12).error, append(follower, 14).error) == (0, 0)
    assert follower.log.state(0).leo == 16


def test_what_ended_in_a_part_that_was_cut_holds_nothing_back(tmp_path):
    replica, other = led_with_a_follower(tmp_path / "replica"), Replica(tmp_path / "other", ReplicaRole.LEADER)
    who = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    assert replica.log.verify(0, 9, 0) == 0
    replica.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"v", 1)] * 5, transactional=True, **who), WHOLE, 5)
    assert replica.log.append_marker(0, 9, 0, 7, True, WHOLE, 5).error == 0
    assert replica.log.state(0).lso == 0, "nobody else has the marker"
    assert other.log.become(0, ReplicaRole.LEADER, 2, 2, [LEADER, FOLLOWER], [LEADER], LEADER, 1, 0) == 0
    for _ in range(8):
        other.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"v", 1)]), WHOLE, 5)
    assert replica.log.become(0, ReplicaRole.FOLLOWER, 2, 2, [LEADER, FOLLOWER], [], FOLLOWER, 1, 0, leader=LEADER) == 0
    assert replica.log.truncate_follower(0, 0, 2, 7) == 0
    code, *_ = replica.log.append_follower(0, 2, 0, b"".join(other.batches()), 4, 0, WHOLE, 9)
    state = replica.log.state(0)
    assert (code, state.leo, state.hw, state.lso) == (0, 8, 4, 4)


@pytest.mark.parametrize("producer", [0, 65])
@pytest.mark.parametrize("kept", range(9))
def test_what_a_row_has_forgotten_is_read_again_when_its_newest_batches_are_cut(tmp_path, producer, kept):
    """A row keeps five batches. Between them batches of no producer, and markers, which have no sequence."""
    leader = Replica(tmp_path / "leader", ReplicaRole.LEADER)
    for number in range(8):
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": number}
        assert leader.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"v", 1)], **fields), OPTIONS, 5).error == 0
        if number == 3:
            assert leader.log.append_marker(0, producer, 0, 7, True, OPTIONS, 5).error == 0
        assert leader.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"w", 1)]), OPTIONS, 5).error == 0
    batches = leader.batches()
    follower, oracle = Replica(tmp_path / "follower"), Replica(tmp_path / "oracle")
    follower.take(batches, 0)
    oracle.take(batches[: 2 * kept], 0)
    follower.truncate(2 * kept)
    assert follower.known() == oracle.known()
    assert oracle.known()["producers"] if kept else True


def test_a_batch_of_which_compaction_left_the_header_alone_is_one(tmp_path):
    """Its offsets count, its epoch too, and what lies behind it is found."""
    follower = Replica(tmp_path / "follower")
    batches = []
    for base in range(3):
        made = bytearray(encode_batch([(b"k", b"v", 1)]))
        if base == 1:
            del made[61:]
            made[57:61] = bytes(4)  # the count of records
            seal_batch(made)
        made[:8] = base.to_bytes(8, "big")
        made[12:16] = (1).to_bytes(4, "big")
        batches.append(bytes(made))
    assert len(batches[1]) == 61
    follower.take(batches, 3)
    assert follower.batches() == batches and follower.log.scan_epochs(0, 0) == (0, [(1, 0)])
    error, plan = follower.log.find(0, 2, READ_REPLICA_TO_HIGH_WATERMARK, 1 << 20)
    assert error == 0 and plan.length == len(batches[2])
    follower.truncate(2)
    assert follower.batches() == batches[:2] and follower.log.state(0).leo == 2
