"""The load driver and its readings of /proc, against librdkafka's mock."""

import os
import subprocess
import sys

import pytest

from perf.load import large_batches, processes, targets
from perf.load.produce_load import ProduceLoad
from tests.harness.raw_records import RawFetcher, create_by_metadata, records_in

IN_FLIGHT = 5
FIRST = 3 * IN_FLIGHT  # sent before any answer comes


@pytest.fixture(scope="module")
def mock():
    with targets.mock() as target:
        create_by_metadata(target.host, target.port, "load")
        yield target


def test_every_request_is_counted_once(mock):
    load = ProduceLoad(mock.host, mock.port, "load", connections=3, in_flight=IN_FLIGHT, partitions=3)
    before = [_end(mock, partition) for partition in range(3)]
    used = processes.usage(mock.pid)
    results = [load.run(0.3)]
    while results[-1].requests <= FIRST and len(results) < 20:  # a pause as long as the run lets nothing follow them
        results.append(load.run(0.3))
    load.close()
    result = results[-1]
    written = sum(_end(mock, partition) - first for partition, first in enumerate(before))
    assert sum(one.requests for one in results) == written and result.errors == 0 and result.requests > FIRST
    assert 0 < result.p50_ms <= result.p99_ms and result.requests_per_s > 0
    assert processes.usage(mock.pid).since(used).total_us > 0


def test_what_is_sent_is_the_record(mock):
    ProduceLoad(mock.host, mock.port, "load", connections=1, in_flight=1, partitions=1, values=[b"only this"]).close()
    answer = RawFetcher(mock.host, mock.port, "load").fetch(0, _end(mock, 0) - 1)
    assert [value for _, value in records_in(answer.records)][-1] == b"only this"


def test_errors_are_counted(mock):
    load = ProduceLoad(mock.host, mock.port, "load", connections=1, in_flight=4, partitions=1)
    connection = load._connections[0]
    connection._stream = memoryview(bytes(connection._stream).replace(b"\0\4load", b"\0\4none"))
    assert load.run(0.1).errors > 0
    load.close()


def test_large_batches_go_through_the_plain_loop():
    with large_batches.plain_loop() as plain:
        assert large_batches.cpu_seconds_per_gb(plain, 0.5) > 0


def test_a_tree_has_all_its_processes():
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"1\n"
    assert len(processes.tree(child.pid)) == 2
    assert processes.pss_kib(child.pid) > 1000
    assert child.pid in processes.tree(os.getpid())
    child.communicate(b"\n")


def test_the_machine_is_described():
    assert {"cpu", "cores", "memory_mib", "kernel", "python", "load_average"} == processes.machine().keys()


def _end(target, partition):
    return RawFetcher(target.host, target.port, "load").fetch(partition, 0, max_wait_ms=0).high_watermark
