"""Idle producers are forgotten after their time, and the longest idle ones when the table fills up."""

from types import SimpleNamespace

import pytest

from mpbroker._native import LogOptions
from mpbroker.log.producer_expiration import (
    EVICTION_INTERVAL_MS,
    ProducerEviction,
    ProducerExpiration,
    eviction_time_ms,
    eviction_times_ms,
)
from mpbroker.shm.clock import Began

TABLE = 64  # rows in the test's memory


def produce(world, partition, producer_id, sequence, count=1):
    return world.append(partition, count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_idle_producers_are_forgotten(world):
    partition = world.create()
    keeper = world.keeper()
    produce(world, partition, 5, 0)
    world.clock.advance(world.config.producer_id_expiration_ms - 1000)
    produce(world, partition, 6, 0)
    job = ProducerExpiration(keeper)
    job.do_work()
    assert len(world.log.producers(partition.ordinal)[1]) == 2
    world.clock.advance(2000 + world.config.producer_id_expiration_check_interval_ms)
    job.do_work()
    assert [row[0] for row in world.log.producers(partition.ordinal)[1]] == [6]
    assert produce(world, partition, 5, 40).error == 0, "of an unknown producer any first sequence is taken"


def test_the_longest_idle_go_before_the_table_is_full(world):
    first, second = world.create(), world.create(partition=1, ordinal=1)
    counted = []
    job = ProducerEviction(world.keeper(count=lambda name, n=1: counted.append((name, n))))
    for number in range(TABLE - 1):
        world.clock.advance(1)
        assert produce(world, (first, second)[number % 2], number, 0).error == 0
        if number == TABLE // 2:
            job.do_work()
            assert not counted, "there is room"
    world.clock.advance(EVICTION_INTERVAL_MS)
    job.do_work()
    left = {row[0] for partition in (first, second) for row in world.log.producers(partition.ordinal)[1]}
    assert left == set(range(TABLE - 1 - int(TABLE * 0.8), TABLE - 1))
    assert counted == [("producers_forgotten", TABLE - 1 - int(TABLE * 0.8))]
    assert world.events.named("producers_forgotten")[0]["setting"] == "mpbroker.max.producers"
    assert produce(world, first, 0, 40).error == 0, "a forgotten producer goes on"


def test_producers_of_the_same_moment_do_not_keep_the_table_full():
    assert eviction_time_ms([5] * 10, 8) == 6
    assert eviction_time_ms([1, 2, 3, 4], 2) == 3
    assert eviction_time_ms([1, 2], 2) == 1
    assert eviction_time_ms([], 2) == 0


FAR_FUTURE_MS = 2**63 - 1


def test_what_producers_write_into_their_batches_keeps_no_row(world):
    """1,023 ids with timestamps at the end of time once locked every new producer out."""
    partition = world.create()
    job = ProducerEviction(world.keeper())
    for number in range(TABLE - 1):
        world.clock.advance(1)
        settings = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        assert world.append(partition, timestamp_ms=FAR_FUTURE_MS, **settings).error == 0
    world.clock.advance(EVICTION_INTERVAL_MS)
    job.do_work()
    assert len(world.log.producers(partition.ordinal)[1]) == int(TABLE * 0.8)
    world.clock.advance(world.config.producer_id_expiration_ms + EVICTION_INTERVAL_MS)
    expiration = ProducerExpiration(world.keeper())
    world.clock.advance(world.config.producer_id_expiration_check_interval_ms)
    expiration.do_work()
    assert world.log.producers(partition.ordinal)[1] == []


def test_a_flood_of_new_ids_forgets_itself_first(world):
    partition = world.create()
    for sequence in range(3):
        for honest in range(5):
            assert produce(world, partition, honest, sequence).error == 0
    job = ProducerEviction(world.keeper())
    for number in range(1000, 1000 + 20 * TABLE):
        world.clock.advance(1)
        error = produce(world, partition, number, 0).error
        if error:
            world.clock.advance(EVICTION_INTERVAL_MS)
            job.do_work()
    assert {0, 1, 2, 3, 4} <= {row[0] for row in world.log.producers(partition.ordinal)[1]}
    assert produce(world, partition, 3, 2).duplicate, "still recognised"


def test_a_refused_batch_finds_the_row_that_was_freed(world):
    partition = world.create()
    for number in range(TABLE):
        assert world.log.verify(partition.ordinal, number, 0) == 0, "others would be replaced"
    for _ in range(5):
        assert produce(world, partition, TABLE, 0).error == 89
    now_ms = world.clock.wall_ms()
    assert world.log.append_marker(partition.ordinal, 7, 0, 1, True, LogOptions(), now_ms).error == 0
    assert world.log.expire_producers(partition.ordinal, now_ms + 1, now_ms + 1) == 1
    assert produce(world, partition, TABLE, 0).error == 0


def test_producers_of_one_batch_go_before_those_of_several():
    assert eviction_times_ms([1, 2, 3], [4, 5], 3) == (0, 3)
    assert eviction_times_ms([9, 8], [1, 2, 3], 2) == (2, 10)
    assert eviction_times_ms([9, 8], [1, 2, 3], 3) == (0, 10)


@pytest.mark.parametrize(("forgotten", "is_busy", "again"), [(0, True, 1), (0, False, 0), (2, True, 0), (2, False, 0)])
def test_a_partition_whose_lock_is_held_is_looked_at_again(world, forgotten, is_busy, again):
    partition = world.create()
    keeper, asked = world.keeper(), []
    job = ProducerExpiration(keeper)
    job._keeper = SimpleNamespace(
        clock=keeper.clock,
        began=None,
        config=keeper.config,
        state=lambda _: object(),
        count=lambda name, n: None,
        is_busy=lambda _: is_busy,
        log=SimpleNamespace(expire_producers=lambda *words: asked.append(words) or forgotten),
    )
    repeated = []
    job._round.again = repeated.append
    job.do_work()
    assert [words[0] for words in asked] == [partition.ordinal] and repeated == [partition] * again


def test_who_wrote_once_and_who_wrote_often_both_take_room(world):
    """Said by the number of rows in use."""
    partition = world.create()
    job = ProducerEviction(world.keeper())
    for number in range(TABLE - 1):
        world.clock.advance(1)
        for sequence in range(1 + number % 2):
            assert produce(world, partition, number, sequence).error == 0
    world.clock.advance(EVICTION_INTERVAL_MS)
    job.do_work()
    assert [line["of"] for line in world.events.named("producers_forgotten")] == [TABLE - 1]


class SetClock:
    """A wall clock that somebody sets, beside a monotonic one."""

    def __init__(self, clock):
        self._clock, self.ahead_ms = clock, 0

    def wall_ms(self):
        return self._clock.wall_ms() + self.ahead_ms

    def monotonic_ms(self):
        return self._clock.monotonic_ms() - 7_000


@pytest.fixture
def kept(world):
    """A producer that has written, a clock that can be set, and who is known after a round a millisecond after `idle`
    lengths of `producer.id.expiration.ms`, with the clock so far ahead."""
    partition, clock = world.create(), SetClock(world.clock)
    began = Began(clock.wall_ms(), clock.monotonic_ms())
    produce(world, partition, 5, 0)
    job = ProducerExpiration(world.keeper(clock=clock, began=began))

    def after(idle, ahead):
        length_ms = world.config.producer_id_expiration_ms
        world.clock.advance(int(idle * length_ms) + 1)
        clock.ahead_ms = int(ahead * length_ms)
        job.do_work()
        return [row[0] for row in world.log.producers(partition.ordinal)[1]]

    return after


@pytest.mark.parametrize(
    ("idle", "ahead", "known"),
    [(0, 0, [5]), (0, 1, [5]), (0, 5, [5]), (0.9, 5, [5]), (1, 0, []), (1, 5, []), (1, -0.5, [5]), (1.6, -0.5, [])],
)
def test_a_clock_that_is_set_forward_makes_no_producer_idle(kept, idle, ahead, known):
    """As it would whoever waits for an answer meanwhile, and then repeats a batch that is in the log."""
    assert kept(idle, ahead) == known


def test_nobody_has_been_idle_for_longer_than_the_broker_has_run(world):
    """What a start took from the logs was written at a time of which nobody knows how the clock was then."""
    partition, clock = world.create(), SetClock(world.clock)
    produce(world, partition, 5, 0)
    world.clock.advance(3 * world.config.producer_id_expiration_ms)
    began = Began(clock.wall_ms(), clock.monotonic_ms())
    job = ProducerExpiration(world.keeper(clock=clock, began=began))
    for known in ([5], []):
        job.do_work()
        assert [row[0] for row in world.log.producers(partition.ordinal)[1]] == known
        world.clock.advance(world.config.producer_id_expiration_ms)


class FakeLog:
    """A table of so many rows, of which so many are in use; three producers are forgotten at each call."""

    def __init__(self, rows, used):
        self.rows, self.used, self.swept, self.expired = rows, used, 0, []

    def producer_times(self):
        return self.rows, list(range(self.used)), []

    def sweep_producers(self):
        self.swept += 1

    def expire_producers(self, *words):
        self.expired.append(words)
        return 3


def fake_keeper(world, log, counted):
    keeper = world.keeper(log=log, count=lambda *words: counted.append(words))
    fields = {name: getattr(keeper, name) for name in keeper.__struct_fields__}
    return SimpleNamespace(**fields, state=lambda _: "there")


@pytest.mark.parametrize(("rows", "used", "is_full"), [(10, 8, False), (10, 9, True), (10, 10, True), (64, 57, False)])
def test_nine_tenths_are_full(world, rows, used, is_full):
    world.create()
    log, counted = FakeLog(rows, used), []
    ProducerEviction(fake_keeper(world, log, counted)).do_work()
    assert bool(log.expired) is is_full and counted == ([("producers_forgotten", 3)] if is_full else [])
    told = [(line["count"], line["of"]) for line in world.events.named("producers_forgotten")]
    assert told == ([(3, used)] if is_full else [])


def test_a_keeper_begins_with_rows_that_a_dead_process_lost_and_counts_whom_it_forgets(world):
    world.create()
    log, counted = FakeLog(10, 1), []
    job = ProducerExpiration(fake_keeper(world, log, counted))
    assert log.swept == 1 and not log.expired
    job.do_work()
    before_ms = world.clock.wall_ms() - world.config.producer_id_expiration_ms
    assert log.swept == 1 and log.expired == [(0, before_ms, before_ms)] and counted == [("producers_forgotten", 3)]


@pytest.mark.parametrize(("short_ms", "before_ms"), [(1, 0), (0, "begin")])
def test_before_a_broker_has_run_for_so_long_no_time_at_all_is_too_long_ago(world, short_ms, before_ms):
    """Not even that of a batch at the beginning of time."""
    world.create()
    log, began = FakeLog(10, 1), Began(world.clock.wall_ms(), world.clock.monotonic_ms())
    keeper = fake_keeper(world, log, [])
    keeper.began = began
    job = ProducerExpiration(keeper)
    world.clock.advance(world.config.producer_id_expiration_ms - short_ms)
    job.do_work()
    before_ms = began.wall_ms if before_ms == "begin" else before_ms
    assert log.expired == [(0, before_ms, before_ms)]
