"""Old segments go by age, by size and below the log start, and only those."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.keeper_context import BUSY_RETRY_MS
from mpbroker.log.log_retention import MAX_A_CALL, LogRetention
from mpbroker.log.segment_deletion import SegmentDeletion
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE

HOUR_MS = 3_600_000


def job(world, first_delay_ms=0):
    keeper = world.keeper(first_delay_ms=first_delay_ms)
    deletion = SegmentDeletion(keeper)
    return LogRetention(keeper, deletion.removed), deletion


def three_segments(world, **settings):
    """Offsets 0–9, 10–19 and 20–29, an hour apart."""
    partition = world.create(**settings)
    for end in (10, 20, 30):
        if end > 10:
            world.clock.advance(HOUR_MS)
            world.roll(partition)
        world.fill(partition, end)
    return partition


def test_segments_whose_newest_record_is_too_old_go(world):
    partition = three_segments(world, retention_ms=str(2 * HOUR_MS))
    retention, _ = job(world)
    retention.do_work()
    assert world.state(partition).log_start == 0, "nothing is older than two hours yet"
    world.clock.advance(HOUR_MS + 1)
    retention.do_work()
    assert world.state(partition).log_start == 20
    assert world.files(partition, ".log") == ["00000000000000000020.log"]
    world.clock.advance(HOUR_MS)
    retention.do_work()
    state = world.state(partition)
    assert (state.log_start, state.leo, state.active_base) == (30, 30, 30), "the active segment went, after a roll"


def test_the_oldest_segments_go_while_the_log_is_too_large(world):
    partition = three_segments(world, retention_ms="-1")
    size = world.state(partition).log_bytes // 3
    retention, _ = job(world)
    limits = {"retention_bytes": str(2 * size - 1)}
    kept = partition._replace(settings=settings_with(world, retention_ms="-1", **limits))
    assert retention.retain(kept) == 1
    assert world.state(partition).log_start == 10, "one segment too many; two are within the limit but for a byte"
    assert world.state(partition).log_bytes == 2 * size


def settings_with(world, **settings):
    from mpbroker.config.topic_config import effective

    return effective({name.replace("_", "."): value for name, value in settings.items()}, world.config)


def test_only_what_lies_below_the_log_start_leaves_a_compacted_log(world):
    partition = three_segments(world, retention_ms="1", cleanup_policy="compact")
    world.clock.advance(HOUR_MS)
    retention, _ = job(world)
    assert retention.retain(partition) == 0
    assert world.log.set_log_start(partition.ordinal, 15) == 0
    assert retention.retain(partition) == 1
    assert world.files(partition, ".log") == ["00000000000000000010.log", "00000000000000000020.log"]
    assert world.state(partition).log_start == 15


def test_nothing_above_the_high_watermark_goes(world):
    partition = three_segments(world, retention_ms="1")
    world.clock.advance(HOUR_MS)
    assert world.log.set_high_watermark(partition.ordinal, 19) == 0
    retention, _ = job(world)
    assert retention.retain(partition) == 1
    assert world.state(partition).log_start == 10


def test_a_row_that_belongs_to_another_topic_by_now_is_left_alone(world):
    partition = three_segments(world, retention_ms="1")
    world.clock.advance(HOUR_MS)
    retention, _ = job(world)
    assert retention.retain(partition._replace(topic_id=bytes(16))) == 0
    assert world.state(partition).log_start == 0


def test_rounds_wait_for_the_first_delay_and_then_for_the_interval(world):
    partition = three_segments(world, retention_ms="1")
    world.clock.advance(HOUR_MS)
    retention, _ = job(world, first_delay_ms=30_000)
    retention.do_work()
    assert world.state(partition).log_start == 0
    world.clock.advance(30_000)
    retention.do_work()
    assert world.state(partition).log_start == 30
    assert retention.remaining_ms() == world.config.log_retention_check_interval_ms
    assert world.events.named("segments_deleted")[0]["count"] == 3


def test_a_round_takes_a_bounded_number_of_partitions_each_turn(world):
    partition = three_segments(world, retention_ms="1")
    world.clock.advance(HOUR_MS)
    world.partitions.all = [partition._replace(topic_id=bytes(16))] * 64 + [partition]
    retention, _ = job(world)
    retention.do_work()
    assert world.state(partition).log_start == 0 and retention.remaining_ms() == 0
    retention.do_work()
    assert world.state(partition).log_start == 30


def scripted(world, *answers, **settings):
    """Retention over a log that gives these answers; what it was asked, and all that was told."""
    partition = world.create(**{"retention_ms": "70", "retention_bytes": "80", **settings})
    asked, told = [], []

    def retain(ordinal, **words):
        asked.append((ordinal, words.pop("retention_ms"), words.pop("retention_bytes"), words))
        return answers[min(len(asked), len(answers)) - 1]

    keeper = world.keeper(
        log=SimpleNamespace(retain=retain, state=world.log.state),
        count=lambda *words: told.append(words),
        crash_point=told.append,
    )
    job = LogRetention(keeper, lambda partition, bases: told.append((partition.dir, bases)))
    return partition, job, asked, told


RENAMED = "keeper.retain.renamed"


@pytest.mark.parametrize(
    ("policy", "limits"), [("delete", (70, 80)), ("compact,delete", (70, 80)), ("compact", (-1, -1)), ("", (-1, -1))]
)
def test_limits_hold_where_the_policy_is_to_delete(world, policy, limits):
    partition, job, asked, told = scripted(world, (0, []), cleanup_policy=policy)
    assert job.retain(partition) == 0
    words = {"now_ms": world.clock.wall_ms(), "topic_id": partition.topic_id}
    assert asked == [(0, *limits, words)] and told == [RENAMED] and world.events.lines == []


@pytest.mark.parametrize(
    ("answers", "total"),
    [
        ([(0, list(range(MAX_A_CALL))), (0, [7])], MAX_A_CALL + 1),
        ([(0, list(range(MAX_A_CALL))), (0, [])], MAX_A_CALL),
        ([(0, list(range(MAX_A_CALL - 1))), (0, [7])], MAX_A_CALL - 1),
        ([(56, list(range(MAX_A_CALL))), (0, [7])], MAX_A_CALL),
        ([(0, [3])], 1),
    ],
)
def test_it_is_asked_again_while_a_call_took_as_many_as_it_may(world, answers, total):
    partition, job, asked, told = scripted(world, *answers)
    assert job.retain(partition) == total
    taken = [bases for _, bases in answers[: len(asked)] if bases]
    assert sum(map(len, taken)) == total
    assert [one for one in told if one != RENAMED] == [
        one for bases in taken for one in (("segments_deleted", len(bases)), ("t-0", bases))
    ]
    assert world.events.named("segments_deleted") == [
        {"partition": "t-0", "count": len(bases), "first": bases[0], "last": bases[-1]} for bases in taken
    ]


def test_one_that_is_only_being_made_has_not_failed(world):
    partition, job, _, _ = scripted(world, (ErrorCode.KAFKA_STORAGE_ERROR, []))
    state = world.log.state(partition.ordinal)
    for flags, said in ((PARTITION_EXISTS, 0), (PARTITION_EXISTS | PARTITION_ONLINE, 1)):
        shown = SimpleNamespace(flags=flags, dir=state.dir, log_dir=state.log_dir)
        job._keeper.log.state = lambda ordinal, shown=shown: shown
        job.retain(partition)
        assert len(world.events.named("retention_failed")) == said


@pytest.mark.parametrize(
    ("error", "again", "said"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, True, []),
        (ErrorCode.KAFKA_STORAGE_ERROR, False, [{"partition": "t-0"}]),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, []),
    ],
)
def test_one_that_is_busy_comes_again_and_one_that_failed_is_said(world, error, again, said):
    _, job, asked, _ = scripted(world, (error, []), (0, []))
    job.do_work()
    assert world.events.named("retention_failed") == said and len(asked) == 1
    world.clock.advance(BUSY_RETRY_MS)
    job.do_work()
    assert len(asked) == 1 + again
