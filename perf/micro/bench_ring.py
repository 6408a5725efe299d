"""A request's way there and back: one process, then two, beside os.pipe and multiprocessing.Queue in the same run.

    pytest perf/micro/bench_ring.py

To hold: between two processes (64 in flight, 100 bytes each way) less CPU than os.pipe, which carries bytes and nothing
else, and a tenth of multiprocessing.Queue's; `cpu_us` in the saved JSON has both sides' µs per message there and back,
which other load on the machine disturbs less than the time. In one process a whole hop (submit, claim, answer, collect,
sent; an untraced request) takes about 1 µs on a two-core virtual machine. Nothing here asserts a time.
"""

import mmap
import multiprocessing
import os
import select
import subprocess
import sys
from contextlib import contextmanager

import pytest

from mpbroker import _native
from mpbroker.channel.handler_port import HandlerPort
from mpbroker.channel.planes import DATA
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.shm import layout
from tests.harness.small_core import small_plan, write_headers

PLAN = small_plan(handlers=1, entries_per_processor=128)
MESSAGES, IN_FLIGHT, MESSAGE = 20_000, 64, b"\0\0\0\7" + bytes(96)


class Memory:
    """A core in memfds, for a child that is started by exec; `attach` on the other side."""

    def __init__(self, descriptors=None, eventfd=-1):
        sizes = [layout.core_regions(PLAN)[1], layout.page_regions()[1], PLAN.arena_bytes]
        fresh = descriptors is None
        self.descriptors = descriptors or [os.memfd_create("bench") for _ in sizes]
        if fresh:
            for descriptor, size in zip(self.descriptors, sizes, strict=True):
                os.ftruncate(descriptor, size)
        maps = [mmap.mmap(descriptor, size) for descriptor, size in zip(self.descriptors, sizes, strict=True)]
        if fresh:
            write_headers(*maps, PLAN)
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK) if fresh else eventfd
        self.core = _native.Core(*maps, (self.eventfd,))

    def close(self):
        for descriptor in (*self.descriptors, self.eventfd):
            os.close(descriptor)


def cpu_seconds(pid):
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(benchmark, pid, run):
    """`run` five times; CPU of both sides beside the time."""
    begin, rounds = cpu_seconds(pid) + cpu_seconds(os.getpid()), 5
    benchmark.pedantic(run, rounds=rounds)
    spent = cpu_seconds(pid) + cpu_seconds(os.getpid()) - begin
    benchmark.extra_info["cpu_us"] = round(spent / rounds / MESSAGES * 1e6, 2)
    print(f"{benchmark.name}: {benchmark.extra_info['cpu_us']} µs of CPU per message there and back")


@contextmanager
def child(role, descriptors):
    """This file as another process, in a role of `main` below."""
    command = [sys.executable, "-m", "perf.micro.bench_ring", role, *map(str, descriptors)]
    process = subprocess.Popen(command, pass_fds=descriptors)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def serve_ring(descriptors):
    handler = HandlerPort(Memory(descriptors[:3], descriptors[3]).core, 0)
    while True:
        request = handler.serve_or_claim(300)
        if request is not None:
            handler.answer(request, bytes(request.payload))


def serve_pipe(descriptors):
    while message := os.read(descriptors[0], len(MESSAGE)):
        os.write(descriptors[1], message)


def serve_queue(requests, answers):
    while True:
        answers.put(requests.get())


def run_ring(processor, eventfd):
    processor.batching = True  # as the processor's loop: handlers are woken once a turn
    sent = done = 0
    while done < MESSAGES:
        while sent < MESSAGES and sent - done < IN_FLIGHT:
            processor.submit(DATA, 1, 1, 0, MESSAGE, 0)
            sent += 1
        processor.ring()
        answers = processor.collect(IN_FLIGHT)
        for answer in answers:
            processor.sent(answer[0])
        done += len(answers)
        if not answers and processor.prepare_sleep():
            select.select([eventfd], [], [])
            os.eventfd_read(eventfd)
        processor.cancel_sleep()


def run_exchange(put, get):
    for _ in range(IN_FLIGHT):
        put(MESSAGE)
    for _ in range(MESSAGES - IN_FLIGHT):
        get()
        put(MESSAGE)
    for _ in range(IN_FLIGHT):
        get()


def test_hop_in_one_process(benchmark):
    memory = Memory()
    processor, handler = ProcessorPort(memory.core, 0), HandlerPort(memory.core, 0)

    def hop():
        processor.submit(DATA, 1, 1, 0, MESSAGE, 0)
        handler.answer(handler.serve_or_claim(), b"0123456789")
        processor.sent(processor.collect(16)[0][0])

    benchmark(hop)
    assert processor.in_flight() == 0
    memory.close()


@pytest.mark.parametrize("way", ["ring", "pipe", "queue"])
def test_between_two_processes(benchmark, way):
    """Of 20,000 messages there and back."""
    if way == "ring":
        memory = Memory()
        with child("ring", [*memory.descriptors, memory.eventfd]) as process:
            processor = ProcessorPort(memory.core, 0, memory.eventfd)
            run_ring(processor, memory.eventfd)
            measure(benchmark, process.pid, lambda: run_ring(processor, memory.eventfd))
            assert processor.in_flight() == 0
        memory.close()
    elif way == "pipe":
        (a, b), (c, d) = os.pipe(), os.pipe()
        with child("pipe", [a, d]) as process:
            run_exchange(lambda m: os.write(b, m), lambda: os.read(c, len(MESSAGE)))
            measure(
                benchmark, process.pid, lambda: run_exchange(lambda m: os.write(b, m), lambda: os.read(c, len(MESSAGE)))
            )
        for descriptor in (a, b, c, d):
            os.close(descriptor)
    else:
        spawn = multiprocessing.get_context("spawn")
        requests, answers = spawn.Queue(), spawn.Queue()
        process = spawn.Process(target=serve_queue, args=(requests, answers), daemon=True)
        process.start()
        run_exchange(requests.put, answers.get)
        measure(benchmark, process.pid, lambda: run_exchange(requests.put, answers.get))
        process.kill()
        process.join()


if __name__ == "__main__":
    {"ring": serve_ring, "pipe": serve_pipe}[sys.argv[1]]([int(number) for number in sys.argv[2:]])
