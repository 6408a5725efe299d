"""What a generator process says of itself in the end: the processor time of each phase, and what it never sent."""

import socket

import pytest

from mpbroker.analysis.lab import generator
from mpbroker.analysis.lab.client_log import NEVER, ClientLog, read
from mpbroker.analysis.lab.generator import Generator
from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.analysis.lab.load_connection import LoadConnection

MS, LONG_AGO_NS = 1_000_000, 0
PHASES_S, RATES = [0.5, 0.5], [10.0, 6.0]


def _plan(clients):
    return GeneratorPlan(
        group="g", client_id="g", host="h", port=1, clients=clients, first_connection=0, api="api_versions", topic="t",
        partitions=1, value_bytes=1, records=1, acks=1, in_flight=1, loop="open", arrival="regular", seed=1, nice=0,
        durations_s=PHASES_S, rates=RATES, log="/x/g.log",
    )  # fmt: skip


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        log = ClientLog(100)
        yield LoadConnection(0, listener.getsockname(), generator.request_of(_plan(1), 0), 1, 1, log), log


def test_processor_time_counts_from_the_begin_of_the_load(monkeypatch):
    """Connecting took 5 ms of it; both phases were over when the process came to look."""
    used = iter([5 * MS, 7 * MS, 8 * MS, 9 * MS])
    monkeypatch.setattr(generator.time, "process_time_ns", lambda: next(used))
    running = Generator([], ClientLog(1))
    running.start(_plan(0), LONG_AGO_NS)
    running.run()
    summary = running.summary()
    assert summary["phase_cpu_us"] == [2000, 1000] and summary["cpu_us"] == 4000


def test_what_was_never_sent_is_counted_and_written_down(connection, tmp_path):
    """The whole load was over before the process had a core."""
    each, log = connection
    running = Generator([each], log)
    running.start(_plan(1), LONG_AGO_NS)
    running.run()
    summary = running.summary()
    assert (summary["unsent"], summary["sent"], summary["unanswered"]) == (8, 0, 0)
    log.write(tmp_path / "log", {})
    columns = read(tmp_path / "log").columns
    assert list(columns["sent_ns"]) == list(columns["done_ns"]) == [NEVER] * 8 and columns["intended_ns"][0] > 0
