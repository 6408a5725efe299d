"""MPBROKER_CRASH on a real broker: named moments at which a process kills itself, and what clients see of them."""

import os
import subprocess

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, fetched, produce_request, produced, records_in

RECORDS = batch([b"one", b"two"])


def _start(tmp_path, points):
    return Broker(tmp_path, overrides={"num.io.threads": 2}, env={"MPBROKER_CRASH": points})


def _create_topic(broker):
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", 1, {})


def _values(port):
    with RawConnection(port) as connection:
        _, body = connection.ask(fetch_request(9, "t", 0, 0))
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
    with _start(tmp_path, "append.unlocked,handler.answer_written") as broker:
        _create_topic(broker)
        with RawConnection(broker.port()) as connection:
            _, body = connection.ask(produce_request(1, "t", 0, RECORDS))
        assert produced(body) == (0, 0)
        assert _values(broker.port()) == [b"one", b"two"]
        wait_until(lambda: broker.log().count("worker_died") == 2, "two deaths")


def test_a_text_that_names_no_points_stops_the_start(tmp_path):
    broker = _start(tmp_path, "append.locked:x")
    found = subprocess.run(
        broker.command(), env={**os.environ, **broker.env}, capture_output=True, text=True, timeout=20
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.splitlines()[-1].startswith("mpbroker: MPBROKER_CRASH=append.locked:x: must be name[:nth]")
