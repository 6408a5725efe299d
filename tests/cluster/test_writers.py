"""The idempotent writer tells of a broker that refuses the oldest batch it holds: there a gap cannot be."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import writers
from tests.cluster.renumbered import stamps_of
from tests.cluster.writers import Idempotent
from tests.harness.broker import Broker, wait_until
from tests.harness.history import OK, History
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, produce_request, produced

pytestmark = pytest.mark.slow
TOPIC = "t"


def written(writer, log):
    """One record of it, acknowledged: its producer's id, epoch and next sequence number."""
    writer.step()
    writer.finish()
    assert [one.result for one in writer.history.writes] == [OK]
    (stamp,) = stamps_of(log)
    return stamp.producer_id, stamp.epoch, 1


def client_threads():
    """Numbers of the threads of librdkafka's clients in this process."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ends just now
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


def test_a_broker_that_is_ahead_of_its_producer_is_found(tmp_path, monkeypatch):
    """Somebody writes a hundred records under its name: the broker expects a number that it is far from."""
    before = client_threads()
    with Broker(tmp_path) as broker:
        writer = Idempotent("idempotent-0", History(), 1, broker.bootstrap, TOPIC, 1)
        producer = written(writer, tmp_path / "data" / f"{TOPIC}-0")
        assert writer.found == []
        connection = RawConnection(broker.port())
        _, body = connection.ask(produce_request(1, TOPIC, 0, batch([b"not its own"] * 100, producer=producer)))
        connection.close()
        assert produced(body) == (0, 1)
        with monkeypatch.context() as patience:  # what a producer holds that has met a fatal error may stay there
            patience.setattr(writers, "PATIENCE_S", 5)
            wait_until(lambda: writer.step() or writer.found, "the writer to tell of it", 30)
        assert [one.name for one in writer.found] == ["fatal"]
        assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in writer.found[0].detail
        writer.finish()
        writer.close()
        assert client_threads() <= before, "or they look for this broker while later tests run"
