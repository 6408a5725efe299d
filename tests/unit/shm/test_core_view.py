"""The core segment read from outside: offsets are the compiler's; topics, sizes and held requests of a real broker;
a segment that is just being made."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mpbroker import _native
from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from mpbroker.shm import core_view, layout, memfd, segment
from mpbroker.shm.core_view import CoreError, CoreView
from mpbroker.shm.layout import SLOT_HANDLERS
from mpbroker.shm.segment import CORE_MEMFD
from tests.harness.broker import Broker, wait_until
from tests.harness.descriptors import open_descriptors
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, produce_request
from tests.harness.small_core import small_plan

pytestmark = pytest.mark.slow


def test_offsets_are_the_headers():
    c = _native.LAYOUT
    assert {
        "header.topics_high": core_view.TOPICS_HIGH_OFFSET,
        "header.partitions_high": core_view.PARTITIONS_HIGH_OFFSET,
        "topic.copy": core_view.TOPIC_COPY_OFFSET,
        "topic_copy": core_view.TOPIC_COPY_BYTES,
        "topic_copy.name": core_view._TOPIC.size - 256,
        "partition.flags": 0,
        "partition.topic_row": 4,
        "partition.selector": core_view.SELECTOR_OFFSET,
        "partition.copy": core_view.PARTITION_COPY_OFFSET,
        "partition_copy": core_view.PARTITION_COPY_BYTES,
        "partition_copy.log_bytes": core_view.LOG_BYTES_OFFSET,
        "doorbells.entries_high": core_view.ENTRIES_HIGH_OFFSET,
        "processor_mark": core_view._ENTRIES_HIGH.size,
        "entry.claimed": core_view.CLAIMED,
    }.items() <= c.items()


def test_topics_and_their_bytes(tmp_path):
    with Broker(tmp_path) as broker:
        with connect(broker.bootstrap) as client:
            create_topic(client, "a", 3, {})
            create_topic(client, "empty", 2, {})
        records = batch([b"x" * 1000] * 10)
        with RawConnection(broker.port()) as connection:
            connection.ask(produce_request(1, "a", 1, records))
        view = CoreView(broker.pid)
        try:
            found = {one.name: one for one in view.topics()}
        finally:
            view.close()
        assert (found["a"].partitions, found["a"].offline) == (3, 0)
        on_disk = sum(path.stat().st_size for path in (tmp_path / "data").glob("a-*/*.log"))
        assert found["a"].log_bytes == on_disk > 10_000
        assert found["empty"][1:] == (2, 0, 0)


def test_a_parked_request_is_held_by_its_handler(tmp_path):
    with Broker(tmp_path, overrides={"num.io.threads": 1}) as broker:
        with connect(broker.bootstrap) as client:
            create_topic(client, "a", 1, {})
        with RawConnection(broker.port()) as connection:
            connection.send(fetch_request(1, "a", 0, 0, max_wait_ms=30_000))  # ends with the broker
            view = CoreView(broker.pid)
            try:
                wait_until(lambda: view.held_requests() == {SLOT_HANDLERS: 1}, "the fetch to be parked")
            finally:
                view.close()


def test_a_process_without_a_core():
    """One that does nothing else: this one may hold the memory of another test."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(CoreError):
                CoreView(process.pid)
        finally:
            process.kill()
    assert memfd.find(2**22 - 1, "x") is None


HOLD = "import os, sys; f = os.memfd_create(sys.argv[1]); os.write(f, sys.stdin.buffer.read(int(sys.argv[2]))); \
print(flush=True); sys.stdin.read()"


@contextmanager
def _holder(content: bytes) -> Iterator[int]:
    """A process that holds a core segment of that content; its pid."""
    command = [sys.executable, "-c", HOLD, CORE_MEMFD, str(len(content))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(content)
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def _open_memfds() -> set[tuple[str, str]]:
    """Without pipes and sockets: threads of a client that an earlier test here left may open theirs meanwhile."""
    return {one for one in open_descriptors() if one[1].startswith("/memfd:")}


@pytest.mark.parametrize("size", [0, 8, layout.PAGE_BYTES - 1, layout.PAGE_BYTES, 3 * layout.PAGE_BYTES])
def test_a_core_that_is_just_being_made(size):
    """It has a name before it has a size, and a size before it has a header."""
    before = _open_memfds()
    with _holder(bytes(size)) as pid, pytest.raises(CoreError, match="is just being made"):
        CoreView(pid)
    assert _open_memfds() <= before


def test_the_magic_number_is_written_last():
    """Whoever reads a header from outside while it is written sees no half of it."""

    class Memory(dict):
        def __setitem__(self, at: slice, data: bytes) -> None:
            super().__setitem__((at.start or 0, at.stop), data)

    plan, memory = small_plan(), Memory()
    header = layout.header_bytes(layout.MAGIC_CORE, plan, layout.core_regions(plan)[0], 1, 1)
    segment._write_header(memory, header)
    assert list(memory) == [(layout.MAGIC_BYTES, len(header)), (0, layout.MAGIC_BYTES)]
    assert b"".join(data for _, data in sorted(memory.items())) == header


def test_a_core_of_another_layout():
    header = bytearray(layout.header_bytes(layout.MAGIC_CORE, small_plan(), [], 1, 1))
    header[layout.MAGIC_BYTES] += 1
    with _holder(bytes(header)) as pid, pytest.raises(CoreError, match=f"has layout {layout.VERSION + 1}; this"):
        CoreView(pid)
