"""Single steps of the tracer: how long it pauses, when it begins to write, what it closes at the end."""

from types import SimpleNamespace

import pytest

from mpbroker.shm.waits import WaitName
from mpbroker.trace import tracer as module
from mpbroker.trace.tracer import (
    MIN_PAUSE_MS,
    OPEN_AGAIN_MS,
    TURN_MS,
    Tracer,
)

NS_PER_MS = 1_000_000
WAKEUP, BELL, NOTICES = 1000, 1001, 1002


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
            supervisor_gone=lambda: self.gone, may_trace=lambda: self.may_trace, wakeup_fd=WAKEUP,
            trace_bell_fd=BELL, trace_notices_fd=NOTICES,
        )  # fmt: skip
        made._row = SimpleNamespace(beat=lambda: note("beat"), wait=None)
        made._directory = "/t"
        made._drains, made._dashcam, made._open_due_ns = [], None, 0
        made._own = SimpleNamespace(
            due_ms=lambda now_ns: self.due_ms, close=lambda: note("own closed"),
            sample_gauges=lambda now_ns: note("gauges"), take=lambda now_ns: note("take"),
            write=lambda now_ns: note("write"),
        )  # fmt: skip
        made._pause_ms = TURN_MS

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


def _drain(count):
    """One that moves so many records."""
    return SimpleNamespace(step=lambda now_ns: count)


@pytest.mark.parametrize(
    ("due_ms", "busy", "pause_ms"),
    [
        (1000, False, TURN_MS),
        (60, False, 60),
        (3, False, MIN_PAUSE_MS),
        (1000, True, MIN_PAUSE_MS),
        (None, False, TURN_MS),
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
    assert world.made.pause_ms == pause_ms


def _paused(world, monkeypatch, ended=0):
    """A pause that ends so; the arguments it waited with."""
    waited = []

    def wait(*words):
        waited.append((*words, world.made._row.wait))
        return ended

    monkeypatch.setattr(module._native, "trace_wait", wait)
    world.made.pause()
    assert world.made._row.wait == 0
    (words,) = waited
    assert words[-1] is WaitName.TRACE_FLUSH
    return words[:-1]


@pytest.mark.parametrize(("ended", "done"), [(0, []), (module._native.TRACE_SIGNALLED, ["drained"]), (2, [])])
def test_a_pause_ends_with_its_time_with_a_signal_or_when_a_turn_is_needed(world, monkeypatch, ended, done):
    world.made._drains = [SimpleNamespace(tail=lambda: "one"), SimpleNamespace(tail=lambda: "two")]
    assert _paused(world, monkeypatch, ended) == (("one", "two"), WAKEUP, BELL, NOTICES, TURN_MS)
    assert world.done == done


def test_lanes_are_followed_only_where_that_is_all_there_is_to_do(world, monkeypatch):
    made = world.made
    made._drains = [SimpleNamespace(tail=lambda: "one")]
    made._pause_ms, made._dashcam = 30, object()
    assert _paused(world, monkeypatch) == ((), WAKEUP, BELL, NOTICES, 30), "a dash-cam looks at every record"
    made._dashcam, made._own = None, None
    assert _paused(world, monkeypatch)[0] == (), "names are not written yet"


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
    closed = SimpleNamespace(close=lambda: world.done.append("closed"), give_up=lambda: 0)
    made._drains = [SimpleNamespace(close=fail, give_up=lambda: 5), closed, SimpleNamespace(give_up=fail)]
    made._dashcam = SimpleNamespace(finish=lambda is_gone: world.done.append(("dashcam", is_gone)))
    made.finish()
    ends = ["trace_close_failed", "trace_records_lost", "closed", "trace_close_failed"]
    assert world.done == ["gauges", "turn", *ends, "own closed", ("dashcam", gone)]
    made._dashcam.finish = fail
    world.done.clear()
    made.finish()
    assert world.done[-1] == "trace_dump_failed"
    made._own = made._dashcam = None
    world.done.clear()
    made.finish()
    assert world.done == ["turn", *ends]


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
    assert "66" in found["apis"] and "67" not in found["apis"], "that one is for controllers alone"
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
