"""Single steps of the log cleaner: when it looks, which partition is how dirty, what becomes of what was found."""

import queue
from types import SimpleNamespace

import pytest

from mpbroker.log import disk, log_cleaner
from mpbroker.log.compaction import Compacted, LogChanged, NotCompacted
from mpbroker.log.log_cleaner import Dirt, Ended, LogCleaner, Segment, Stopped

COMPACT = log_cleaner.COMPACT
SETTINGS = {
    "cleanup_policy": (COMPACT,), "min_compaction_lag_ms": 0, "max_compaction_lag_ms": 1 << 40,
    "min_cleanable_dirty_ratio": 0.5,
}  # fmt: skip


class World:
    """A cleaner of parts over one partition; `done` says what was called."""

    def __init__(self):
        self.done, self.told, self.counted, self.ages = [], [], [], {}
        self.state = SimpleNamespace(log_start=0, active_base=40, lso=99, leo=99)
        self.segments = [Segment(0, 10, 100), Segment(10, 20, 200), Segment(20, 30, 300), Segment(30, 40, 400)]
        made = self.made = LogCleaner.__new__(LogCleaner)
        told = lambda event, **fields: self.told.append((event, fields))  # noqa: E731
        made._keeper = SimpleNamespace(
            log=SimpleNamespace(move_of=lambda _: None, close_stale=lambda: self.done.append("stale")),
            state=lambda _: self.state, cleaning=None, partitions=SimpleNamespace(all=[]),
            config=SimpleNamespace(log_cleaner_backoff_ms=15, log_cleaner_enable=True, log_cleaner_threads=1),
            events=SimpleNamespace(warning=told, info=told), count=lambda *words: self.counted.append(words),
            directory=lambda _: "/d", crash_point=None,
        )  # fmt: skip
        made._segments = lambda *_: self.segments
        made._age_ms = lambda _, segment: self.ages.get(segment.base, 1 << 30)
        made._offsets, made._refused, made._ended, made._thread = {}, set(), queue.SimpleQueue(), None
        made._swapped, made._ring = queue.SimpleQueue(), lambda: self.done.append("rung")
        made._removed = lambda _, bases: self.done.append("-".join(map(str, ["removed", *bases])))
        made._round = SimpleNamespace(interval_ms=0, due=lambda: True, hasten=lambda: self.done.append("hasten"))
        made._stopping = False

    def partition(self, **settings):
        made = SimpleNamespace(
            settings=SimpleNamespace(**SETTINGS | settings),
            ordinal=3,
            who=("t", 0),
            topic_id=b"T",
            partition=0,
            dir="t-0",
        )
        self.made._keeper.partitions.all.append(made)
        return made

    def dirt(self, **settings):
        found = self.made._dirt_of(self.partition(**settings))
        return None if found is None else found[1:]


@pytest.fixture
def world():
    return World()


# ---- who is dirty


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [
        (None, (0, 40, 1.0)), (0, (0, 40, 1.0)), (9, (9, 40, 1.0)), (10, (10, 40, 0.9)), (20, (20, 40, 0.7)),
        (29, (29, 40, 0.7)), (30, None), (40, None), (99, None), (100, (0, 40, 1.0)), (-1, (0, 40, 1.0)),
    ],
)  # fmt: skip
def test_what_is_behind_the_last_compaction_is_dirty(world, offset, wanted):
    if offset is not None:
        world.made._offsets[("t", 0)] = offset
    assert world.dirt() == (None if wanted is None else (*wanted, False))


@pytest.mark.parametrize(("start", "offset", "first"), [(15, 14, 15), (15, 15, 15), (15, 16, 16), (15, None, 15)])
def test_what_is_below_the_log_start_is_not(world, start, offset, first):
    world.state.log_start = start
    if offset is not None:
        world.made._offsets[("t", 0)] = offset
    assert world.dirt()[:2] == (first, 40)


@pytest.mark.parametrize(("lso", "until", "ratio"), [(99, 40, 1.0), (31, 31, 1.0), (30, 30, 1.0), (1, 1, 1.0)])
def test_what_may_be_undone_is_not_compacted(world, lso, until, ratio):
    world.state.lso = lso
    assert world.dirt() == (0, until, ratio, False)
    world.state.lso, world.made._offsets = 10, {("t", 0): 10}
    assert world.dirt() is None


@pytest.mark.parametrize(
    ("first", "lso", "found"),
    [
        (10, 20, (10, 20, 200 / 300)),  # the segment that begins at the bound is not looked at
        (10, 21, (10, 21, 500 / 600)),
        (15, 12, None),  # nothing of the segment that is dirty may be compacted
        (15, 15, None),
        (15, 16, (15, 16, 200 / 300)),
    ],
)
def test_what_is_dirty_ends_where_something_may_be_undone(world, first, lso, found):
    world.state.lso, world.made._offsets = lso, {("t", 0): first}
    assert world.dirt() == (None if found is None else (*found, False))


def test_segments_without_a_byte_are_not_dirty(world):
    """However overdue they are."""
    world.segments = [segment._replace(log_bytes=0) for segment in world.segments]
    assert world.dirt(max_compaction_lag_ms=1) is None


@pytest.mark.parametrize(("lag_ms", "until"), [(0, 40), (1, 20), (5, 20), (6, 10), (-1, 40)])
def test_from_the_first_segment_that_is_too_young_everything_stays(world, lag_ms, until):
    world.ages = {10: 5, 20: 0, 30: 9}
    assert world.dirt(min_compaction_lag_ms=lag_ms)[1] == until


@pytest.mark.parametrize(("most_ms", "age_ms", "overdue"), [(50, 50, False), (50, 51, True), (50, 0, False)])
def test_the_oldest_dirty_segment_says_whether_it_is_overdue(world, most_ms, age_ms, overdue):
    """Then the share does not matter."""
    world.made._offsets[("t", 0)] = 30
    world.ages = {0: 999, 10: 999, 20: 999, 30: age_ms}
    found = world.dirt(max_compaction_lag_ms=most_ms)
    assert found == ((30, 40, 0.4, True) if overdue else None)


@pytest.mark.parametrize(("least", "is_dirty"), [(0.7, True), (0.71, False)])
def test_the_share_has_to_be_reached(world, least, is_dirty):
    world.made._offsets[("t", 0)] = 20
    assert (world.dirt(min_cleanable_dirty_ratio=least) is not None) is is_dirty


def test_some_are_never_looked_at(world):
    made, one = world.made, world.partition()
    assert made._dirt_of(one) is not None
    made._keeper.log.move_of = lambda ordinal: (ordinal, 1)
    assert made._dirt_of(one) is None
    made._keeper.log.move_of = lambda ordinal: None
    made._refused.add((b"T", 0))
    assert made._dirt_of(one) is None
    made._refused.clear()
    world.state.active_base = world.state.log_start
    assert made._dirt_of(one) is None
    world.state = None
    assert made._dirt_of(one) is None
    assert world.dirt(cleanup_policy=("delete",)) is None


def test_the_overdue_come_first_then_the_dirtiest_and_what_fails_is_passed_over(world):
    found = {1: (0.9, False), 2: OSError(), 3: (0.2, True), 4: RuntimeError(), 5: (0.3, True), 6: None}

    def dirt_of(number):
        what = found[number]
        if isinstance(what, Exception):
            raise what
        return None if what is None else Dirt(number, 0, 1, *what)

    world.made._dirt_of = dirt_of
    chosen = []
    for left in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 6], [1, 2, 4, 6], [2, 4, 6], []):
        world.made._keeper.partitions.all = left
        best = world.made.choose()
        chosen.append(None if best is None else best.partition)
    assert chosen == [5, 3, 1, None, None]


# ---- when it looks


@pytest.mark.parametrize(
    ("enable", "threads", "due", "locked", "looks"),
    [
        (True, 1, True, None, True), (True, 9, True, False, True), (True, 1, True, True, False),
        (True, 0, True, None, False), (False, 1, True, None, False), (True, 1, False, None, False),
    ],
)  # fmt: skip
def test_it_looks_when_it_is_due_and_its_turn(world, enable, threads, due, locked, looks):
    made, begun = world.made, []
    made._keeper.config = SimpleNamespace(
        log_cleaner_backoff_ms=77, log_cleaner_enable=enable, log_cleaner_threads=threads
    )
    made._keeper.cleaning = None if locked is None else SimpleNamespace(locked=lambda: locked)
    made._round.due = lambda: due
    made.choose, made._begin = lambda: "dirtiest", begun.append
    made.do_work()
    assert begun == ["dirtiest"] * looks and made._round.interval_ms == (0 if locked else 77)
    made.choose = lambda: None
    made.do_work()
    assert len(begun) == looks


def test_what_ended_is_taken_over_first_and_a_thread_that_runs_is_left_alone(world):
    made, running = world.made, [True]
    made._take_over, made._begin, made.choose = world.done.append, world.done.append, lambda: "dirtiest"
    made._thread = SimpleNamespace(is_alive=lambda: running[0], join=lambda timeout: world.done.append(timeout))
    made._round = SimpleNamespace(interval_ms=15, due=lambda: True, remaining_ms=lambda: 4)
    made._ended.put("one")
    made._ended.put("two")
    made.do_work()
    assert world.done == ["one", "two"] and made._thread is not None and made.remaining_ms() == 15
    made.stop()
    assert made._stopping and world.done[2:] == [5]
    running[0] = False
    made.do_work()
    assert world.done[3:] == ["dirtiest"] and made._thread is None and made.remaining_ms() == 4
    made.stop()
    assert len(world.done) == 4


# ---- what came of it


@pytest.mark.parametrize(
    ("failure", "reason", "again"),
    [
        (NotCompacted("no room"), "no room", False), (LogChanged(), "", True), (Stopped(), "", True),
        (RuntimeError("bug"), "bug", True), (OSError(24, "files"), "[Errno 24] files", True),
        (OSError(5, "disk"), "[Errno 5] disk", False), (None, "", False),
    ],
)  # fmt: skip
def test_why_a_compaction_ended(world, monkeypatch, failure, reason, again):
    assert not disk.condemns(OSError(24, "files")) and disk.condemns(OSError(5, "disk"))
    given, partition = [], world.partition()

    def run():
        if failure is not None:
            raise failure
        return "compacted"

    monkeypatch.setattr(log_cleaner, "Compaction", lambda *words: given.append(words) or SimpleNamespace(run=run))
    ended = world.made._compact("log", Dirt(partition, 0, 1, 1.0, False), "limits", 5.0)
    assert (ended.partition, ended.done, ended.reason, ended.again) == (
        partition, "compacted" if failure is None else None, reason, again
    )  # fmt: skip
    assert given[0][:5] == ("log", 3, b"T", "/d", "limits") and 0 <= ended.took_s < 60


@pytest.mark.parametrize(("again", "reason"), [(True, ""), (True, "later"), (False, "never")])
def test_what_failed_is_said_and_refused_if_no_later_try_may_succeed(world, again, reason):
    world.made._take_over(Ended(world.partition(), 1.0, None, reason, again))
    assert world.made._refused == (set() if again else {(b"T", 0)})
    assert world.told == ([("log_not_compacted", {"partition": "t-0", "reason": reason})] if reason else [])
    assert world.done == world.counted == []


def test_what_was_compacted_is_counted_told_and_remembered(world, monkeypatch):
    monkeypatch.setattr(log_cleaner, "write_checkpoint", lambda path, offsets: world.done.append((path, dict(offsets))))
    made, partition = world.made, world.partition()
    made._keeper.data_dir = "/data"
    made._offsets = {("gone", 1): 5}
    done = Compacted(clean_to=30, keys=4, bytes_read=700, bytes_before=600, bytes_after=50)
    made._take_over(Ended(partition, 1.2345, done, "", False))
    assert world.done == ["hasten", ("/data/cleaner-offset-checkpoint", {("t", 0): 30})]
    assert world.counted == [("logs_compacted",), ("compacted_bytes_read", 700)]
    told = {"partition": "t-0", "up_to": 30, "keys": 4, "bytes_before": 600, "bytes_after": 50, "ms": 1234}
    assert world.told == [("log_compacted", told)]
    assert made.cleaned_to(partition) == 30


def test_what_was_replaced_goes_while_the_rest_is_compacted(world):
    """Also where a thread is at it."""
    made, partition = world.made, world.partition()
    made._thread = SimpleNamespace(is_alive=lambda: True)
    made._note_swap(partition, [10, 20])
    made._note_swap(partition, [])
    assert world.done == ["rung", "rung"]
    made.do_work()
    assert world.done[2:] == ["removed-10-20", "stale", "removed", "stale"]
    made.do_work()
    assert len(world.done) == 6


@pytest.mark.parametrize(
    ("flags", "name", "gone"), [(3, "t-0", False), (1, "t-0", True), (2, "t-0", True), (3, "t-0.1", True)]
)
def test_a_partition_that_was_deleted_is_not_compacted_to_the_end(world, monkeypatch, flags, name, gone):
    """However slow its pace is: what is written for it is deleted, and open."""
    assert log_cleaner.PARTITION_EXISTS | log_cleaner.PARTITION_ONLINE == 3
    paces = []
    monkeypatch.setattr(log_cleaner, "Pace", lambda per_second, stopping: paces.append(stopping))
    monkeypatch.setattr(log_cleaner, "Compaction", lambda *words: SimpleNamespace(run=lambda: None))
    states = {3: SimpleNamespace(flags=flags, dir=name)}

    def state(ordinal):
        if states[ordinal] is None:
            raise RuntimeError("busy")
        return states[ordinal]

    world.made._compact(SimpleNamespace(state=state), Dirt(world.partition(), 0, 1, 1.0, False), "limits", 5.0)
    assert paces[0]() is gone
    states[3] = None
    assert paces[0]() is False
    world.made._stopping = True
    assert paces[0]() is True


def test_a_checkpoint_that_cannot_be_written_is_said(world, monkeypatch):
    def full(*_):
        raise OSError(28, "full")

    monkeypatch.setattr(log_cleaner, "write_checkpoint", full)
    made = world.made
    made._keeper.data_dir = "/data"
    made._keeper.io_failed = lambda event, error, **fields: world.told.append((event, error.errno, fields))
    made.take_in(world.partition(), 12)
    assert world.told == [("checkpoint_not_written", 28, {"file": "cleaner-offset-checkpoint"})]
    assert made._offsets == {("t", 0): 12}


@pytest.mark.parametrize("stops_after", [None, 0, 2])
def test_who_is_ahead_of_its_pace_sleeps_in_short_pieces(monkeypatch, stops_after):
    """So that the broker's end is noticed soon."""
    slept, now_s = [], [50.0]

    def sleep(seconds):
        slept.append(seconds)
        now_s[0] += seconds

    monkeypatch.setattr(log_cleaner, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    pace = log_cleaner.Pace(1000.0, lambda: len(slept) == stops_after)
    if stops_after is not None:
        with pytest.raises(Stopped):
            pace(250)
        assert len(slept) == stops_after
        return
    pace(250)
    assert slept == pytest.approx([0.1, 0.1, 0.05])
    now_s[0] += 0.3
    pace(300)
    assert len(slept) == 3, "it was behind"
    pace(50)
    assert slept[3:] == pytest.approx([0.05])
