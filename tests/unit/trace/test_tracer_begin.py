"""How the tracer begins and ends: where it writes, what of others it finishes first, who removes the names."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import ProcessState
from mpbroker.trace import dashcam as dashcam_module
from mpbroker.trace import tracer as module
from mpbroker.trace.lane_drain import Limits, Origin
from mpbroker.trace.tracer import TURN_MS, Tracer


@pytest.fixture
def ran(monkeypatch):
    """Runs main with a tracer that writes down its steps; `ends`: it is asked to stop after
    so many turns, or its supervisor is gone by then, or its end fails."""

    def run(ends, turns=3):
        done = []

        def step(name):
            done.append(name)
            if (ends, name) == ("failure", "finish"):
                raise OSError("nobody thought of this")

        def over(how):
            return ends == how and done.count("pause") >= turns

        ctx = SimpleNamespace(
            running=lambda: done.append("running"), process_row=SimpleNamespace(state=3), names=("/page", "/lane"),
            stop_requested=lambda: over("stop"), supervisor_gone=lambda: ends == "failure" or over("gone"),
        )  # fmt: skip
        made = SimpleNamespace(turn=lambda: step("turn"), pause=lambda: step("pause"), finish=lambda: step("finish"))
        monkeypatch.setattr(module, "Tracer", lambda it: made if it is ctx else None)
        monkeypatch.setattr(module, "unlink_names", lambda names: done.append(names))
        if ends == "failure":
            with pytest.raises(OSError, match="nobody"):
                module.main(ctx)
        else:
            module.main(ctx)
        return done, ctx.process_row.state

    return run


def test_it_goes_on_until_it_is_asked_to_stop(ran):
    assert ran("stop") == (["running", *["turn", "pause"] * 3, "finish"], ProcessState.STOPPING)


def test_without_a_supervisor_it_finishes_and_removes_the_names(ran):
    assert ran("gone", 2) == (["running", *["turn", "pause"] * 2, "finish", ("/page", "/lane")], ProcessState.STOPPING)


def test_the_names_are_removed_whatever_fails(ran):
    assert ran("failure")[0] == ["running", "finish", ("/page", "/lane")]


class World:
    """A context, and the parts that a beginning is made of; `done` says in order what was made."""

    def __init__(self, monkeypatch, tmp_path, dashcam_bytes):
        self.done, self.told, self.recovered = [], [], 0
        note = self.done.append
        self.traces, self.memory = tmp_path / "a" / "traces", tmp_path / "memory"
        config = SimpleNamespace(
            trace_dir=str(self.traces), data_dir="/data", node_id=4, mpbroker_trace_dashcam_bytes=dashcam_bytes,
            mpbroker_trace_segment_bytes=11, mpbroker_trace_segment_ms=12,
        )  # fmt: skip
        tell = lambda event, **fields: self.told.append((event, fields))  # noqa: E731
        self.ctx = SimpleNamespace(
            config=config, boot_id=9, cluster_id="c", lanes=("one", "two"), listeners=(), may_trace=lambda: True,
            log=SimpleNamespace(info=tell, error=tell, warning=tell),
            process_row=SimpleNamespace(set_trouble=lambda *how: note(("trouble", *how))),
        )  # fmt: skip
        monkeypatch.setattr(module, "left_dashcams", lambda *how: note(("left", *how)) or ["/left"])
        monkeypatch.setattr(module, "recover_directory", lambda *how: note(("recover", *how)) or self.recovered)
        monkeypatch.setattr(module, "time_namespace_ns", lambda: 33)
        monkeypatch.setattr(module.lane, "attach", lambda name: SimpleNamespace(name=name))
        monkeypatch.setattr(module, "LaneDrain", self.drain)
        monkeypatch.setattr(module, "OwnRecords", self.own)
        monkeypatch.setattr(dashcam_module, "Dashcam", self.dashcam)
        monkeypatch.setattr(Tracer, "_describe", lambda it: {"version": "v"})

    def drain(self, lane, directory, origin, limits):
        self.done.append(("drain", lane.name, directory, origin, limits))
        return SimpleNamespace(lane=lane, watch=None, close=lambda: self.done.append(("closed", lane.name)))

    def own(self, ctx, directory, drains):
        self.done.append(("own", ctx is self.ctx, directory, [one.lane.name for one in drains]))
        return SimpleNamespace(on_death=None, on_dump=None, losses=dict)

    def dashcam(self, config, boot_id, log, end_segments):
        self.done.append(("dashcam", config is self.ctx.config, boot_id, log is self.ctx.log))
        self.end_segments = end_segments
        return SimpleNamespace(
            memory=self.memory, trigger=SimpleNamespace(see="see", died="died"), asked="asked",
            limits=lambda lanes: ("limits of", lanes), resume=lambda: self.done.append("resumed"),
        )  # fmt: skip


@pytest.mark.parametrize("dashcam_bytes", [0, 1])
@pytest.mark.parametrize("recovered", [0, 2])
def test_what_a_killed_tracer_left_is_finished_before_anything_is_written(
    monkeypatch, tmp_path, dashcam_bytes, recovered
):
    """With a dash-cam all of it is in memory, also what its predecessor was about to dump."""
    world = World(monkeypatch, tmp_path, dashcam_bytes)
    world.recovered = recovered
    made = Tracer(world.ctx)
    directory, origin = world.memory if dashcam_bytes else world.traces, Origin(4, "c", 33, {"version": "v"})
    limits = ("limits of", 2) if dashcam_bytes else Limits(11, 12)
    assert world.done == [
        ("left", "/data", 9),
        *([("dashcam", True, 9, True)] if dashcam_bytes else []),
        ("recover", directory, 4),
        ("drain", "one", directory, origin, limits),
        ("drain", "two", directory, origin, limits),
        ("own", True, directory, ["one", "two"]),
        *(["resumed"] if dashcam_bytes else []),
    ]
    assert world.told == ([("trace_segments_recovered", {"count": 2})] if recovered else [])
    assert made._left == ["/left"] and made._directory == directory and made.pause_ms == TURN_MS
    hooks = (made._own.on_death, made._own.on_dump, *(one.watch for one in made._drains))
    assert hooks == (("died", "asked", "see", "see") if dashcam_bytes else (None,) * 4)
    if dashcam_bytes:
        world.end_segments()
        assert world.done[-2:] == [("closed", "one"), ("closed", "two")]


def test_the_directory_is_made_for_this_user_alone(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, 0)
    Tracer(world.ctx)
    made = Tracer(world.ctx)  # it is there
    assert world.traces.stat().st_mode & 0o777 == 0o700
    assert world.told == [] and made._open(0) == 0, "it has begun"


def test_a_beginning_that_failed_is_said_and_tried_again_with_the_same_dashcam(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, 1)

    def fail(*_how):
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "OwnRecords", fail)
        made = Tracer(world.ctx)
    assert world.told == [("trace_write_failed", {"directory": str(world.memory), "reason": "full"})]
    assert made._drains == [] and made._own is None and "resumed" not in world.done
    first = made._dashcam
    assert made._open(made._open_due_ns) == 0 and made._own is not None
    assert made._dashcam is first and [one[0] for one in world.done].count("dashcam") == 1
    assert world.done[-1] == "resumed" and [one.lane.name for one in made._drains] == ["one", "two"]


def test_where_the_disk_was_full_at_the_start_nothing_is_made(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, 0)
    world.ctx.may_trace = lambda: False
    made = Tracer(world.ctx)
    assert [event for event, _ in world.told] == ["trace_write_failed"] and made._own is None
    assert not Path(world.ctx.config.trace_dir).exists()
