"""The tracer's loop with a context made by hand (in a broker: tests/integration)."""

import os
import weakref
from types import SimpleNamespace

import pytest

from mpbroker.shm import segment as shm_segment
from mpbroker.trace import dictionary, gauge, lane, manifest, mark_spool, notice, process_event, record, segment, tracer
from mpbroker.trace.lane_drain import Limits
from tests.harness.small_core import small_plan
from tests.unit.trace.traces import full_request, requests_in


class Context:
    """What main(ctx) needs of a ProcessContext; stops after `turns` turns."""

    def __init__(self, directory, names, turns, memory=None, gone=False):
        self.config = SimpleNamespace(
            trace_dir=str(directory),
            data_dir=str(directory.parent / "data"),
            node_id=4,
            mpbroker_trace_segment_bytes=1 << 20,
            mpbroker_trace_segment_ms=60_000,
            mpbroker_trace_retention_bytes=-1,
            mpbroker_trace_retention_ms=-1,
            mpbroker_trace_gauge_interval_ms=1000,
            mpbroker_trace_dashcam_bytes=0,
        )
        self.process_row = SimpleNamespace(state=0, wait=0, beats=0, troubles=0)
        self.process_row.set_trouble = lambda bit, there: setattr(self.process_row, "troubles", bit if there else 0)
        self.process_row.beat = lambda: setattr(self.process_row, "beats", self.process_row.beats + 1)
        if memory is not None:
            self.core = memory.core
            self.process_row = memory.row(114)
            self.process_row.begin(os.getpid(), 6, 0, 255)
            self.process_row.state = 3
        self.may_trace = lambda: True
        self.boot_id = BOOT
        self.lanes = names
        self.names = (*((memory.name,) if memory else ()), *names, "/mpbroker-test-no-such-name")
        self.listeners = ()
        self.api_versions = {0: (0, 7), 1: (4, 11)}
        self.lines = []
        self.log = SimpleNamespace(info=self._log, error=self._log, warning=self._log)
        self.trace_notices_fd, self.tell_fd = os.pipe2(os.O_NONBLOCK)
        self.wakeup_fd, self._write = os.pipe()
        self.trace_bell_fd = os.eventfd(0, os.EFD_NONBLOCK)
        opened = (self.trace_notices_fd, self.tell_fd, self.wakeup_fd, self._write, self.trace_bell_fd)
        weakref.finalize(self, lambda: [os.close(each) for each in opened])  # a process's go with it
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


BOOT = 77


def test_lost_events_are_said_once_for_each_new_loss(tmp_path):
    ctx = Context(tmp_path, (), turns=0)
    made, losses = tracer.Tracer(ctx), {}
    made._own = SimpleNamespace(losses=lambda: dict(losses))
    for lost in ({}, {"markers": 1}, {"markers": 1}, {"markers": 2}, {"markers": 2}):
        losses.update(lost)
        made._say(None)
    assert [fields for event, fields in ctx.lines if event == "trace_events_lost"] == [{"markers": 1}, {"markers": 2}]


def of_kind(directory, kind):
    """Every record of a kind, as bytes, in file order."""
    return [
        chunk[at : at + 128]
        for info in manifest.segments(directory)
        for chunk in segment.read_chunks(info)
        for at in range(0, len(chunk), 128)
        if chunk[at + 44] == kind
    ]


@pytest.fixture
def memory(tmp_path):
    memory = shm_segment.create(small_plan(processors=2), str(tmp_path / "data"), BOOT)
    yield memory
    memory.close()


@pytest.fixture
def lanes():
    names = tuple(f"/mpbroker-test-{os.getpid()}-tracer-{number}" for number in range(2))
    yield [lane.create(name, number, boot_id=BOOT, capacity_records=64) for number, name in enumerate(names)]
    for name in names:
        lane.unlink(name)


def test_it_drains_every_lane_and_closes_its_segments(tmp_path, memory, lanes):
    for one in lanes:
        for number in range(3):
            one.native.put(full_request(number).pack())
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=1, memory=memory)
    tracer.main(ctx)
    assert requests_in(tmp_path / "traces") == [0, 1, 2, 0, 1, 2]
    infos = manifest.segments(tmp_path / "traces")
    assert [info.closed is not None for info in infos] == [True, True]
    names = infos[0].opened.extra["apis"]
    assert (names["0"], names["1"], names["37"]) == ("Produce", "Fetch", "CreatePartitions")
    events = [process_event.unpack(one) for one in of_kind(tmp_path / "traces", record.PROCESS_EVENT)]
    assert [(one.event, one.pid, one.incarnation, one.slot, one.name) for one in events] == [
        (process_event.STARTED, os.getpid(), 1, 114, "tracer 0")
    ]
    assert ctx.announced and ctx.process_row.heartbeat_ns and ctx.process_row.state == 4
    assert os.path.exists("/dev/shm" + lanes[0].name)  # the supervisor lives: names are its own to remove


def test_without_a_supervisor_it_removes_the_names(tmp_path, memory, lanes):
    lanes[0].native.put(full_request(1).pack())
    tracer.main(Context(tmp_path, tuple(one.name for one in lanes), turns=5, memory=memory, gone=True))
    assert requests_in(tmp_path) == [1]
    assert not any(os.path.exists("/dev/shm" + one.name) for one in lanes)


def test_tracing_off_means_no_directory(tmp_path):
    tracer.main(Context(tmp_path / "traces", (), turns=1))
    assert not (tmp_path / "traces").exists()


def test_a_directory_that_cannot_be_written_is_said_once(tmp_path, memory, lanes):
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=2, memory=memory)
    one = tracer.Tracer(ctx)
    lanes[0].native.put(full_request(1).pack())
    (tmp_path / "traces").rename(tmp_path / "away")
    assert one.turn() == one.turn() == 0
    (tmp_path / "away").rename(tmp_path / "traces")
    assert one.turn() == 1
    one.finish()
    assert [event for event, _ in ctx.lines] == ["trace_write_failed", "trace_writing_again"]


def test_a_lane_that_is_half_full_is_emptied_before_the_next_turn(tmp_path, memory):
    """Rung by the processor; the counters in the segment's header are those of the turn."""
    name = f"/mpbroker-test-{os.getpid()}-tracer-bell"
    one = lane.create(name, 0, boot_id=BOOT, capacity_records=64)
    ctx = Context(tmp_path / "traces", (name,), turns=0, memory=memory)
    ctx.config.mpbroker_trace_gauge_interval_ms = 1_000_000
    one.native.bell_fd = ctx.trace_bell_fd
    try:
        made = tracer.Tracer(ctx)
        made._own._gauges_due_ns = 1 << 62
        for number in range(31):
            one.native.put(full_request(number).pack())
        assert made.turn() == 31 and made.pause_ms == 200
        for number in range(31, 63):
            one.native.put(full_request(number).pack())
        made.pause()
        assert one.counters().drained == 63 and one.counters().dropped == 0
        [info] = manifest.segments(tmp_path / "traces")
        assert info.progress.written == 31 and made.turn() == 0
        [info] = manifest.segments(tmp_path / "traces")
        assert info.progress.written == 63
        made.finish()
    finally:
        lane.unlink(name)


def test_the_next_gauges_shorten_one_pause_alone(tmp_path, memory, lanes):
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=0, memory=memory)
    made = tracer.Tracer(ctx)
    pauses = []
    for due_ms in (1000, 150, 3, 1000):
        made.turn()
        made._own.due_ms = lambda now_ns, due_ms=due_ms: due_ms
        made.turn()
        pauses.append(made.pause_ms)
    made.finish()
    assert pauses == [200, 150, 10, 200]


def test_the_time_namespace_is_read():
    assert isinstance(tracer.time_namespace_ns(), int)


def test_connections_names_markers_and_gauges(tmp_path, memory, lanes):
    traces = tmp_path / "traces"
    ctx = Context(traces, tuple(one.name for one in lanes), turns=1, memory=memory)
    for index in range(2):  # processors, whose rings of answers are looked at
        memory.row(16 + index).begin(2**22 - 2 - index, 2, index, 0)
        memory.row(16 + index).state = 3
    one = tracer.Tracer(ctx)
    one.turn()
    assert not list(traces.glob("*.mpt"))  # nothing happened: no file
    tell = notice.NoticeWriter(ctx.tell_fd, 1)
    tell.tell(notice.ConnectionOpened(50, 1 << 27 | 9, 1, 2, "10.0.0.1:999"))
    tell.tell(notice.ClientNamed(1 << 27 | 9, 4242, "billing"))
    tell.tell(notice.ConnectionClosed(90, 1 << 27 | 9, 1, 2, 17, notice.CloseReason.IDLE))
    left = mark_spool.put(traces, "load step 3", t0_ns=70)
    one.turn()
    assert not left.exists()
    lanes[1].native.put(full_request(1).pack())
    one.finish()
    (opened,), (closed,) = (list(map(record.unpack, of_kind(traces, kind))) for kind in (1, 2))
    assert (opened.t0_ns, opened.conn_id, opened.listener, opened.proc_id) == (50, 1 << 27 | 9, 2, 1)
    assert (closed.t0_ns, closed.conn_id, closed.aux, closed.error) == (90, 1 << 27 | 9, 17, notice.CloseReason.IDLE)
    (marked,) = map(record.unpack, of_kind(traces, record.MARKER))
    names = dictionary.read(dictionary.find(traces)).of(4, BOOT)
    assert names.markers[marked.aux] == dictionary.Marker(0, "load step 3", 70) and marked.t0_ns == 70
    assert names.clients == {4242: "billing"} and names.connections[1 << 27 | 9].peer == "10.0.0.1:999"
    gauges = [gauge.unpack(data) for data in of_kind(traces, record.GAUGE)]
    assert len({one.t0_ns for one in gauges}) == 2  # before and after the only request
    assert {one.name for one in gauges} >= {"data", "control", "response-0", "response-1", "tracer 0"}
    assert requests_in(traces) == [1]
    assert (traces / dictionary.file_name(4, BOOT)).stat().st_mode & 0o777 == 0o600


def test_a_lane_that_is_made_later_is_drained_after_a_reload(tmp_path, memory, lanes):
    lane.unlink(lanes[1].name)
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=1, memory=memory)
    one = tracer.Tracer(ctx)
    later = lane.create(lanes[1].name, 1, boot_id=BOOT, capacity_records=64)
    later.native.put(full_request(5).pack())
    one.turn()
    ctx.take_reload = lambda: ctx.config
    one.turn()
    one.finish()
    assert requests_in(tmp_path / "traces") == [5]


def test_new_settings_are_taken_over(tmp_path, memory, lanes):
    ctx = Context(tmp_path / "traces", tuple(one.name for one in lanes), turns=1, memory=memory)
    one = tracer.Tracer(ctx)
    new = SimpleNamespace(
        **vars(ctx.config)
        | {
            "mpbroker_trace_segment_bytes": 8192,
            "mpbroker_trace_segment_ms": 100,
            "mpbroker_trace_gauge_interval_ms": 250,
        }
    )
    ctx.take_reload = lambda: new
    one.turn()
    assert one._own.gauge_ms == 250 and {drain.limits for drain in one._drains} == {Limits(8192, 100)}
    one.finish()
