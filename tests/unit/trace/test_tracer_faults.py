"""The tracer killed before every system call that changes a file, and every one of them failing: nothing is lost.

A kill is an exception that nothing catches, and a new tracer on the same lanes and files; what a killed process had
written stays.
"""

import gc
import json
import os
import pathlib
from contextlib import suppress

import pytest

from mpbroker.shm import segment as shm_segment
from mpbroker.trace import dictionary, lane, manifest, mark_spool, record, segment, statistics, tracer
from tests.harness.small_core import small_plan
from tests.unit.trace.test_tracer import BOOT, Context, of_kind
from tests.unit.trace.traces import full_request

pytestmark = pytest.mark.slow

CALLS = [(os, name) for name in ("pwrite", "write", "open", "fsync", "ftruncate")]
CALLS += [(pathlib.Path, name) for name in ("unlink", "replace", "mkdir")]
MARKS = ("first", "second")
TAKES_PARTS = {"pwrite", "write"}


class Death(BaseException):
    """Stands for SIGKILL."""


class Trap:
    """Lists the calls under watch and does something at the n-th: die before it, fail, or write a part only."""

    def __init__(self, monkeypatch):
        self.calls, self.at, self.how, self.armed = [], -1, "", False
        for owner, name in CALLS:
            monkeypatch.setattr(owner, name, self._wrapped(getattr(owner, name), name))

    def _wrapped(self, real, name):
        def call(*arguments, **named):
            if not self.armed:
                return real(*arguments, **named)
            self.calls.append(name)
            if len(self.calls) - 1 != self.at:
                return real(*arguments, **named)
            if self.how == "before":
                raise Death
            if self.how == "fails":
                raise OSError(28, "No space left on device")
            return real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], *arguments[2:])

        return call


class World:
    """Lanes, shared memory, and a tracer that is begun again whenever it dies."""

    def __init__(self, directory, trap, names):
        self.traces = directory / "traces"
        self.memory = shm_segment.create(small_plan(processors=2), str(directory / "data"), BOOT)
        self.lanes = [lane.create(name, number, BOOT, capacity_records=64) for number, name in enumerate(names)]
        self.ctx = Context(self.traces, names, turns=0, memory=self.memory)
        self.ctx.config.mpbroker_trace_segment_bytes = 4096 + 6 * 128
        self.trap = trap
        self.deaths = 0
        self.tracer = self.begun()

    def begun(self):
        """A tracer; one that could not begin to write tries again in its next turn."""
        made = self.survive(lambda: tracer.Tracer(self.ctx))
        if made._own is None:
            made.turn()
        assert made._own is not None
        return made

    def survive(self, work):
        """Do something the trap watches; killed or failed: again, by a new tracer if it is not a tracer that is
        begun."""
        for _ in range(3):
            self.trap.armed = True
            try:
                return work()
            except (Death, OSError):
                self.deaths += 1
                if hasattr(self, "tracer"):
                    del self.tracer
                    self.tracer = self.begun()
            finally:
                self.trap.armed = False
        raise AssertionError("it dies again and again")

    def play(self):
        """Requests in both lanes, connections, markers, rotation, the end."""
        for step, text in enumerate(MARKS):
            for number in range(5):
                self.lanes[0].native.put(full_request(5 * step + number).pack())
            self.lanes[1].native.put(full_request(step).pack())
            mark_spool.put(self.traces, text, 100 + step)
            self.survive(lambda: self.tracer.turn())
            self.survive(lambda: self.tracer.turn())
        self.survive(lambda: self.tracer.finish())
        self.survive(lambda: tracer.Tracer(self.ctx).finish())
        tracer.Tracer(self.ctx).finish()  # whatever went wrong at the very end is for the next start

    def close(self):
        self.memory.close()
        for one in self.lanes:
            lane.unlink(one.name)


def play(directory, monkeypatch, at, how):
    """The world after its end; the trap says whether it was sprung."""
    with monkeypatch.context() as patch:
        patch.setattr(tracer, "OPEN_AGAIN_MS", 0)
        trap = Trap(patch)
        trap.at, trap.how = at, how
        world = World(directory, trap, tuple(f"/mpbroker-test-{os.getpid()}-faults-{number}" for number in range(2)))
        try:
            world.play()
        finally:
            world.close()
    gc.collect()  # what closes itself is closed
    for left in _open_below(world.traces):  # of tracers that were killed
        os.close(left)
    return world


def _open_below(directory):
    """Descriptors of files there. No other: what closes itself later would close a number that is somebody else's."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            if os.readlink(f"/proc/self/fd/{name}").startswith(f"{directory}/"):
                found.append(int(name))
    return found


def check(world):
    """Everything is there once; every file is whole."""
    traces = world.traces
    infos = manifest.segments(traces, complaints=(complaints := []))
    assert not complaints and all(info.closed is not None and segment.verify(info) for info in infos)
    found = {
        ring: [
            one.corr_id
            for info in infos
            if info.opened.ring == ring
            for chunk in segment.read_chunks(info)
            for one in (record.unpack(chunk, at) for at in range(0, len(chunk), 128))
            if one.kind == 0
        ]
        for ring in (0, 1)
    }
    assert found == {0: list(range(5 * len(MARKS))), 1: list(range(len(MARKS)))}
    result = statistics.collect(infos)
    assert (result.finished, result.records, result.dropped, result.gaps()) == (12, 12, 0, [])
    names = dictionary.read(dictionary.find(traces)).of(4, BOOT)
    assert [one.text for one in names.markers.values()] == list(MARKS)
    assert {record.unpack(one).aux for one in of_kind(traces, record.MARKER)} == {0, 1}
    assert not list((traces / "marks").iterdir())
    torn = [
        line for path in dictionary.find(traces) for line in path.read_bytes().split(b"\n")[:-1] if not _whole(line)
    ]
    assert len(torn) <= 1
    assert {row.file for row in manifest.read(traces)} == {info.path.name for info in infos}


def _whole(line):
    try:
        return line == b"" or bool(json.loads(line))
    except ValueError:
        return False


def test_without_faults(tmp_path, monkeypatch):
    world = play(tmp_path, monkeypatch, -1, "")
    check(world)
    assert len(world.trap.calls) > 40


@pytest.mark.parametrize("how", ["before", "fails", "partly"])
def test_at_every_call(tmp_path, monkeypatch, how):
    calls = play(tmp_path / "all", monkeypatch, -1, "").trap.calls
    for at, name in enumerate(calls):
        if how == "partly" and name not in TAKES_PARTS:
            continue
        world = play(tmp_path / str(at), monkeypatch, at, how)
        try:
            check(world)
        except BaseException:
            print(f"{how}: {name}, call {at} of {len(calls)}")
            raise
