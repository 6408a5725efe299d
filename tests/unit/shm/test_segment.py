"""Segments: made, named, reserved, reset, swept. Every name made here is gone afterwards."""

import errno
import mmap
import os

import posix_ipc
import pytest

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.channel.planes import DATA
from mpbroker.channel.processor_port import POISON, ProcessorPort
from mpbroker.errors import ConfigError
from mpbroker.shm import segment
from mpbroker.shm.page_view import PageError, PageView, open_page
from mpbroker.shm.process_table import BrokerState, ProcessState
from tests.harness.small_core import small_plan


@pytest.fixture
def data_dir(tmp_path):
    yield str(tmp_path)
    segment.sweep(str(tmp_path))


@pytest.fixture
def memory(data_dir):
    made = segment.create(small_plan(), data_dir, 0x77)
    yield made
    made.close()


def test_the_page_is_the_only_name(memory, data_dir):
    assert segment.names_of(data_dir) == [segment.page_name(data_dir, 0x77)] == [memory.name]
    memory.close()
    assert segment.names_of(data_dir) == []


def test_names_follow_the_real_path(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "d")
    assert segment.name_prefix(str(tmp_path / "link")) == segment.name_prefix(str(tmp_path / "d"))
    assert segment.name_prefix(str(tmp_path)) != segment.name_prefix(str(tmp_path / "d"))


def test_the_page_is_reserved_before_anybody_maps_it(memory):
    status = os.stat(f"/dev/shm{memory.name}")
    assert status.st_blocks * 512 >= status.st_size > 0
    assert status.st_mode & 0o777 == 0o600


def test_a_small_dev_shm_is_one_sentence(monkeypatch, data_dir):
    def full(_descriptor, _offset, _size):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ConfigError, match="/dev/shm is too small: .* needs [0-9]+ free bytes"):
        segment.create(small_plan(), data_dir, 1)
    assert segment.names_of(data_dir) == []


def test_nothing_named_stays_when_creation_fails(monkeypatch, data_dir):
    def no_memory(_name, _flags):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(os, "memfd_create", no_memory)
    with pytest.raises(OSError, match="no memory"):
        segment.create(small_plan(), data_dir, 1)
    assert segment.names_of(data_dir) == []


def test_sweep_removes_what_a_killed_broker_left(data_dir):
    segment.create(small_plan(), data_dir, 1)
    lane = f"{segment.name_prefix(data_dir)}0000000000000001-lane-0"
    posix_ipc.SharedMemory(lane, posix_ipc.O_CREX, size=4096).close_fd()
    assert len(segment.sweep(data_dir)) == 2
    assert segment.sweep(data_dir) == []


def test_untouched_memory_costs_nothing(memory):
    """Half a gigabyte of tables and arena, a few pages of them used."""
    big = segment.create(
        small_plan(entries_per_processor=4096, partitions=16384, arena_processor_bytes=256 << 20), "/nowhere-at-all", 2
    )
    try:
        with open("/proc/self/smaps") as smaps:
            mapped = [block for block in smaps.read().split("VmFlags") if "memfd:mpbroker-" in block]
        assert mapped
        resident = sum(
            int(line.split()[1]) for block in mapped for line in block.splitlines() if line.startswith("Rss:")
        )
        assert resident < 2048
    finally:
        big.close()


def test_reset_keeps_the_process_table_and_the_killers(memory, data_dir):
    row = memory.row(48)
    row.begin(123, 3, 0, 255)
    row.count("requests_refused", 5)
    memory.core.add_killer(0xBEEF, 99)
    memory.set_state(BrokerState.RESETTING)
    old = memory.core
    memory.reset(())
    assert memory.core is not old
    assert memory.core.killers() == [(0xBEEF, 99, 1)]
    assert memory.core.state == BrokerState.RESETTING
    assert memory.row(48).pid == 123
    with_view = open_page(data_dir)
    try:
        assert with_view.state == BrokerState.RESETTING
        assert [process.pid for process in with_view.processes()] == [123]
    finally:
        with_view.close()


def test_a_frame_is_refused_after_its_second_fault(memory):
    data = b"\0\0\0\7\0\0\0\1\xff\xff poison"
    for kills in (1, 2):
        processor, handler = ProcessorPort(memory.core, 0), HandlerPort(memory.core, 1)
        assert processor.submit(DATA, 1, 1, 0, data, 0) >= 0
        assert handler.serve_or_claim() is not None
        memory.remember_killer(0)
        memory.remember_killer(1)
        memory.reset(())
        assert [row[2] for row in memory.core.killers()] == [kills]
    assert ProcessorPort(memory.core, 0).submit(DATA, 1, 1, 0, data, 0) == POISON


def test_page_view_shows_rows_rings_and_counters(memory, data_dir):
    row = memory.row(16)
    row.begin(4711, 2, 0, 1)
    row.set_state(ProcessState.RUNNING)
    row.count("bytes_sent", 7)
    memory.row(17).count("bytes_sent", 5)
    view = open_page(data_dir)
    try:
        process = view.processes()[0]
        assert (process.slot, process.pid, process.role, process.listener, process.incarnation) == (16, 4711, 2, 1, 1)
        assert process.state is ProcessState.RUNNING
        assert process.last_exit is None
        assert process.api_key is None
        rings = {ring.name: ring for ring in view.rings()}
        assert rings["data"].capacity == 500
        assert rings["control"].capacity == 20
        assert rings["response-0"].depth == 0
        assert view.counters()[3] == 12
        assert view.counters(17)[3] == 5
        assert view.boot_id == 0x77
    finally:
        view.close()


def test_no_page_is_an_error_with_the_directory(tmp_path):
    with pytest.raises(PageError, match=str(tmp_path)):
        open_page(str(tmp_path))


def test_a_page_of_something_else_is_refused(data_dir):
    name = f"{segment.name_prefix(data_dir)}0000000000000009-page"
    shm = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, size=8192)
    try:
        with pytest.raises(PageError, match="not a page"):
            PageView(name)
        with mmap.mmap(shm.fd, 8192) as page:
            page[:8] = (0x65676170627012).to_bytes(8, "little")
            page[8:12] = (77).to_bytes(4, "little")
        with pytest.raises(PageError, match="layout 77"):
            PageView(name)
    finally:
        shm.close_fd()
        segment.unlink_names([name])


def test_a_page_cannot_be_written_from_outside(memory):
    view = PageView(memory.name)
    try:
        with pytest.raises(TypeError):
            view._view[0] = 1
    finally:
        view.close()


def test_a_dev_shm_that_takes_no_names_is_one_sentence(monkeypatch, data_dir):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(segment.posix_ipc, "SharedMemory", read_only)
    with pytest.raises(ConfigError, match="shared memory cannot be created in /dev/shm [(]Read-only file system[)]"):
        segment.create(small_plan(), data_dir, 1)
