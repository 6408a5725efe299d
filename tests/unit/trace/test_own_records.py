"""What gauges and process events are made of: this machine's own processes, and a table written by hand."""

import os
import subprocess
import sys
import time

import pytest

from mpbroker.shm import segment, topic_table
from mpbroker.shm.page_view import PageView
from mpbroker.trace.gauge import ProcessGauge, RingGauge
from mpbroker.trace.gauge_sampler import GaugeSampler
from mpbroker.trace.process_event import DIED, STARTED
from mpbroker.trace.process_watch import ProcessWatch
from mpbroker.trace.topic_names import TopicNames
from tests.harness.descriptors import open_descriptors
from tests.harness.small_core import small_plan


@pytest.fixture
def memory(tmp_path):
    memory = segment.create(small_plan(), str(tmp_path), 9)
    yield memory
    memory.close()


@pytest.fixture
def page(memory):
    view = PageView(memory.name)
    yield view
    view.close()


def begin(memory, slot, pid):
    row = memory.row(slot)
    row.begin(pid, 3, slot - 48, 255)
    row.state = 3
    return row


def test_a_sample_has_rings_and_processes(memory, page):
    begin(memory, 48, os.getpid())
    begin(memory, 16, 2**22 - 2)  # a processor: its ring of answers is looked at
    begin(memory, 49, 2**22 - 1)  # nobody has that pid
    sampler = GaugeSampler()
    before = time.process_time_ns()
    sample = sampler.sample(7, page.processes(), page.rings())
    after = time.process_time_ns()
    (process,) = [one for one in sample if isinstance(one, ProcessGauge)]
    assert before <= process.cpu_ns <= after
    assert process.runqueue_wait_ns is None or process.runqueue_wait_ns >= 0
    assert (process.slot, process.pid, process.role, process.index, process.incarnation) == (48, os.getpid(), 3, 0, 1)
    rings = {one.name: one for one in sample if isinstance(one, RingGauge)}
    assert rings["data"].capacity == 500 and rings["data"].depth == 0 and "response-0" in rings
    assert all(one.t0_ns == 7 for one in sample)
    sampler.close()


def test_a_process_that_ended_is_left_out_and_its_descriptor_closed(memory, page):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begin(memory, 48, child.pid)
    sampler = GaugeSampler()
    open_before = open_descriptors()
    assert len(sampler.sample(1, page.processes(), ())) == 1
    child.communicate(b"\n")
    assert sampler.sample(2, page.processes(), ()) == []
    assert open_descriptors() <= open_before
    sampler.close()


def test_starts_and_deaths_are_told_once(memory, page):
    row = begin(memory, 48, 11)
    watch = ProcessWatch()

    def events():
        return [
            (one.event, one.pid, one.incarnation, one.exit_text, one.restarts)
            for one in watch.events(page.processes(), 5)
        ]

    assert events() == [(STARTED, 11, 1, None, 0)] and events() == []
    row.last_exit, row.restarts, row.state = 9, 1, 5
    assert events() == [(DIED, 11, 1, "signal 9", 1)] and events() == []
    begin(memory, 48, 12)
    assert events() == [(STARTED, 12, 2, None, 1)]
    row.last_exit, row.restarts = 1 << 8, 2
    begin(memory, 48, 13)
    assert events() == [(DIED, 12, 2, "exit 1", 2), (STARTED, 13, 3, None, 2)]
    assert ProcessWatch().events(page.processes(), 5)[0].pid == 0  # a successor of the tracer never knew who it was


class Journal:
    """Stands for shared memory: topics by row and a journal that may have been overrun."""

    def __init__(self, monkeypatch):
        self.rows, self.generation, self.overrun, self.reads = {}, 0, False, 0
        for name in ("metadata_generation", "journal_since", "topics_changed", "topic_read"):
            monkeypatch.setattr(f"mpbroker.trace.topic_names.{name}", getattr(self, name))

    def metadata_generation(self, _):
        return self.generation

    def journal_since(self, _, generation):
        return self.generation, None if self.overrun else list(self.rows)[generation:]

    def topics_changed(self, _, selectors):
        return list(self.rows)

    def topic_read(self, _, row):
        self.reads += 1
        return topic_table.TopicRow(1, 1, b"i" * 16, self.rows[row], 1, 0, b"{}", 1) if row in self.rows else None

    def add(self, name):
        self.rows[len(self.rows)] = name
        self.generation += 1


@pytest.mark.parametrize("overrun", [False, True])
def test_new_topics_are_told(monkeypatch, overrun):
    journal, told = Journal(monkeypatch), []
    names = TopicNames(None)
    names.take(told.append)
    journal.add("a")
    names.take(told.append)
    journal.overrun = overrun
    journal.add("b")
    names.take(told.append)
    names.take(told.append)
    assert told == (["a", "a", "b"] if overrun else ["a", "b"]) and journal.reads == len(told)
