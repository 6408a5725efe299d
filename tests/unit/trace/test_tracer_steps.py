"""Single steps of the tracer: how long it pauses, when it begins to write, what it closes at the end."""

from types import SimpleNamespace

import pytest

from mpbroker.shm.waits import WaitName
from mpbroker.trace import tracer as module
from mpbroker.trace.tracer import (
    BUSY_PAUSE_MS,
    IDLE_PAUSE_MS,
    MIN_PAUSE_MS,
    OPEN_AGAIN_MS,
    QUIET_RECORDS_A_S,
    TURN_MS,
    Tracer,
)

NS_PER_MS = 1_000_000


class World:
    """A tracer of parts; `done` says in order what was called. `fails`: the step that raises OSError."""

    def __init__(self, monkeypatch):
        self.now_ns, self.done, self.due_ms, self.moves, self.fails = 5 * NS_PER_MS, [], 1000, 0, None
        self.gone, self.may_trace = False, True
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic_ns=lambda: self.now_ns))
        note = self.done.append
        told = lambda event, **_: note(event)  # noqa: E731
        made = self.made = Tracer.__new__(Tracer)
        made._ctx = SimpleNamespace(
            log=SimpleNamespace(error=told, warning=told), lanes=("lane",), drain_wakeups=lambda: note("drained"),
            supervisor_gone=lambda: self.gone, may_trace=lambda: self.may_trace,
        )  # fmt: skip
        made._row = SimpleNamespace(beat=lambda: note("beat"), wait=None)
        made._directory = "/t"
        made._drains, made._dashcam, made._open_due_ns = [], None, 0
        made._own = SimpleNamespace(
            due_ms=lambda now_ns: self.due_ms, close=lambda: note("own closed"),
            sample_gauges=lambda now_ns: note("gauges"), take=lambda now_ns: note("take"),
            write=lambda now_ns: note("write"), has_notices=lambda: self.notices,
        )  # fmt: skip
        made._rhythm_ms = made._pause_ms = IDLE_PAUSE_MS
        made._moved_between, made._fullest, self.notices = 0, 0.0, False

    def steps(self, *results):
        """The turn's works do nothing but be noted."""
        for name in ("_open", "_write_own", "_drain", "_watch", "_save_left", "_retain"):
            setattr(self.made, name, lambda now_ns, name=name: self.step(name))
        self.made._say = lambda failure: self.done.append(("say", None if failure is None else str(failure)))
        self.made._take_new_limits = lambda: self.done.append("limits")

    def step(self, name):
        self.done.append(name)
        if self.fails and name in self.fails:
            raise OSError(name)
        return self.moves if name == "_drain" else 0


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


WORKS = ["beat", "_open", "_write_own", "_drain", "_watch", "_save_left", "_retain"]


def test_a_turn_does_all_its_works_whatever_becomes_of_one(world):
    world.steps()
    world.moves = 7
    assert world.made.turn() == 7
    assert world.done == [*WORKS, ("say", None), "limits"]
    world.done.clear()
    world.fails = ("_write_own", "_watch")
    assert world.made.turn() == 7
    assert world.done == [*WORKS, ("say", "_write_own"), "limits"], "the first failure is told"


@pytest.mark.parametrize(
    ("has_own", "lanes", "says"), [(True, ("l",), True), (False, ("l",), False), (False, (), True)]
)
def test_between_two_tries_to_begin_nothing_is_said(world, has_own, lanes, says):
    world.steps()
    world.made._ctx.lanes = lanes
    if not has_own:
        world.made._own = None
    world.made.turn()
    assert (("say", None) in world.done) is says


@pytest.mark.parametrize(
    ("moved", "pause_ms", "rhythm_ms", "following"),
    [
        (QUIET_RECORDS_A_S // 5 + 1, 200, 200, BUSY_PAUSE_MS),
        (QUIET_RECORDS_A_S // 5, 200, 150, 160),
        (0, 200, IDLE_PAUSE_MS - 5, IDLE_PAUSE_MS),
        (0, 200, IDLE_PAUSE_MS, IDLE_PAUSE_MS),
    ],
)
def test_pauses_grow_while_few_records_come(world, moved, pause_ms, rhythm_ms, following):
    world.made._pause_ms, world.made._rhythm_ms = pause_ms, rhythm_ms
    assert world.made._next_rhythm_ms(moved) == following


@pytest.mark.parametrize(
    ("held", "rhythm_ms", "following"),
    [
        ([0, 0], 100, BUSY_PAUSE_MS),
        ([10, 50], 100, 100),
        ([60, 10], 90, 75),
        ([10, 20], 20, 50),
        ([5, 8], 20, BUSY_PAUSE_MS),
        ([100, 100], 200, 100),
        ([400, 0], 10, MIN_PAUSE_MS),
    ],
    ids=["nothing", "half full", "fuller", "less", "much less", "full", "again and again"],
)
def test_the_fullest_lane_says_when_to_look_again(world, held, rhythm_ms, following):
    made = world.made
    made._drains = [_drain(count) for count in held]
    made._rhythm_ms = rhythm_ms
    assert Tracer._drain(made, 5) == sum(held)
    assert made._next_rhythm_ms(1_000_000) == following


def _drain(count, **fields):
    """One that moves so many records, of a lane that holds 100."""
    lane = SimpleNamespace(native=SimpleNamespace(capacity=100))
    return SimpleNamespace(step=lambda now_ns: count, follow=lambda: count, lane=lane, **fields)


@pytest.mark.parametrize(
    ("due_ms", "busy", "pause_ms"),
    [
        (1000, False, IDLE_PAUSE_MS),
        (60, False, 60),
        (3, False, MIN_PAUSE_MS),
        (1000, True, MIN_PAUSE_MS),
        (None, False, IDLE_PAUSE_MS),
    ],
    ids=["nothing is due", "gauges", "gauges at once", "a dump is copied", "it has not begun"],
)
def test_what_is_due_shortens_the_next_pause(world, due_ms, busy, pause_ms):
    world.steps()
    world.due_ms = due_ms
    if due_ms is None:
        world.made._own = None
    world.made._dashcam = SimpleNamespace(is_busy=busy)
    world.made.turn()
    assert world.made.pause_ms == pause_ms and world.made._rhythm_ms == IDLE_PAUSE_MS


@pytest.mark.parametrize(("dashcam", "pause_ms"), [(False, TURN_MS), (True, BUSY_PAUSE_MS)])
def test_in_a_busy_broker_turns_are_rare(world, dashcam, pause_ms):
    """Not with a dash-cam, which wants to see every record soon."""
    world.steps()
    world.moves, world.made._moved_between = 1, QUIET_RECORDS_A_S // 5
    world.made._dashcam = SimpleNamespace(is_busy=False) if dashcam else None
    world.made.turn()
    assert (world.made._rhythm_ms, world.made.pause_ms, world.made._moved_between) == (BUSY_PAUSE_MS, pause_ms, 0)


@pytest.mark.parametrize("rung", [False, True])
def test_a_pause_ends_with_a_bell(world, rung):
    waits = []
    world.made._poll = SimpleNamespace(poll=lambda ms: waits.append((ms, world.made._row.wait)) or rung)
    world.made.pause()
    assert waits == [(IDLE_PAUSE_MS, WaitName.TRACE_FLUSH)] and world.made._row.wait == 0
    assert world.done == (["drained"] if rung else [])


def _paused(world, drains, rings_at=None, pause_ms=TURN_MS, rhythm_ms=60):
    """A pause of a busy tracer; how long it slept each time."""
    made, slept = world.made, []
    made._drains, made._pause_ms, made._rhythm_ms = drains, pause_ms, rhythm_ms
    made._poll = SimpleNamespace(poll=lambda ms: slept.append(ms) or len(slept) == rings_at)
    made.pause()
    assert made._row.wait == 0
    return slept


def test_lanes_are_emptied_between_two_turns(world):
    counts = iter([20, 50, 90, 1])
    one = _drain(0)
    one.follow = lambda: next(counts)
    assert _paused(world, [one, _drain(7)]) == [60, 100, 40], "60 ms filled a fifth"
    assert world.made._moved_between == 20 + 7 + 50 + 7
    assert world.made._fullest == 0.5 and world.made._rhythm_ms == 100


def test_a_bell_and_what_needs_a_turn_end_the_pause(world):
    full, stuck = _drain(30), _drain(None)
    assert _paused(world, [full], rings_at=2) == [60, 100] and world.done == ["drained"]
    assert _paused(world, [stuck, full]) == [60] and world.made._moved_between == 30 + 30, "the other one was emptied"
    world.notices = True
    assert _paused(world, [full]) == [60] and world.made._moved_between == 60, "names come before their records"
    world.notices = False
    world.made._dashcam = object()
    assert _paused(world, [full]) == [60] and world.made._moved_between == 60
    world.made._dashcam = None
    full.follow = _fail
    assert _paused(world, [full]) == [60]
    world.made._own = None
    assert _paused(world, [_drain(30)]) == [60] and world.made._moved_between == 60


def _fail():
    raise OSError("no space")


def test_it_begins_when_there_is_room_and_tries_again_after_a_while(world):
    made = world.made
    begun = []
    made._begin = lambda: begun.append(1)
    made._open(world.now_ns)
    assert begun == [], "it has begun already"
    made._own, world.may_trace = None, False
    with pytest.raises(OSError, match="the disk was full"):
        made._open(world.now_ns)
    world.may_trace = True
    made._open(world.now_ns + OPEN_AGAIN_MS * NS_PER_MS - 1)
    assert begun == []
    made._open(world.now_ns + OPEN_AGAIN_MS * NS_PER_MS)
    assert begun == [1]
    made._open_due_ns, made._ctx.lanes = 0, ()
    made._open(world.now_ns)
    assert begun == [1], "there is nothing to trace"


def test_what_could_not_begin_drains_nothing(world):
    def fail():
        raise OSError("no")

    world.made._own, world.made._begin, world.made._drains = None, fail, ["half"]
    with pytest.raises(OSError, match="no"):
        world.made._open(world.now_ns)
    assert world.made._drains == []


@pytest.mark.parametrize("gone", [False, True])
def test_at_the_end_everything_is_closed_whatever_fails(world, gone):
    def fail(*_):
        raise OSError("no")

    made, world.gone = world.made, gone
    made.turn = lambda: world.done.append("turn")
    closed = SimpleNamespace(close=lambda: world.done.append("closed"))
    made._drains = [SimpleNamespace(close=fail), closed]
    made._dashcam = SimpleNamespace(finish=lambda is_gone: world.done.append(("dashcam", is_gone)))
    made.finish()
    assert world.done == ["gauges", "turn", "trace_close_failed", "closed", "own closed", ("dashcam", gone)]
    made._dashcam.finish = fail
    world.done.clear()
    made.finish()
    assert world.done[-1] == "trace_dump_failed"
    made._own = made._dashcam = None
    world.done.clear()
    made.finish()
    assert world.done == ["turn", "trace_close_failed", "closed"]


def test_its_own_records_go_first_and_every_lane_is_drained(world):
    made = world.made
    assert made._write_own(1) == 0 and world.done == ["take", "write"]
    made._drains = [_drain(count) for count in (3, 4)]
    assert made._drain(1) == 7
    made._own = None
    assert made._write_own(1) == 0 and len(world.done) == 2


@pytest.mark.parametrize(
    ("lines", "offset_ns"),
    [
        ("boottime 5 6\nmonotonic 3 7\n", 3_000_000_007),
        ("7 9 9\n1 -2 5\n", -1_999_999_995),
        ("boottime 5 6\n", 0),
        ("monotonic x 7\n", 0),
        ("monotonic\n", 0),
        (None, 0),
    ],
)
def test_what_the_time_namespace_adds(monkeypatch, tmp_path, lines, offset_ns):
    path = tmp_path / "offsets"
    if lines is not None:
        path.write_text(lines)
    monkeypatch.setattr(module, "open", lambda _: path.open(), raising=False)
    assert module.time_namespace_ns() == offset_ns


def test_segments_name_the_apis_that_records_can_have(world):
    listener = SimpleNamespace(name="A", protocol="PLAINTEXT", control=False)
    world.made._ctx.listeners = (listener,)
    found = world.made._describe()
    assert found["listeners"] == [{"name": "A", "protocol": "PLAINTEXT", "control": False}]
    named = {int(key) for key in found["apis"]}
    assert named == {key for key in module.API_NAMES if key <= module.LAST_NAMED_API} | set(module.NAMED_BEYOND)
    assert found["apis"]["0"] == "Produce" and max(module.API_NAMES) not in named - set(module.NAMED_BEYOND)


def test_limits_of_the_directory_are_looked_after_once_in_a_while_and_what_is_written_to_stays(world, monkeypatch):
    applied, kept = [], []
    monkeypatch.setattr(module.retention, "apply", lambda *words: applied.append(words) or [])
    monkeypatch.setattr(module.retention, "delete_dictionaries", lambda directory, keep: kept.append(keep))
    world.made._ctx.config = SimpleNamespace(mpbroker_trace_retention_bytes=7, mpbroker_trace_retention_ms=8, node_id=4)
    world.made._ctx.boot_id = 1 << 40 | 9
    world.made._retention_due_ns = 0
    module.time.time = lambda: 55.0
    assert world.made._retain(10) == 0 and not applied, "nothing is written yet"
    world.made._drains = [SimpleNamespace(active={"a": 1}), SimpleNamespace(active={"b": 2})]
    world.made._retain(10)
    assert applied == [("/t", {"a": 1, "b": 2}, 55.0, 7, 8)] and kept == [{(4, 9)}]
    due_ns = 10 + module.RETENTION_MS * NS_PER_MS
    assert world.made._retain(due_ns - 1) == 0 and len(applied) == 1
    world.made._retain(due_ns)
    assert len(applied) == 2
