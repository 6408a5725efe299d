"""A lane that becomes half full rings the tracer, through the descriptor that a real supervisor gave to both."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from mpbroker import _native
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, frame
from tests.harness.trace_records import requests_of

API_VERSIONS = 18
HALF = _native.TRACE_LANE_RECORDS // 2
AT_ONCE = 256


def _bells(pid):
    """Number of each eventfd that a process has open → what was written to it and not read."""
    found = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = {}
        with suppress(FileNotFoundError):  # closed meanwhile
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        if "eventfd-id" in fields:
            found[int(fields["eventfd-id"])] = int(fields["eventfd-count"], 16)
    return found


def _ask(client, first, count):
    """Requests of a pipeline, all of them answered; returns the next one's number."""
    for begin in range(first, first + count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, first + count))
        client.send(b"".join(frame(API_VERSIONS, 0, number) for number in numbers))
        assert [client.receive()[0] for _ in numbers] == list(numbers)
    return first + count


def test_a_tracer_that_does_not_run_is_rung_and_loses_nothing(tmp_path):
    with Broker(tmp_path, overrides={"num.network.threads": 1}) as broker:
        client = RawConnection(broker.port())
        wait_until(lambda: broker.row("tracer", 0)["state"] == "running", "the tracer", 10)
        processor, tracer, handler = (broker.row(role, 0)["pid"] for role in ("processor", "tracer", "handler"))
        shared = _bells(processor).keys() & _bells(tracer).keys() - _bells(handler).keys()
        assert len(shared) == 1, "nobody else holds it"
        [bell] = shared
        sent = _ask(client, 0, 1)
        assert broker.kill("tracer", 0, signal.SIGSTOP) == tracer
        try:
            sent = _ask(client, sent, HALF - 300)  # what was there already is less than that
            assert _bells(tracer)[bell] == 0
            sent = _ask(client, sent, 600)
            wait_until(lambda: _bells(tracer)[bell] == 1, "the bell", 5)
        finally:
            os.kill(tracer, signal.SIGCONT)
        wait_until(lambda: _bells(tracer)[bell] == 0, "the tracer to hear it", 5)
        client.close()
        broker.stop()
        found = [one.corr_id for one in requests_of(broker) if one.api_key == API_VERSIONS]
        assert sorted(number for number in found if number < sent) == list(range(sent))  # the supervisor's has another
