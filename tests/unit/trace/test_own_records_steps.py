"""Single steps of the tracer's own records: what is looked at, when, in which order, and what is written of it."""

from types import SimpleNamespace

import pytest

from mpbroker.record.checksum import crc32c
from mpbroker.trace import own_records as module
from mpbroker.trace import record
from mpbroker.trace.gauge import RingGauge
from mpbroker.trace.own_records import PROCESSES_MS, OwnRecords
from mpbroker.trace.process_event import DIED, STARTED

NS_PER_MS = 1_000_000


class Event:
    def __init__(self, name, event, role=3):
        self.name, self.event, self.role = name, event, role
        self.exit_text = "by signal 9" if event == DIED else None

    def pack(self, processor):
        return f"{self.name} of {processor}"


class Drain:
    def __init__(self, world, processor):
        self.world, self.finished, self.events_lost = world, 0, 0
        self.lane = SimpleNamespace(processor=processor, counters=lambda: SimpleNamespace(finished=self.finished))

    def add_event(self, data, urgent=False):
        self.world.done.append((self.lane.processor, data, urgent))

    def write_events(self, now_ns):
        self.world.done.append(("write", self.lane.processor, now_ns))


class World:
    """Own records of parts; `done` says in order what was called."""

    def __init__(self):
        self.done, self.events, self.marks, self.deaths, self.sample = [], [], [], [], []
        note = self.done.append
        made = self.made = OwnRecords.__new__(OwnRecords)
        made._drains = [Drain(self, 7), Drain(self, 8)]
        made._by_processor = {drain.lane.processor: drain for drain in made._drains}
        made._notices = SimpleNamespace(take=lambda: note("notices"), junk=0)
        made._topics = SimpleNamespace(take=lambda tell: tell("topic"))
        made._names = SimpleNamespace(
            topic=lambda *words: note(words), flush=lambda: note("flush"), lost=0, close=lambda: note("names closed"),
            marker=lambda text, _: len(text),
        )  # fmt: skip
        made._spool = SimpleNamespace(take=lambda: list(self.marks), done=lambda mark: note(("done", mark.text)))
        made._watch = SimpleNamespace(has_looked=False, events=lambda *_: self.events)
        made._page = SimpleNamespace(processes=lambda: "processes", rings=lambda: "rings")
        made._gauges = SimpleNamespace(sample=lambda *_: self.sample, close=lambda: note("gauges closed"))
        made._marks, made._before_idle, made._finished, made.gauge_ms = [], [], 0, 500
        made._processes_due_ns = made._gauges_due_ns = 0
        made.on_death, made.on_dump = self.deaths.append, lambda mark: note(("dump", mark.text))


@pytest.fixture
def world():
    return World()


TOPIC = (crc32c(b"topic"), "topic")


def test_notices_topics_and_marks_are_taken_each_time_processes_and_gauges_when_they_are_due(world):
    made, looks = world.made, []
    made._watch.events = lambda processes, now_ns: looks.append((processes, now_ns)) or []
    made.sample_gauges = lambda now_ns: looks.append(("gauges", now_ns))
    made._take_marks = lambda: world.done.append("marks")
    first, due = 5, 5 + PROCESSES_MS * NS_PER_MS
    made.take(first)
    assert world.done == ["notices", TOPIC, "marks"] and looks == [("processes", first), ("gauges", first)]
    made.take(due - 1)
    assert len(looks) == 2 and world.done[3:] == ["notices", TOPIC, "marks"]
    made.take(due)
    assert looks[2:] == [("processes", due)]
    gauges_due = 5 + 500 * NS_PER_MS
    assert made.due_ms(5) == 500 and made.due_ms(gauges_due - 1) == 0 and made.due_ms(gauges_due + NS_PER_MS) == 0
    made.take(gauges_due - 1)
    assert looks[3:] == [("processes", gauges_due - 1)]
    made.take(gauges_due)
    assert looks[4:] == [("gauges", gauges_due)]


@pytest.mark.parametrize("looked_before", [False, True])
def test_deaths_are_urgent_and_told_unless_they_were_there_at_the_first_look(world, looked_before):
    made = world.made
    made._watch.has_looked, made._gauges_due_ns = looked_before, 10**18
    tracer = module._TRACER
    world.events = [Event("handler 0", DIED), Event("handler 0", STARTED), Event("tracer 0", DIED, tracer)]
    world.events.append(Event("tracer 0", STARTED, tracer))
    made.take(5)
    assert world.done[2:] == [
        (7, "handler 0 of 7", True), (7, "handler 0 of 7", False), (7, "tracer 0 of 7", True),
        (7, "tracer 0 of 7", False),
    ]  # fmt: skip
    names = ["handler 0", "tracer 0"] if looked_before else ["tracer 0"]
    assert world.deaths == [f"{name} died: by signal 9" for name in names]


def test_names_are_written_first_and_then_the_marks_may_go(world):
    made = world.made
    made._marks = [SimpleNamespace(text="a"), SimpleNamespace(text="b")]
    made.write(9)
    assert world.done == ["flush", ("write", 7, 9), ("write", 8, 9), ("done", "a"), ("done", "b")]
    assert made._marks == []


def test_marks_are_recorded_once_and_some_ask_for_a_dump(world):
    made = world.made
    world.marks = [
        SimpleNamespace(text="one", t0_ns=11, dump_after_ms=None),
        SimpleNamespace(text="four", t0_ns=12, dump_after_ms=0),
    ]
    made._take_marks()
    packed = [
        record.TraceRecord(t0_ns=t0_ns, kind=record.MARKER, aux=aux, proc_id=7).pack()
        for t0_ns, aux in [(11, 3), (12, 4)]
    ]
    assert world.done == [(7, packed[0], False), (7, packed[1], False), ("dump", "four")]
    made._take_marks()
    assert len(world.done) == 3, "those must be written first"


def ring(depth):
    return RingGauge(1, 8, depth, 500, 9)


@pytest.mark.parametrize(("depth", "finished"), [(1, 0), (0, 1)])
def test_gauges_are_kept_while_there_is_work_and_the_one_before_it(world, depth, finished):
    made, idle = world.made, [ring(0)]
    world.sample = idle
    made.sample_gauges(1)
    made.sample_gauges(2)
    assert world.done == [] and made._before_idle is idle
    world.sample, made._drains[1].finished = [ring(depth)._replace(peak=77)], finished
    made.sample_gauges(3)
    assert world.done == [(7, one.pack(7), False) for one in (*idle, *world.sample)]
    assert made._before_idle == [] and made._finished == finished
    made.sample_gauges(4)
    assert len(world.done) == 2 + depth, "with what waits once more, and without nothing"


def test_what_was_given_up_has_a_name(world):
    made = world.made
    assert made.losses() == {}
    made._drains[0].events_lost, made._drains[1].events_lost = 2, 3
    assert made.losses() == {"events": 5}
    made._names.lost, made._notices.junk = 4, 1
    assert made.losses() == {"events": 5, "names": 4, "unreadable_notices": 1}


def test_records_go_to_the_segments_of_their_processor(world):
    made = world.made
    for processor in (8, 99):
        made._add(processor, b"x")
    made.add_drain(Drain(world, 99))
    made._add(99, b"x")
    assert world.done == [(8, b"x", False), (7, b"x", False), (99, b"x", False)]
    made.close()
    assert world.done[3:] == ["names closed", "gauges closed"]


def test_it_begins_with_nothing_seen_and_everything_due(monkeypatch):
    """A dead tracer's successor looks at once: at processes that died with it, at names and marks that wait."""
    parts = ("PageView", "DictionaryWriter", "NoticeIntake", "TopicNames", "MarkSpool", "ProcessWatch", "GaugeSampler")
    for name in parts:
        monkeypatch.setattr(module, name, lambda *how, name=name: (name, *how))
    warned = []
    ctx = SimpleNamespace(
        config=SimpleNamespace(mpbroker_trace_gauge_interval_ms=250, node_id=4), boot_id=9, names=("/page", "/lane"),
        trace_notices_fd=33, core="core",
        log=SimpleNamespace(warning=lambda event, **fields: warned.append((event, fields))),
    )  # fmt: skip
    drains = [Drain(World(), 7), Drain(World(), 8)]
    made = OwnRecords(ctx, "directory", drains)
    names = ("DictionaryWriter", "directory", 4, 9)
    assert (made._page, made._names) == (("PageView", "/page"), names)
    assert made._notices == ("NoticeIntake", 33, names, made._add) and made._topics == ("TopicNames", "core")
    assert (made._watch, made._gauges) == (("ProcessWatch",), ("GaugeSampler",))
    kind, directory, complain = made._spool
    complain("why")
    assert (kind, directory) == ("MarkSpool", "directory") and warned == [("marker_refused", {"reason": "why"})]
    assert made._drains is drains and made._by_processor == {7: drains[0], 8: drains[1]}
    assert (made.gauge_ms, made._marks, made._before_idle, made._finished) == (250, [], [], 0)
    assert made.due_ms(0) == 0 and made.on_death("x") is None and made.on_dump("x") is None
