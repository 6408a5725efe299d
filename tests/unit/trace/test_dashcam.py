"""The dash-cam in a tracer made by hand: what stays in memory, what goes to disk, and who goes on with it."""

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from mpbroker.shm import segment as shm_segment
from mpbroker.trace import dashcam, dump, lane, manifest, mark_spool, record, tracer
from tests.harness.small_core import small_plan
from tests.unit.trace.test_tracer import BOOT, Context, of_kind
from tests.unit.trace.traces import full_request, requests_in

MIB = 1 << 20


class World:
    """Lanes, memory and tracers of one broker."""

    def __init__(self, directory):
        self.dumps, self.data = directory / "traces", directory / "data"
        self.memory = shm_segment.create(small_plan(processors=1), str(self.data), BOOT)
        self.lane = lane.create(f"/mpbroker-test-{os.getpid()}-dashcam", 0, boot_id=BOOT)
        self.place = Path(shm_segment.dashcam_directory(str(self.data), BOOT))
        self.number = 0

    def tracer(self, gone=False, **settings):
        ctx = Context(self.dumps, (self.lane.name,), turns=0, memory=self.memory, gone=gone)
        ctx.config.data_dir = str(self.data)
        defaults = {"bytes": 8 * MIB, "ms": 60_000, "after_ms": 0, "latency_ms": -1, "error_percent": 0}
        for name, value in (defaults | settings).items():
            setattr(ctx.config, f"mpbroker_trace_dashcam_{name}", value)
        made = tracer.Tracer(ctx)
        made.lines = ctx.lines
        return made

    def finish(self, count, **fields):
        data = bytearray(full_request(0, **fields).pack())
        for _ in range(count):
            data[8:12] = data[28:32] = self.number.to_bytes(4, "little")  # seq_lo, corr_id
            self.lane.native.put(data)
            self.number += 1

    def complete(self):
        return {path: said for path in sorted(self.dumps.glob("dump-*")) if (said := dump.read(path)) is not None}

    def close(self):
        self.memory.close()
        lane.unlink(self.lane.name)
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def _until(made, what, turns=200):
    for _ in range(turns):
        made.turn()
        if what():
            return
        time.sleep(0.002)
    raise AssertionError(made.lines)


def test_nothing_is_on_disk_until_it_is_asked_for(world):
    made = world.tracer()
    world.finish(100)
    made.turn()
    assert requests_in(world.place) == list(range(100)) and not list(world.dumps.glob("*"))
    mark_spool.put(world.place, "now", dump_after_ms=0)
    _until(made, world.complete)
    ((path, said),) = world.complete().items()
    assert requests_in(path) == list(range(100)) and [cause.text for cause in said["causes"]] == ["now"]
    assert len(of_kind(path, record.MARKER)) == 1
    made.finish()
    assert not world.place.exists()


def test_a_plain_marker_asks_for_no_dump(world):
    made = world.tracer()
    path = mark_spool.put(world.place, "just a marker")
    _until(made, lambda: not path.exists())
    assert not list(world.dumps.glob("*"))
    made.finish()


def test_memory_is_bounded_and_holds_the_newest(world):
    made = world.tracer(bytes=8 * MIB)
    for _ in range(14):
        world.finish(10_000)  # 1.25 MiB
        made.turn()
        there = sum(path.stat().st_size for path in world.place.rglob("*") if path.is_file())
        assert there <= 8 * MIB + 2 * MIB  # what one turn may bring
    made.turn()
    kept = requests_in(world.place)
    assert kept == list(range(kept[0], 140_000)) and 20_000 < len(kept) < 64_000
    made.finish()


def test_memory_is_bounded_in_time(world):
    made = world.tracer(ms=1000)
    world.finish(5)
    made.turn()
    made._end_segments()
    (old,) = world.place.glob("*.mpt")
    os.utime(old, (time.time() - 2, time.time() - 2))
    world.finish(5)
    made.turn()
    assert requests_in(world.place) == [5, 6, 7, 8, 9]
    assert [row.file for row in manifest.read(world.place)] == []
    made.finish()


def test_it_goes_on_for_a_while_after_a_trigger(world):
    made = world.tracer(latency_ms=500, after_ms=300)
    world.finish(10)
    made.turn()
    begun = time.monotonic()
    world.finish(1, send_done=600 * 15_625)
    made.turn()
    world.finish(10)
    _until(made, world.complete, turns=2000)
    assert time.monotonic() - begun >= 0.3
    ((path, said),) = world.complete().items()
    assert path.name.endswith("-latency") and requests_in(path) == list(range(21))
    assert said["causes"][0].text.startswith("Produce of connection 0x0 took 600 ms")
    world.finish(1, send_done=600 * 15_625)
    made.turn()
    made.turn()
    assert len(list(world.dumps.glob("dump-*"))) == 1  # it rests
    made.finish()


def test_a_dump_takes_what_closes_while_it_goes_on_before_memory_gives_it_up(world):
    made = world.tracer()
    mark_spool.put(world.place, "now", dump_after_ms=60_000)
    made.turn()
    for _ in range(10):
        world.finish(10_000)  # more than memory holds, in all
        for _ in range(3):
            made.turn()
    assert len(requests_in(world.place)) < 64_000
    made._dashcam._dump.until_ns = 1
    _until(made, world.complete)
    ((path, said),) = world.complete().items()
    assert requests_in(path) == list(range(100_000)) and said["segments_lost"] == 0
    made.finish()


def test_a_successor_goes_on_with_memory_and_dump(world):
    made = world.tracer()
    world.finish(50)
    made.turn()
    mark_spool.put(world.place, "now", dump_after_ms=60_000)
    made.turn()
    made.turn()
    assert len(list(world.dumps.glob("dump-*"))) == 1 and not world.complete()
    del made  # killed: nothing is closed
    world.finish(50)
    successor = world.tracer()
    successor._dashcam._dump.until_ns = 1
    _until(successor, world.complete)
    (path,) = world.complete()
    assert requests_in(path) == list(range(100))
    successor.finish()
    assert len(world.complete()) == 1


def test_what_a_killed_broker_left_in_memory_is_written_by_the_next_start(world):
    made = world.tracer()
    world.finish(70)
    made.turn()
    left = world.place.with_name(world.place.name.replace(f"{BOOT:016x}", f"{BOOT + 1:016x}"))
    world.place.rename(left)
    assert f"/{left.name}" not in shm_segment.names_of(str(world.data))  # else it would be swept away
    successor = world.tracer(bytes=0)
    successor._open_due_ns = 0
    _until(successor, world.complete)
    ((path, said),) = world.complete().items()
    assert requests_in(path) == list(range(70)) and path.name.endswith("-left") and not left.exists()
    assert said["causes"][0].kind == "left"
    successor.finish()


def test_one_that_may_not_be_read_does_not_hold_up_the_next(world):
    made = world.tracer()
    world.finish(70)
    made.turn()
    left = [world.place.with_name(world.place.name.replace(f"{BOOT:016x}", f"{BOOT + n:016x}")) for n in (1, 2)]
    left[0].mkdir()
    world.place.rename(left[1])
    successor = world.tracer(bytes=0)
    left[0].rmdir()  # tests may run as root, who may read everything: it is gone instead
    successor._open_due_ns = 0
    _until(successor, world.complete)
    assert requests_in(next(iter(world.complete()))) == list(range(70))
    failed = [fields["directory"] for event, fields in successor.lines if event == "trace_dump_failed"]
    assert failed == [str(left[0])] and not successor._ctx.process_row.troubles
    successor.finish()


def test_a_supervisor_that_died_has_its_dump(world):
    made = world.tracer(gone=True)
    world.finish(30)
    made.turn()
    made.finish()
    ((path, said),) = world.complete().items()
    assert requests_in(path) == list(range(30)) and said["causes"][0].text == "the supervisor died"
    assert not world.place.exists()


def test_a_disk_that_takes_nothing_is_given_up_and_memory_stays_bounded(world, monkeypatch):
    made = world.tracer()
    world.finish(10)
    made.turn()

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(dump, "new_directory", full)
    monkeypatch.setattr(dashcam, "AGAIN_MS", 0)
    monkeypatch.setattr(dashcam, "GIVE_UP_MS", 50)
    mark_spool.put(world.place, "now", dump_after_ms=0)
    _until(made, lambda: any(event == "trace_dump_failed" for event, _ in made.lines))
    for _ in range(9):
        world.finish(10_000)
        made.turn()
    assert len(requests_in(world.place)) < 64_000
    monkeypatch.undo()
    made.turn()
    assert not world.complete()
    made.finish()


def test_the_oldest_dumps_go_as_a_whole(tmp_path):
    for number in range(4):
        path = tmp_path / f"dump-2026112{number}T000000Z-b4-asked"
        path.mkdir()
        (path / "a.mpt").write_bytes(bytes(1000))
        os.utime(path, (1000.0 + number, 1000.0 + number))
    other = tmp_path / "dump-20261120T000000Z-b5-asked"
    other.mkdir()
    busy = {tmp_path / "dump-20261120T000000Z-b4-asked"}
    assert dashcam.delete_dumps(tmp_path, 4, busy, 1004.0, 2500, -1) == 2
    assert [path.name[:13] for path in sorted(tmp_path.glob("*-b4-*"))] == ["dump-20261120", "dump-20261123"]
    assert dashcam.delete_dumps(tmp_path, 4, busy, 1010.0, -1, 5000) == 1
    assert other.exists() and next(iter(busy)).exists()


def test_what_cannot_be_removed_holds_up_no_other(tmp_path, monkeypatch):
    """A name that is no directory is no dump; of one that is, its files count, not what else lies in it."""
    (tmp_path / "dump-20261119T000000Z-b4-asked").write_bytes(bytes(9000))
    for number in range(2):
        path = tmp_path / f"dump-2026112{number}T000000Z-b4-asked"
        (path / "within").mkdir(parents=True)
        (path / "a.mpt").write_bytes(bytes(1000))
        os.utime(path, (1000.0 + number, 1000.0 + number))
    assert dashcam.delete_dumps(tmp_path, 4, set(), 1001.0, 2000, -1) == 0
    removed, real = [], os.rmdir
    monkeypatch.setattr(os, "rmdir", lambda path, **more: removed.append(path) or real("/no/such/directory"))
    assert dashcam.delete_dumps(tmp_path, 4, set(), 1001.0, 0, -1) == 2
    monkeypatch.setattr(os, "rmdir", real)
    assert removed and len(list(tmp_path.glob("*-b4-*"))) == 3 and not list(tmp_path.rglob("a.mpt"))
