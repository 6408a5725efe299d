"""What a tracer does about what changes around it: new settings, lanes and listeners, failures, what others left."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import Trouble
from mpbroker.trace import left_dashcam
from mpbroker.trace import tracer as module
from mpbroker.trace.lane_drain import Origin
from mpbroker.trace.tracer import OPEN_AGAIN_MS, RETENTION_MS, Limits, Tracer

NS_PER_MS = 1_000_000
NOW_NS = 50 * NS_PER_MS
SETTINGS = {
    "mpbroker_trace_segment_bytes": 11, "mpbroker_trace_segment_ms": 12, "mpbroker_trace_gauge_interval_ms": 13,
    "mpbroker_trace_retention_bytes": 14, "mpbroker_trace_retention_ms": 15, "trace_dir": "/t", "node_id": 4,
}  # fmt: skip


class World:
    """A tracer of parts; `done` says what was called, `told` what was said."""

    def __init__(self):
        self.done, self.told = [], []
        made = self.made = Tracer.__new__(Tracer)
        log = SimpleNamespace(**{level: self.tell(level) for level in ("error", "warning", "info")})
        made._ctx = SimpleNamespace(config=SimpleNamespace(**SETTINGS), log=log, lanes=(), listeners=(), boot_id=9)
        made._row = SimpleNamespace(set_trouble=self.note("trouble"))
        made._directory, made._origin = Path("/t"), Origin(4, "c", 0, {})
        made._drains, made._dashcam, made._own, made._left, made._saving = [], None, None, [], None
        made._failing, made._losses, made._open_due_ns, made._retention_due_ns = False, {}, 0, 0

    def tell(self, level):
        return lambda event, **fields: self.told.append((level, event, fields))

    def note(self, name, result=None):
        return lambda *words: self.done.append((name, *words)) or result


@pytest.fixture
def world():
    return World()


# ---- failures


def test_a_failure_is_said_when_it_begins_and_when_it_ends(world):
    made = world.made
    made._own = SimpleNamespace(losses=dict)
    made._say(None)
    assert world.told == world.done == []
    for _ in range(2):
        made._say(OSError("full"))
    assert world.told == [("error", "trace_write_failed", {"directory": "/t", "reason": "full"})]
    assert world.done == [("trouble", Trouble.TRACES_NOT_WRITTEN, True)]
    for _ in range(2):
        made._say(None)
    assert world.told[1:] == [("info", "trace_writing_again", {})]
    assert world.done[1:] == [("trouble", Trouble.TRACES_NOT_WRITTEN, False)]


def test_losses_are_said_when_they_grow_and_writing_works(world):
    made, losses = world.made, {"events": 1}
    made._say(None)  # nothing is written yet
    made._own = SimpleNamespace(losses=lambda: dict(losses))
    made._say(OSError("full"))
    assert [event for _, event, _ in world.told] == ["trace_write_failed"]
    made._say(None)
    made._say(None)
    lost = ("warning", "trace_events_lost", {"events": 1})
    assert world.told[1:] == [("info", "trace_writing_again", {}), lost]
    losses["events"] = 2
    made._say(None)
    assert world.told[3:] == [("warning", "trace_events_lost", {"events": 2})]


# ---- dash-cams of brokers that were killed


@pytest.fixture
def saved(world, monkeypatch):
    """Saving takes two turns each."""

    def begin(path, directory, node_id, log):
        world.done.append(("begin", path, directory, node_id, log is world.made._ctx.log))
        turns = iter([False, True])
        return SimpleNamespace(turn=lambda: world.done.append("turn") or next(turns))

    monkeypatch.setattr(left_dashcam, "LeftDashcam", begin)
    return world


def test_what_killed_brokers_left_is_saved_one_after_the_other(world, saved, tmp_path):
    left = [str(tmp_path / name) for name in "ab"]
    for each in left:
        Path(each).mkdir()
    made, made_of = world.made, lambda each: ("begin", Path(each), Path("/t"), 4, True)
    made._left, made._open_due_ns = list(left), NOW_NS
    assert made._save_left(NOW_NS - 1) == 0 and world.done == []
    assert made._save_left(NOW_NS) == 0 and made._left == left
    assert world.done == [made_of(left[0]), "turn"] and made._saving is not None
    made._save_left(NOW_NS)
    assert made._left == left[1:] and made._saving is None and world.done[2:] == ["turn"]
    made._save_left(NOW_NS)
    made._save_left(NOW_NS)
    assert made._left == [] and world.done[3:] == [made_of(left[1]), "turn", "turn"]
    assert made._save_left(NOW_NS) == 0 and len(world.done) == 6 and not world.told


def test_what_may_not_be_read_stays_and_is_said(world, saved, tmp_path):
    missing = str(tmp_path / "missing")
    world.made._left = [missing, "another"]
    assert world.made._save_left(NOW_NS) == 0
    assert world.made._left == ["another"] and world.done == []
    assert world.told == [("error", "trace_dump_failed", {"directory": missing, "reason": "it may not be read"})]


def test_what_cannot_be_saved_now_is_tried_again_later(world, monkeypatch, tmp_path):
    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(left_dashcam, "LeftDashcam", fail)
    world.made._left = [str(tmp_path)]
    with pytest.raises(OSError, match="full"):
        world.made._save_left(NOW_NS)
    assert world.made._open_due_ns == NOW_NS + OPEN_AGAIN_MS * NS_PER_MS and world.made._left == [str(tmp_path)]
    assert world.made._save_left(NOW_NS + 1) == 0


# ---- new settings


def test_segments_name_the_listeners_that_the_broker_has_now(world):
    def full(_):
        raise OSError("full")

    made = world.made
    made._describe = lambda: {"listeners": ["a"]}
    taken = []
    made._drains = [SimpleNamespace(use_origin=full), SimpleNamespace(use_origin=taken.append)]
    made._name_listeners()
    assert taken == [] and made._origin.extra == {}, "nothing is written yet"
    made._own = object()
    made._name_listeners()
    assert taken == [Origin(4, "c", 0, {"listeners": ["a"]})] and made._origin is taken[0]
    made._name_listeners()
    assert len(taken) == 1, "they have not changed"


@pytest.mark.parametrize("dashcam", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_new_settings_reach_every_part(world, dashcam, own):
    made = world.made
    new = SimpleNamespace(
        **{name: value if isinstance(value, str) else value + 100 for name, value in SETTINGS.items()}
    )
    drains = made._drains = [SimpleNamespace(limits=None), SimpleNamespace(limits=None)]
    made._name_listeners = world.note("listeners")
    made._attach_lanes = lambda: world.done.append(("attach",)) or ["new"]
    made._dashcam = SimpleNamespace(take_settings=world.note("settings"), limits=lambda lanes: ("dashcam's", lanes))
    made._own = SimpleNamespace(add_drain=world.note("add"), gauge_ms=1)
    if not dashcam:
        made._dashcam = None
    if not own:
        made._own = None
    made._ctx.take_reload = lambda: None
    made._take_new_limits()
    assert world.done == [] and drains[0].limits is None
    made._ctx.take_reload, made._ctx.lanes = lambda: new, ("a", "b", "c")
    made._take_new_limits()
    settings = [("settings", new)] if dashcam else []
    assert world.done == [("listeners",), *settings, *([("attach",), ("add", "new")] if own else [])]
    assert [one.limits for one in drains] == [("dashcam's", 3) if dashcam else Limits(111, 112)] * 2
    assert not own or made._own.gauge_ms == 113


@pytest.mark.parametrize("dashcam", [False, True])
def test_lanes_that_are_new_are_drained_and_those_that_cannot_be_are_not(world, monkeypatch, dashcam):
    def attach(name):
        if name == "broken":
            raise module.lane.LaneError(name)
        return SimpleNamespace(name=name)

    monkeypatch.setattr(module.lane, "attach", attach)
    monkeypatch.setattr(module, "LaneDrain", lambda *words: SimpleNamespace(lane=words[0], words=words, watch="none"))
    made = world.made
    old = SimpleNamespace(lane=SimpleNamespace(name="a"), watch="old")
    made._drains, made._ctx.lanes = [old], ("a", "broken", "b", "c")
    if dashcam:
        made._dashcam = SimpleNamespace(trigger=SimpleNamespace(see="see"), limits=lambda lanes: lanes)
    new = made._attach_lanes()
    assert [one.lane.name for one in new] == ["b", "c"] and made._drains == [old, *new] and old.watch == "old"
    assert [one.watch for one in new] == ["see" if dashcam else None] * 2
    assert new[0].words[1:] == (Path("/t"), made._origin, 4 if dashcam else Limits(11, 12))
    assert made._attach_lanes() == []


# ---- limits of the directory


def test_segments_that_went_leave_the_manifest_and_are_told(world, monkeypatch):
    made = world.made
    made._drains = [SimpleNamespace(active={"a": 1})]
    forgotten, gone = [], [Path("/t/one"), Path("/t/two")]
    monkeypatch.setattr(module.retention, "apply", lambda *_: gone)
    monkeypatch.setattr(module.retention, "delete_dictionaries", lambda *_, **__: None)
    monkeypatch.setattr(module.manifest, "forget", lambda *words: forgotten.append(words))
    assert made._retain(NOW_NS) == 0
    assert forgotten == [(Path("/t"), {"one", "two"})]
    assert world.told == [("info", "trace_segments_deleted", {"count": 2})]
    gone.clear()
    made._retention_due_ns = 0
    made._retain(NOW_NS)
    assert len(forgotten) == len(world.told) == 1


def test_a_dashcam_keeps_its_own_limits(world, monkeypatch):
    made = world.made
    monkeypatch.setattr(module.retention, "apply", world.note("apply"))
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 5.5))
    made._drains, made._dashcam = ["one"], SimpleNamespace(retain_dumps=world.note("dumps"))
    assert made._retain(NOW_NS) == 0 and world.done == [("dumps", 5.5)]
    made._retain(NOW_NS + RETENTION_MS * NS_PER_MS - 1)
    assert len(world.done) == 1
    made._retain(NOW_NS + RETENTION_MS * NS_PER_MS)
    assert len(world.done) == 2


@pytest.mark.parametrize(("dashcam", "own"), [(True, True), (True, False), (False, True)])
def test_the_dashcam_has_its_turn_once_traces_are_written(world, dashcam, own):
    made = world.made
    made._own = "own" if own else None
    made._dashcam = SimpleNamespace(turn=world.note("turn")) if dashcam else None
    assert made._watch(7) == 0
    assert world.done == ([("turn", 7, [], "own")] if dashcam and own else [])
