"""Appends and reads of one partition through the binder, beside a plain `os.pwrite`: `pytest
perf/micro/bench_append.py`.

`make -C native bench` measures the same without Python. To hold, of a 100-byte batch on a two-core virtual machine in
CPU time: the append within 1.6 times a plain pwrite called from Python plus 0.3 µs, a look-up near the end within
three preads. Nothing here asserts a time.
"""

import itertools
import os

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from tests.harness.small_core import small_core

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
BATCH = encode_batch([(None, b"v" * 30, NOW_MS, ())])
LARGE = encode_batch([(None, os.urandom(1 << 20), NOW_MS, ())])


@pytest.fixture
def log(tmp_path):
    memory = small_core()
    log = _native.Log(memory.core, [str(tmp_path)], 48)
    assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, NOW_MS) == 0
    yield log
    log.close()


@pytest.fixture
def plain(tmp_path):
    descriptor = os.open(tmp_path / "plain", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("batch", [BATCH, LARGE], ids=["100-bytes", "1-MiB"])
def test_plain_write(benchmark, plain, batch):
    positions = itertools.count(0, len(batch))
    benchmark(lambda: os.pwrite(plain, batch, next(positions)))


@pytest.mark.parametrize("batch", [BATCH, LARGE], ids=["100-bytes", "1-MiB"])
def test_append(benchmark, log, batch):
    options = _native.LogOptions(max_message_bytes=1 << 22, segment_bytes=1 << 26)

    def append():
        return log.append(0, _native.NO_REQUEST, 0, batch, options, NOW_MS)

    assert benchmark(append).error == 0


@pytest.fixture
def filled(log):
    options = _native.LogOptions()
    for _ in range(20_000):
        log.append(0, _native.NO_REQUEST, 0, BATCH, options, NOW_MS)
    return log


@pytest.mark.parametrize("back", [1, 10_000], ids=["at-the-end", "in-the-middle"])
def test_find_and_read(benchmark, filled, back):
    buffer = bytearray(4096)
    offset = filled.state(0).leo - back

    def fetch():
        error, plan = filled.find(0, offset, _native.READ_TO_HIGH_WATERMARK, len(buffer))
        return error or filled.read_into(plan, buffer)[0]

    assert benchmark(fetch) == 0


def test_state(benchmark, filled):
    assert benchmark(filled.state, 0).leo == 20_000
