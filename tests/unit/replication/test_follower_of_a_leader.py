"""A follower and its leader, both in this process: roles as a controller would give them, requests without a socket.

The follower's steps are the native ones, the leader is a request handler; what the fetcher process adds is the socket.
"""

import random

import pytest

from mpbroker._native import (
    READ_REPLICA_TO_HIGH_WATERMARK,
    READ_REPLICA_TO_STABLE,
    READ_TO_HIGH_WATERMARK,
    Log,
    LogOptions,
)
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.replication_throttle import LEADER_RATE
from mpbroker.config.sources import Given
from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import EpochStart, end_of_epoch
from mpbroker.replication.follower import Append, FetchLimits, LeaderFetch, OutOfRange, Truncate
from mpbroker.replication.leader_link import LeaderLink
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS, PartitionFlags, ReplicaRole
from mpbroker.shm.replication_quota import ReplicationQuota, summed
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.small_core import small_core
from tests.unit.replication.scripted_leader import FollowedRows
from tests.unit.server.test_produce_fetch import batch, produce
from tests.unit.server.test_waiting_for_locks import append, holder

LEADER, FOLLOWER = 0, 1
OPTIONS = LogOptions()
LIMITS = FetchLimits(wait_max_ms=0)


class Killed(BaseException):
    """The fetcher died here; its successor knows what the rows say."""


class DirectConnection:
    """Asks the leader's handler in this process."""

    def __init__(self, leader: InProcessBroker) -> None:
        self._leader = leader
        self._answer = None
        self.is_idle = True

    def ask(self, message, answer, version) -> None:
        self._answer = self._leader.call(message, version)
        assert isinstance(self._answer, answer)

    def read(self):
        return self._answer

    def close(self) -> None:
        pass


class FollowerWorld(FollowedRows):
    """Broker 1: its memory, its directory and its link to broker 0."""

    def __init__(self, path, leader: InProcessBroker, topic_id: bytes) -> None:
        self.path = path
        self.leader = leader
        self.topic_id = topic_id
        self.core = small_core(replicated=True).core
        self.clock = ManualClock()
        self.log = Log(self.core, [str(path)], 118)
        assert self.log.create(0, topic_id, 0, 0, 0, "t-0", 0, 1) == 0
        self.said: list[str] = []
        self.deadly = ""
        self.link = self.connect()

    def connect(self) -> LeaderLink:
        """As a fetcher's successor begins."""
        fetch = LeaderFetch(FOLLOWER, 1, LIMITS)
        self.link = LeaderLink(
            LEADER, fetch, self, self.clock, lambda: None, lambda event, **_: self.said.append(event), self._pass
        )
        self.link.connection = DirectConnection(self.leader)
        return self.link

    def kill_at(self, point: str) -> None:
        """The fetcher dies there, once."""
        self.deadly = point

    def _pass(self, point: str) -> None:
        if point == self.deadly:
            self.deadly = ""
            raise Killed

    def options(self, _ordinal: int) -> LogOptions:
        return OPTIONS

    def topic_name(self, _ordinal: int) -> str:
        return "t"

    def end_of_epoch(self, ordinal: int, epoch: int):
        epochs = [EpochStart(*each) for each in self.log.epochs(ordinal)[2]]
        return end_of_epoch(epochs, epoch, self.log.state(ordinal).leo)

    def follow(self, epoch: int) -> None:
        assert self.log.become(0, ReplicaRole.FOLLOWER, epoch, epoch, [0, 1], [], FOLLOWER, 1, 0, leader=LEADER) == 0

    def lead(self, epoch: int, isr=(1,)) -> None:
        assert self.log.become(0, ReplicaRole.LEADER, epoch, epoch, [0, 1], list(isr), FOLLOWER, 1, 0) == 0

    def fetch(self, times: int = 1) -> None:
        """So many rounds of the fetcher."""
        for _ in range(times):
            self.link.fetch.follow(self.rows())
            self.clock.advance(1000)
            try:
                if self.link.ask():
                    self.link.read()
            except Killed:
                self.connect()


@pytest.fixture
def leader(tmp_path):
    path = tmp_path / "leader"
    path.mkdir()
    broker = InProcessBroker(path, replicated=True)
    broker.topic_id = bytes(range(16))
    broker.create_topic("t", topic_id=broker.topic_id)
    lead(broker, 0)
    return broker


@pytest.fixture
def follower(tmp_path, leader):
    path = tmp_path / "follower"
    path.mkdir()
    made = FollowerWorld(path, leader, leader.topic_id)
    made.follow(0)
    return made


def lead(broker, epoch: int, isr=(0, 1)) -> None:
    assert broker.log.become(0, ReplicaRole.LEADER, epoch, epoch, [0, 1], list(isr), LEADER, 1, 0) == 0


def write(broker, *values: bytes) -> None:
    broker.call(produce(records=batch(*values), acks=1), 7)


def log_bytes(path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted((path / "t-0").glob("*.log")))


def same(leader, follower, tmp_path) -> bytes:
    found = log_bytes(tmp_path / "leader")
    assert found == log_bytes(tmp_path / "follower")
    ours, theirs = leader.log.state(0), follower.log.state(0)
    assert (theirs.leo, theirs.log_start) == (ours.leo, ours.log_start)
    return found


def test_it_gets_the_leaders_bytes_and_the_leader_learns_that_it_has_them(leader, follower, tmp_path):
    for number in range(20):
        write(leader, b"%d" % number * 50)
    assert leader.log.state(0).hw == 0
    follower.fetch(2)
    assert len(same(leader, follower, tmp_path)) > 1000
    assert leader.log.state(0).hw == 20 and follower.log.state(0).hw == 20
    assert leader.log.take_isr_proposals() == ([], False)


def test_its_successor_goes_on_from_the_end(leader, follower, tmp_path):
    rng = random.Random(7)
    for number in range(30):
        write(leader, b"%d" % number * rng.randrange(1, 200))
        if rng.random() < 0.5:
            follower.connect()  # the fetcher died: nothing it knew is left
        follower.fetch()
    follower.fetch(2)
    same(leader, follower, tmp_path)
    assert leader.log.state(0).hw == 30


def test_what_an_old_leader_wrote_alone_is_cut_where_the_logs_part(leader, follower, tmp_path):
    write(leader, b"both")
    follower.fetch(2)
    write(leader, b"only here", b"and this")  # leader of epoch 0, which nobody fetched any more
    follower.lead(1)
    assert leader.log.become(0, ReplicaRole.FOLLOWER, 1, 1, [0, 1], [], LEADER, 1, 0, leader=FOLLOWER) == 0
    lead(leader, 2, isr=(0,))  # elected again at once, with its own records
    write(leader, b"in epoch 2")
    follower.log.append(0, 2**32 - 1, 0, batch(b"x" * 300), OPTIONS, 1)
    follower.follow(2)
    follower.fetch(4)
    same(leader, follower, tmp_path)
    assert "replica_truncated" in follower.said
    assert follower.log.epochs(0)[2] == leader.log.epochs(0)[2] == [(0, 0), (2, 3)]


def test_one_that_is_too_far_behind_begins_anew_at_the_leaders_log_start(leader, follower, tmp_path):
    write(leader, b"early")
    follower.fetch(2)
    lead(leader, 1, isr=(0,))
    for number in range(5):
        write(leader, b"%d" % number)
    assert leader.log.roll(0, 1) == 0
    write(leader, b"last")
    assert leader.log.set_log_start(0, 6) == 0
    follower.follow(1)
    follower.fetch(6)
    assert "replica_begun_anew" in follower.said
    state = follower.log.state(0)
    assert (state.log_start, state.leo, state.hw) == (6, 7, 7)
    assert log_bytes(tmp_path / "leader").endswith(log_bytes(tmp_path / "follower"))


@pytest.mark.parametrize("dies", [False, True])
def test_one_that_begins_within_a_batch_has_the_whole_batch(leader, follower, tmp_path, dies):
    """Records were deleted up to the middle of a batch; nothing else says where the follower is to begin."""
    lead(leader, 1, isr=(0,))
    write(leader, b"0", b"1", b"2")
    assert leader.log.set_log_start(0, 2) == 0
    write(leader, b"3")
    follower.follow(1)
    if dies:
        follower.kill_at("fetcher.begun_earlier")
    follower.fetch(9)
    assert not follower.deadly, "it was killed"
    state = follower.log.state(0)
    assert (state.log_start, state.leo, state.hw) == (2, 4, 4)
    assert same(leader, follower, tmp_path)


def test_one_that_catches_up_is_proposed_for_the_isr_and_waited_for_at_once(leader, follower):
    lead(leader, 1, isr=(0,))
    write(leader, b"a")
    assert leader.log.state(0).hw == 1
    follower.follow(1)
    follower.fetch(2)
    assert leader.log.take_isr_proposals() == ([(0, 1, 1, (0, 1))], False)
    write(leader, b"b")
    assert leader.log.state(0).hw == 1  # the maximal ISR has it already (KIP-497)
    follower.fetch(2)
    assert leader.log.state(0).hw == 2
    assert leader.log.isr_answered(0, 1, 2, [0, 1], 0) == 0
    assert leader.log.replica_state(0).isr == (0, 1)


def test_a_proposal_behind_a_lock_that_is_held_is_not_taken_for_none(leader, follower, tmp_path):
    lead(leader, 1, isr=(0,))
    follower.follow(1)
    follower.fetch(2)
    wanted = (0, 1, 1, (0, 1))
    assert leader.log.take_isr_proposals() == ([wanted], False)
    with holder(leader, tmp_path / "leader", "append.copy_half", append()):
        assert leader.log.take_isr_proposals(again=True) == ([], True)
    assert leader.log.take_isr_proposals() == ([], False)
    assert leader.log.take_isr_proposals(again=True) == ([wanted], False)


def test_one_that_does_not_keep_up_is_proposed_to_leave(leader, follower):
    write(leader, b"a")
    follower.fetch(2)
    write(leader, b"b")
    now_ms = leader.clock.monotonic_ms()
    assert leader.log.take_isr_proposals(30_000, now_ms + 30_000) == ([], False)
    assert leader.log.take_isr_proposals(30_000, now_ms + 30_001) == ([(0, 0, 0, (0,))], False)
    assert leader.log.state(0).hw == 1  # it counts until the controller has answered
    assert leader.log.isr_answered(0, 0, 1, [], ErrorCode.UNKNOWN_SERVER_ERROR) == 0, "a refusal names nobody"
    assert leader.log.isr_answered(0, 0, 1, [0], 0) == 0
    assert leader.log.state(0).hw == 2


def test_a_fetcher_that_was_stopped_meanwhile_changes_nothing(leader, follower, tmp_path):
    write(leader, b"a")
    follower.link.fetch.follow(follower.rows())
    follower.clock.advance(1000)
    follower.link.ask()  # in the old epoch
    follower.lead(1)
    follower.link.read()
    assert follower.log.state(0).leo == 0 and follower.rows() == []


@pytest.mark.parametrize("what", ["records", "a place to cut", "an end to ask for"])
def test_an_answer_leaves_the_partition_alone_that_has_the_row_by_now(leader, follower, what):
    """Its topic was deleted and another one made meanwhile, which is followed in the same epoch to the same end."""
    link, other = follower.link, b"another topic's!"
    records = b"" if what == "records" else batch(b"its own")
    write(leader, b"the deleted topic's")
    link.fetch.follow(follower.rows())
    step = {
        "records": Append(0, follower.topic_id, 0, 0, batch(b"the deleted topic's"), 1, 0),
        "a place to cut": Truncate(0, follower.topic_id, 0, 0, 0),
        "an end to ask for": OutOfRange(0, follower.topic_id, 0),
    }[what]
    gone = int(PartitionFlags.EXISTS | PartitionFlags.ONLINE)
    assert follower.log.set_flags(0, int(PartitionFlags.DELETED), gone) == 0
    assert follower.log.create(0, other, 0, 0, 0, "u-0", 0, 1) == 0
    follower.follow(0)
    follower.log.append_follower(0, 0, 0, records, 0, 0, OPTIONS, 1)
    before, rescans = follower.log.state(0), []
    link._rescan = lambda: rescans.append(1)
    link._do(step)
    assert follower.log.state(0) == before
    assert rescans and not link._questions and follower.said == []
    link.fetch.follow(follower.rows())
    assert [one.topic_id for one in link.fetch.next_request(5000).topics] == [other]


@pytest.mark.parametrize(("epoch", "broker", "error"), [(0, 1, 74), (2, 1, 75), (1, 5, 75), (1, 0, 75), (1, 1, 0)])
def test_who_is_no_follower_of_this_epoch_is_refused(leader, follower, epoch, broker, error):
    lead(leader, 1)
    assert leader.log.follower_fetched(0, broker, -1, epoch, 0, -1, 0, 0)[0] == error


def test_who_has_more_of_the_first_epoch_than_there_was_is_told_where_it_ended(leader):
    write(leader, b"a", b"b", b"c")
    lead(leader, 1)
    write(leader, b"d", b"e")
    assert leader.log.follower_fetched(0, FOLLOWER, -1, 1, 3, 0, 0, 0)[:4] == (0, False, -1, -1)
    assert leader.log.follower_fetched(0, FOLLOWER, -1, 1, 4, 0, 0, 0)[:4] == (0, False, 0, 3)


def test_a_damaged_batch_is_not_appended(follower):
    good, bad = batch(b"a" * 40), bytearray(batch(b"b" * 40))
    bad[-1] ^= 1
    bad[7] = 1  # base offset
    code, batches, leo, *_ = follower.log.append_follower(0, 0, 0, good + bytes(bad), 9, 0, OPTIONS, 1)
    assert (code, batches, leo) == (2, 1, 1)


def test_one_that_was_fenced_goes_on_if_it_is_still_followed_in_this_epoch(leader, follower, tmp_path):
    """Its row was busy at that moment, or had no role between two requests of the controller."""
    follower.fetch()
    follower.link.fetch.failed(0, follower.clock.monotonic_ms(), is_fenced=True)
    assert follower.link.fetch.next_request(follower.clock.monotonic_ms() + 5000) is None
    follower.link.fetch.follow(follower.rows())
    assert follower.link.fetch.next_request(follower.clock.monotonic_ms()) is None, "after a pause"
    assert follower.link.fetch.next_request(follower.clock.monotonic_ms() + 5000) is not None


def test_consumers_read_from_a_follower_below_its_high_watermark(leader, follower):
    """Between the high watermark and the end there is nothing yet, beyond it an error (KIP-392)."""
    write(leader, b"a")
    write(leader, b"b")
    follower.fetch()

    def found(offset, bound):
        code, plan = follower.log.find(0, offset, bound, 1 << 20, True, follower.topic_id)
        return code or plan.length

    assert follower.row(0).leo == 2
    assert follower.row(0).hw < 2
    assert found(0, READ_TO_HIGH_WATERMARK) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for bound in (READ_REPLICA_TO_HIGH_WATERMARK, READ_REPLICA_TO_STABLE):
        assert found(1, bound) == 0
        assert found(3, bound) == ErrorCode.OFFSET_OUT_OF_RANGE
    follower.fetch(2)
    assert follower.row(0).hw == 2
    for bound in (READ_REPLICA_TO_HIGH_WATERMARK, READ_REPLICA_TO_STABLE):
        assert found(1, bound) > 60
        assert found(2, bound) == 0
    follower.log.stop(0)
    assert found(0, READ_REPLICA_TO_HIGH_WATERMARK) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_whose_row_is_busy_after_it_was_cut_goes_on_later(leader, follower, monkeypatch):
    write(leader, b"both")
    follower.fetch(2)
    write(leader, b"more")
    row, rescans = follower.row, []
    monkeypatch.setattr(follower, "row", lambda ordinal: None)
    monkeypatch.setattr(follower.link, "_rescan", lambda: rescans.append(1))
    follower.link._look_again(0)
    monkeypatch.setattr(follower, "row", row)
    assert rescans == [1]
    follower.link.fetch.follow(follower.rows())
    follower.clock.advance(1000)
    follower.fetch(2)
    assert follower.log.state(0).leo == 2


def throttle(broker, rate: int):
    """The leader's replica of partition 0 sends so many bytes a second to who lags."""
    context = broker.handler.context
    core, row = broker.core, context.row
    context.leader_quota = ReplicationQuota(summed(core, [SLOT_HANDLERS], Counter.LEADER_THROTTLED_BYTES))
    context.config = broker.handler.context.config = build_broker_config(
        Given(broker.config.texts, {}, ()), 2, DynamicSettings(broker={LEADER_RATE: str(rate)})
    )
    return lambda: row.counter(Counter.LEADER_THROTTLED_BYTES)


def test_a_throttled_leader_holds_back_who_is_not_in_sync(tmp_path):
    (tmp_path / "leader").mkdir()
    (tmp_path / "follower").mkdir()
    leader = InProcessBroker(tmp_path / "leader", replicated=True)
    leader.create_topic("t", topic_id=bytes(range(16)), leader_replication_throttled_replicas=f"0:{LEADER}")
    lead(leader, 0, isr=(0,))
    follower = FollowerWorld(tmp_path / "follower", leader, bytes(range(16)))
    follower.follow(0)
    sent = throttle(leader, 100)
    write(leader, b"a" * 5000)
    follower.fetch()
    assert follower.log.state(0).leo == 1 and sent() > 5000
    write(leader, b"b" * 5000)
    follower.fetch(3)
    assert follower.log.state(0).leo == 1 and follower.log.state(0).hw == 1  # the answers came, without records
    lead(leader, 1, isr=(0, 1))
    follower.follow(1)
    follower.fetch()
    assert follower.log.state(0).leo == 2, "in sync"
    lead(leader, 2, isr=(0,))
    follower.follow(2)
    write(leader, b"c")
    follower.fetch(2)
    assert follower.log.state(0).leo == 2
    leader.clock.advance(12_000)
    follower.fetch(2)
    same(leader, follower, tmp_path)


def test_a_throttled_follower_asks_for_what_it_lacks_when_it_may_again(leader, follower, tmp_path):
    held = []
    fetched = []
    follower.link.fetch._holds_back = lambda ordinal: ordinal in held
    follower.link._fetched_bytes = lambda ordinal, size: fetched.append((ordinal, size))
    write(leader, b"a" * 1000)
    held.append(0)
    now_ms = follower.clock.monotonic_ms()
    follower.link.fetch.follow(follower.rows())
    assert follower.link.fetch.next_request(now_ms) is None
    assert follower.link.fetch.due_ms(now_ms) == now_ms + 100, "it is looked at again, not all the time"
    held.clear()
    follower.fetch(2)
    assert fetched == [(0, len(same(leader, follower, tmp_path)))]
    held.append(0)
    write(leader, b"b")
    follower.fetch(2)
    assert len(fetched) == 2, "it lacked nothing of what is committed, as far as it knew"
