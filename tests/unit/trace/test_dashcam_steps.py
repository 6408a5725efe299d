"""Single steps of the dash-cam: until when a dump goes on, when it is tried again, and when it is given up."""

from types import SimpleNamespace

import pytest

from mpbroker.trace import dashcam as module
from mpbroker.trace.dashcam import AGAIN_MS, GIVE_UP_MS, STATE, Dashcam

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
