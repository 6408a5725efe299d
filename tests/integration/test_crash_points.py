"""MPBROKER_CRASH on a real broker: named moments at which a process kills itself, and what clients see of them; and a
record that faults whoever appends it."""

import os
import shutil
import subprocess

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, fetched, produce_request, produced, records_in

RECORDS = batch([b"one", b"two"])
FAULTS = b"whoever appends this faults"
PRELOAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
static void look(const void *bytes, size_t length)
{
    if (memmem(bytes, length, "FRAME", LENGTH))
        raise(SIGSEGV);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    look(bytes, length);
    return ((ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(fd, bytes, length, at);
}
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at)
{
    for (int n = 0; n < count; n++)
        look(pieces[n].iov_base, pieces[n].iov_len);
    return ((ssize_t (*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "pwritev"))(fd, pieces, count, at);
}
""".replace("FRAME", FAULTS.decode()).replace("LENGTH", str(len(FAULTS)))


def _start(tmp_path, points):
    return Broker(tmp_path, overrides={"num.io.threads": 2}, env={"MPBROKER_CRASH": points})


def _create_topic(broker, partitions=1):
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", partitions, {})


def _values(port, partition=0):
    with RawConnection(port) as connection:
        _, body = connection.ask(fetch_request(9, "t", partition, 0))
    return [value for _, value in records_in(fetched(body).records)]


@pytest.mark.parametrize("point", ["append.intent", "append.log_written", "append.committed", "handler.answer_written"])
def test_a_handler_that_dies_in_an_append_is_not_noticed(tmp_path, point):
    with _start(tmp_path, point) as broker:
        _create_topic(broker)
        with RawConnection(broker.port()) as connection:
            assert connection.ask(produce_request(1, "t", 0, RECORDS)) is not None
            _, body = connection.ask(produce_request(2, "t", 0, RECORDS))
        assert produced(body) == (0, 2)
        assert _values(broker.port()) == [b"one", b"two", b"one", b"two"]
        assert "worker_died" in broker.log()


def test_a_request_that_kills_its_handler_twice_gets_an_error_and_its_connection_closed(tmp_path):
    with _start(tmp_path, "append.locked,append.intent") as broker:
        _create_topic(broker)
        with RawConnection(broker.port()) as other, RawConnection(broker.port()) as connection:
            _, body = connection.ask(produce_request(1, "t", 0, RECORDS))
            assert produced(body).error == -1
            assert connection.receive() is None
            assert other.ask(produce_request(2, "t", 0, batch([b"three"])))  # another frame
            assert RawConnection(broker.port()).ask(produce_request(3, "t", 0, RECORDS)) is None  # the same one again
        line = next(line for line in broker.log().splitlines() if "poison_request" in line)
        assert "api=Produce version=7" in line and produce_request(1, "t", 0, RECORDS)[4:40].hex() in line
        assert _values(broker.port()) == [b"three"]


def test_a_request_whose_effects_are_recorded_is_answered_though_it_killed_two_handlers(tmp_path):
    """Its first run dies before the second of its two partitions, its second one when it has appended to that too."""
    parts = [PartitionProduceData(index=number, records=RECORDS) for number in (0, 1)]
    topic = TopicProduceData(name="t", partition_data=parts)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic], transactional_id=None)
    with _start(tmp_path, "append.locked:2,append.unlocked:2") as broker:
        _create_topic(broker, 2)
        with RawConnection(broker.port()) as connection:
            _, body = connection.ask(encode_request_frame(request, 7, 1, "raw"))
            [answered] = decode(ProduceResponse, 7, body).responses
            assert [(part.error_code, part.base_offset) for part in answered.partition_responses] == [(0, 0), (0, 0)]
        assert [_values(broker.port(), partition) for partition in (0, 1)] == [[b"one", b"two"]] * 2
        wait_until(lambda: broker.log().count("worker_died") == 2, "two deaths")


def test_a_text_that_names_no_points_stops_the_start(tmp_path):
    broker = _start(tmp_path, "append.locked:x")
    found = subprocess.run(
        broker.command(), env={**os.environ, **broker.env}, capture_output=True, text=True, timeout=20
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.splitlines()[-1].startswith("mpbroker: MPBROKER_CRASH=append.locked:x: must be name[:nth]")


@pytest.fixture
def preload(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    source, library = tmp_path / "fault.c", tmp_path / "fault.so"
    source.write_text(PRELOAD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True)
    return library


def test_a_frame_that_faults_its_handler_is_remembered_over_the_reset(tmp_path, preload):
    """Five resets in a minute end a broker: a client that sends it again and again must not get that far."""
    with Broker(tmp_path, env={"LD_PRELOAD": str(preload)}) as broker:
        _create_topic(broker)
        faulting = batch([FAULTS])  # the same bytes each time, as a client's retry is
        for number in range(8):
            with RawConnection(broker.port()) as connection:
                connection.send(produce_request(number, "t", 0, faulting))
                assert connection.is_closed()
            wait_until(lambda: broker.status()["state"] == "running", "the reset", 20)
        assert 1 <= broker.log().count("worker_fault") <= 2
        assert "frame_refused" in broker.log()
        with RawConnection(broker.port()) as connection:
            assert produced(connection.ask(produce_request(1, "t", 0, RECORDS))[1]) == (0, 0)
