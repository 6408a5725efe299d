"""Single steps of the dash-cam: until when a dump goes on, when it is tried again, and when it is given up."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mpbroker.trace import dashcam as module
from mpbroker.trace import lane
from mpbroker.trace.dashcam import AGAIN_MS, FINISH_S, GIVE_UP_MS, SPARE_BYTES, STATE, Dashcam
from mpbroker.trace.dump_cause import ASKED, Cause
from mpbroker.trace.mark_spool import Mark

NS = 1_000_000
WINDOW_MS, AFTER_MS = 1000, 100


class World:
    def __init__(self, monkeypatch, tmp_path):
        self.done, self.problem, self.made = [], None, []
        note = self.done.append
        told = lambda event, **_: note(event)  # noqa: E731
        monkeypatch.setattr(module.dump, "new_directory", lambda *words: "target")
        monkeypatch.setattr(module, "Dump", self.dump)
        one = self.one = Dashcam.__new__(Dashcam)
        one.memory, one._dumps, one._broker_id = tmp_path, tmp_path / "dumps", 4
        one._log = SimpleNamespace(info=told, error=told, warning=told)
        one._end_segments = lambda: note("ended")
        one._bounds = SimpleNamespace(window_ms=WINDOW_MS, most_bytes=1 << 20)
        monkeypatch.setattr(Dashcam, "after_ms", AFTER_MS, raising=False)
        one._dump, one._asked, one._again_ns, one._failing_since_ns = None, [], 0, None
        one._note = lambda dump: note("noted")
        one.trigger = SimpleNamespace(look=lambda *_: [], left_out=0)

    def dump(self, memory, target, causes, until_ns):
        found = SimpleNamespace(
            causes=causes, until_ns=until_ns, is_busy=True, join=lambda cause: self.done.append(("join", cause.text)),
            add_closed=lambda: self.done.append("closed"), abandon=lambda: self.done.append("abandoned"),
        )  # fmt: skip
        self.made.append(found)
        return found


@pytest.fixture
def world(monkeypatch, tmp_path):
    return World(monkeypatch, tmp_path)


def cause(at_ms, after_ms=0, text="asked"):
    return SimpleNamespace(t0_ns=at_ms * NS, after_ms=after_ms, text=text)


def test_a_dump_goes_on_until_its_cause_says(world):
    assert not world.one.is_busy
    world.one.want(cause(50, 30))
    assert world.made[0].until_ns == 80 * NS
    assert world.done == ["trace_dump_begun", "noted", "ended", "closed"]
    assert world.one.is_busy


@pytest.mark.parametrize(
    ("at_ms", "after_ms", "until_ms"),
    [(60, 40, 100), (60, 5, 80), (500, 5000, 50 + WINDOW_MS + AFTER_MS), (2000, 10, 50 + WINDOW_MS + AFTER_MS)],
    ids=["longer", "shorter", "much longer", "late"],
)
def test_a_further_cause_prolongs_it_within_bounds(world, at_ms, after_ms, until_ms):
    world.one.want(cause(50, 30))
    world.done.clear()
    world.one.want(cause(at_ms, after_ms, "more"))
    assert world.made[0].until_ns == until_ms * NS and len(world.made) == 1
    assert world.done == [("join", "more"), "noted", "ended", "closed"]


def test_a_dump_that_is_given_up_leaves_nothing(world, tmp_path):
    one = world.one
    (tmp_path / STATE).write_text("{}")
    one.want(cause(50))
    one._asked, one._failing_since_ns = [cause(60)], 7
    one._give_up(OSError("full"))
    assert one._dump is None and one._asked == [] and one._failing_since_ns is None
    assert not (tmp_path / STATE).exists() and world.done[-2:] == ["trace_dump_failed", "abandoned"]
    one._give_up(OSError("full"))
    assert world.done[-1] == "trace_dump_failed"


def test_a_disk_that_does_not_take_it_is_asked_again_after_a_while_and_not_for_ever(world):
    one, given_up, tries = world.one, [], []

    def write(now_ns):
        tries.append(now_ns)
        if world.problem:
            raise world.problem

    one._write, one._give_up = write, given_up.append
    one._bound = lambda *_: None
    one.trigger = SimpleNamespace(take=lambda now_ns: None)

    def turn(now_ms):
        one.turn(now_ms * NS, [], SimpleNamespace())

    turn(1)
    assert tries == [1 * NS] and one._failing_since_ns is None
    world.problem = OSError("full")
    with pytest.raises(OSError, match="full"):
        turn(10)
    assert (one._again_ns, one._failing_since_ns) == ((10 + AGAIN_MS) * NS, 10 * NS)
    turn(10 + AGAIN_MS - 1)
    assert len(tries) == 2
    with pytest.raises(OSError, match="full"):
        turn(10 + GIVE_UP_MS)
    assert given_up == [] and one._failing_since_ns == 10 * NS
    with pytest.raises(OSError, match="full"):
        turn(10 + GIVE_UP_MS + AGAIN_MS)
    assert given_up == [world.problem]
    world.problem = None
    turn(10 + GIVE_UP_MS + 2 * AGAIN_MS)
    assert one._failing_since_ns is None


def test_a_trigger_is_marked_before_its_dump_begins(world):
    one, found = world.one, cause(5, text="slow")
    one._bound = lambda now_ns, active: world.done.append(active)
    one._write = lambda now_ns: world.done.append("written")
    one.trigger = SimpleNamespace(take=lambda now_ns: found)
    own = SimpleNamespace(mark=lambda *words: world.done.append(words), write=lambda now_ns: world.done.append("own"))
    one.turn(5 * NS, [SimpleNamespace(active={"a": 1}), SimpleNamespace(active={"b": 2})], own)
    begun = ["trace_dump_begun", "noted", "ended", "closed"]
    assert world.done == [{"a": 1, "b": 2}, ("slow", 5 * NS), "own", *begun, "written"] and one._asked == []


@pytest.mark.parametrize(("after_ms", "goes_on_ms"), [(None, 0), (0, 0), (30, 30)])
def test_who_asked_is_told_when_that_was_by_the_calendar(world, monkeypatch, after_ms, goes_on_ms):
    """A marker waits in the spool for a while: its moment is earlier than now."""
    clocks = SimpleNamespace(time_ns=lambda: 5000 * NS + 999_999, monotonic_ns=lambda: 700 * NS)
    monkeypatch.setattr(module, "time", clocks)
    world.one.asked(Mark(Path("/m"), "why", 650 * NS, after_ms))
    assert world.one._asked == [Cause(ASKED, "why", 650 * NS, 4950, goes_on_ms)]


KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("most_bytes", "lanes", "size"),
    [
        (64 * MIB, 4, 4 * MIB),
        (64 * MIB, 0, 8 * MIB),
        (4 * MIB, 1, 1 * MIB),
        (4 * MIB, 4, 256 * KIB),
        (4 * MIB, 5, 256 * KIB),
        (1 << 40, 1, 8 * MIB),
    ],
)
def test_segments_in_memory_are_small(world, most_bytes, lanes, size):
    for window_ms, age_ms in ((16_000, 1000), (1600, 100), (1599, 100)):
        world.one._bounds = SimpleNamespace(window_ms=window_ms, most_bytes=most_bytes)
        assert world.one.limits(lanes) == (size, age_ms)


@pytest.mark.parametrize("gone", [[], ["old.mpt"]])
@pytest.mark.parametrize("dumping", [False, True])
def test_what_is_in_memory_is_bounded_when_a_segment_ended_and_once_a_second(world, monkeypatch, gone, dumping):
    one, done = world.one, []
    one._seen_files, one._retained_ns, one._room = set(), 0, lambda: 77
    one._dump = SimpleNamespace(add_closed=lambda: done.append("closed")) if dumping else None
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 5.0))
    monkeypatch.setattr(
        module.retention, "apply", lambda *words: done.append(words) or [Path("/d", name) for name in gone]
    )
    monkeypatch.setattr(module.manifest, "forget", lambda memory, names: done.append(names))
    first, second = {Path("/d/a"): 1}, {Path("/d/b"): 2}
    looked = []
    for now_ms, active in ((10, first), (20, first), (30, second), (1029, second), (1030, second), (1031, second)):
        one._bound(now_ms * NS, active)
        looked.append(len(done) > 0)
        if done:
            expected = ["closed"] * dumping + [(one.memory, active, 5.0, 77, WINDOW_MS)] + [{"old.mpt"}] * bool(gone)
            assert done == expected
        done.clear()
    assert looked == [True, False, True, False, True, False]


@pytest.mark.parametrize(
    ("most", "names", "segments", "free", "room"),
    [
        (100, 10, 0, 1000, 90),
        (100, 50, 0, 1000, 50),
        (100, 60, 0, 1000, 50),
        (100, 10, 30, 40, 70),
        (100, 10, 0, 0, 0),
        (100, 10, 0, -1, 0),
    ],
)
def test_there_is_room_for_what_the_setting_says_as_far_as_memory_goes(
    world, monkeypatch, tmp_path, most, names, segments, free, room
):
    one = world.one
    one._bounds = SimpleNamespace(window_ms=WINDOW_MS, most_bytes=most * KIB)
    monkeypatch.setattr(module.dictionary, "PATTERN", "names*")
    (tmp_path / "names-1").write_bytes(bytes(names * KIB))
    monkeypatch.setattr(
        module.retention, "candidates", lambda memory, active: [SimpleNamespace(file_bytes=segments * KIB)]
    )
    there = SimpleNamespace(f_bavail=SPARE_BYTES // KIB + free, f_frsize=KIB)
    monkeypatch.setattr(module.os, "statvfs", lambda path: there)
    assert one._room() == room * KIB


@pytest.mark.parametrize("supervisor_gone", [False, True])
def test_at_the_end_what_is_under_way_is_written_and_nothing_stays_in_memory(world, monkeypatch, supervisor_gone):
    one, steps = world.one, []
    now = SimpleNamespace(monotonic=lambda: 1.0, monotonic_ns=lambda: 9, time_ns=lambda: 5 * NS)
    monkeypatch.setattr(module, "time", now)
    monkeypatch.setattr(module.shutil, "rmtree", lambda path, ignore_errors: steps.append((path, ignore_errors)))

    def write(now_ns):
        steps.append((now_ns, one._dump.until_ns))
        one._dump = None if len(steps) == 2 else one._dump

    one._write = write
    one.finish(supervisor_gone)
    written = [(9, 0), (9, 0)] * supervisor_gone
    assert steps == [*written, (one.memory, True)]
    assert [made.causes[0].text for made in world.made] == ["the supervisor died"] * supervisor_gone


def test_a_disk_that_does_not_take_the_last_dump_is_not_waited_for_for_ever(world, monkeypatch):
    times = iter([0.0, FINISH_S, FINISH_S + 0.1])
    now = SimpleNamespace(monotonic=lambda: next(times), monotonic_ns=lambda: 9)
    monkeypatch.setattr(module, "time", now)
    world.one._dump, tries = SimpleNamespace(until_ns=5, add_closed=lambda: None), []
    world.one._write = tries.append
    with pytest.raises(TimeoutError, match="did not take the dump within 10 s"):
        world.one.finish(False)
    assert tries == [9]


class Dumping:
    """A dump under way: `left` pieces are to be written, and each end of segments brings `more`."""

    def __init__(self, done, until_ns, left=0, more=0):
        self.done, self.until_ns, self.left, self.more = done, until_ns, left, more
        self.target, self.lost = "target", 3

    @property
    def is_busy(self):
        return self.left > 0

    def step(self):
        self.done.append("step")
        self.left -= 1

    def add_closed(self):
        self.done.append("closed")
        self.left, self.more = self.left + self.more, 0

    def complete(self):
        self.done.append("complete")


def dumping(world, until_ms, **more):
    one = world.one
    one._dump = Dumping(world.done, until_ms * NS, **more)
    one._log = SimpleNamespace(info=lambda event, **fields: world.done.append((event, fields)))
    one.trigger.left_out = 5
    (one.memory / STATE).write_text("{}")
    return one


TOLD = ("trace_dumped", {"directory": "target", "segments_lost": 3, "triggers_left_out": 5})


@pytest.mark.parametrize(("now_ms", "is_over"), [(99, False), (100, True), (101, True)])
def test_a_dump_is_complete_when_its_time_is_over_and_all_is_written(world, now_ms, is_over):
    one = dumping(world, 100)
    one._write(now_ms * NS)
    assert world.done == (["ended", "closed", "complete", TOLD] if is_over else [])
    assert (one._dump is None) is is_over and (one.memory / STATE).exists() is not is_over
    assert one.trigger.left_out == (0 if is_over else 5)
    one._write(now_ms * NS)
    assert len(world.done) == 4 * is_over, "there is nothing more to write"


def test_what_was_open_at_its_end_is_written_before_a_dump_is_complete(world):
    """Segments are ended once for it, however long the disk takes."""
    one, done = dumping(world, 100, left=1, more=2), world.done
    (one.memory / STATE).unlink()  # somebody cleared /dev/shm
    for _ in range(5):
        assert one._dump is not None
        one._write(100 * NS)
    assert done == ["step", "ended", "closed", "step", "step", "complete", TOLD] and one._dump is None


def test_at_the_end_of_the_tracer_what_is_closed_goes_into_the_dump_under_way(world, monkeypatch):
    one = dumping(world, 1 << 40, more=2)
    monkeypatch.setattr(module.shutil, "rmtree", lambda path, ignore_errors: world.done.append((path, ignore_errors)))
    one.finish(False)
    assert world.done == ["closed", "step", "step", "complete", TOLD, (one.memory, True)]


def settings(**values):
    return SimpleNamespace(data_dir="/data", trace_dir="/data/traces", node_id=4, **values)


def numbered(first):
    names = ("dashcam_bytes", "dashcam_ms", "retention_bytes", "retention_ms", "dashcam_after_ms")
    names += ("dashcam_latency_ms", "dashcam_error_percent")
    return settings(**{f"mpbroker_trace_{name}": first + number for number, name in enumerate(names)})


def test_settings_are_taken_at_the_start_and_when_they_change(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "dashcam_directory", lambda data_dir, boot_id: tmp_path / "memory")
    for _ in range(2):  # a successor finds the directory
        one = Dashcam(numbered(10), 7, None, None)
        assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o700
    for first in (10, 20):
        one.take_settings(numbered(first))
        assert one._bounds == (first, first + 1) and one._disk == (first + 2, first + 3)
        assert one.after_ms == first + 4 and one.trigger.limits == (first + 5, first + 6, first + 1, first + 4)
    fresh = Dashcam(numbered(10), 7, None, None)
    assert fresh._bounds == (10, 11) and fresh.trigger.limits == (15, 16, 11, 14) and not fresh.is_busy


@pytest.mark.parametrize(("until_ns", "goes_on_until"), [(500, 500), (1, 1), (0, 1)])
def test_a_successor_goes_on_as_long_as_its_predecessor_wanted_to(world, until_ns, goes_on_until):
    """0 is a dump whose segments were ended: the successor's own are to be ended first."""
    one, why = world.one, Cause(ASKED, "why", 5, 6, 7)
    one.resume()
    assert one._dump is None, "nothing was under way"
    (one._dumps / "dump-x").mkdir(parents=True)
    Dashcam._note(one, SimpleNamespace(target=Path("/elsewhere/dump-x"), until_ns=until_ns, causes=[why]))
    one.resume()
    assert one._dump is world.made[0] and world.done == ["closed"]
    assert (one._dump.causes, one._dump.until_ns) == ([why], goes_on_until)
    (one._dumps / "dump-x").rmdir()
    one._dump = None
    one.resume()
    assert one._dump is None, "its directory is gone"


def test_what_is_left_free_in_memory_has_room_for_a_lane():
    """What it may bring between two looks, and some."""
    assert lane.lane_bytes() < SPARE_BYTES
