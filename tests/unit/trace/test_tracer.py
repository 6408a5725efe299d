"""The tracer's loop with a context made by hand (in a broker: tests/integration)."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.trace import lane, manifest, record, segment, tracer
from tests.unit.trace.traces import full_request, requests_in


class Context:
    """What main(ctx) needs of a ProcessContext; stops after `turns` turns."""

    def __init__(self, directory, names, turns, gone=False):
        self.config = SimpleNamespace(trace_dir=str(directory), node_id=4, mpbroker_trace_segment_bytes=1 << 20,
                                      mpbroker_trace_segment_ms=60_000, mpbroker_trace_retention_bytes=-1,
                                      mpbroker_trace_retention_ms=-1)
        self.process_row = SimpleNamespace(slot=114, pid=os.getpid(), incarnation=1, state=0, wait=0, beats=0)
        self.process_row.beat = lambda: setattr(self.process_row, "beats", self.process_row.beats + 1)
        empty = SimpleNamespace(slot=0, pid=0, incarnation=0)
        self.core = SimpleNamespace(row=lambda slot: self.process_row if slot == 114 else empty)
        self.lanes = names
        self.names = (*names, "/mpbroker-test-no-such-name")
        self.listeners = ()
        self.api_versions = {0: (0, 7), 1: (4, 11)}
        self.lines = []
        self.log = SimpleNamespace(info=self._log, error=self._log)
        self.wakeup_fd, self._write = os.pipe()
        self.turns, self.gone = turns, gone

    def _log(self, event, **fields):
        self.lines.append((event, fields))

    def stop_requested(self):
        self.turns -= 1
        return self.turns < 0

    def supervisor_gone(self):
        return self.gone

    def drain_wakeups(self):
        pass

    def running(self):
        self.announced = True

    def take_reload(self):
        return None


@pytest.fixture
def lanes():
    names = tuple(f"/mpbroker-test-{os.getpid()}-tracer-{number}" for number in range(2))
    yield [lane.create(name, number, boot_id=77, capacity_records=64) for number, name in enumerate(names)]
    for name in names:
        lane.unlink(name)


def test_it_drains_every_lane_and_closes_its_segments(tmp_path, lanes):
    for one in lanes:
        for number in range(3):
            one.native.put(full_request(number).pack())
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=1)
    tracer.main(ctx)
    assert requests_in(tmp_path / "traces") == [0, 1, 2, 0, 1, 2]
    infos = manifest.segments(tmp_path / "traces")
    assert [info.closed is not None for info in infos] == [True, True]
    names = infos[0].opened.extra["apis"]
    assert (names["0"], names["1"], names["37"]) == ("Produce", "Fetch", "CreatePartitions")
    kinds = [record.unpack(chunk, at) for chunk in segment.read_chunks(infos[0]) for at in range(0, len(chunk), 128)]
    (event,) = [one for one in kinds if one.kind == record.PROCESS_EVENT]
    assert (event.aux, event.conn_id, event.handler_id) == (os.getpid(), 1, 114)
    assert ctx.announced and ctx.process_row.beats == 2 and ctx.process_row.state == 4
    assert os.path.exists("/dev/shm" + lanes[0].name)  # the supervisor lives: names are its own to remove


def test_without_a_supervisor_it_removes_the_names(tmp_path, lanes):
    lanes[0].native.put(full_request(1).pack())
    tracer.main(Context(tmp_path, tuple(one.name for one in lanes), turns=5, gone=True))
    assert requests_in(tmp_path) == [1]
    assert not any(os.path.exists("/dev/shm" + one.name) for one in lanes)


def test_tracing_off_means_no_directory(tmp_path):
    tracer.main(Context(tmp_path / "traces", (), turns=1))
    assert not (tmp_path / "traces").exists()


def test_a_directory_that_cannot_be_written_is_said_once(tmp_path, lanes):
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=2)
    one = tracer.Tracer(ctx)
    lanes[0].native.put(full_request(1).pack())
    (tmp_path / "traces").rmdir()
    assert one.turn() == one.turn() == 0
    (tmp_path / "traces").mkdir()
    assert one.turn() == 1
    one.finish()
    assert [event for event, _ in ctx.lines] == ["trace_write_failed", "trace_writing_again"]


def test_the_time_namespace_is_read():
    assert isinstance(tracer.time_namespace_ns(), int)
