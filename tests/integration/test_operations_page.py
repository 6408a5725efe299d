"""docs/operations.md: backups are taken as they are written there."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import RawFetcher, batch, produce_request, produced, records_in
from tests.tidy.source_tree import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
TOPIC = "t"


def _backup(index):
    """An indented block of the section on backups, as a script."""
    section = PAGE.partition("## Backup\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)
    assert len(blocks) == 2
    return "\n".join(line.strip() for line in blocks[index].splitlines())


def _run(script, data, copy):
    script = script.replace("DATA", str(data)).replace("COPY", str(copy))
    subprocess.run(["bash", "-ec", script], check=True, capture_output=True, timeout=60)


def _values(broker):
    """Every record of the topic, in order."""
    fetcher, found = RawFetcher("127.0.0.1", broker.port(), TOPIC), []
    while True:
        answer = fetcher.fetch(0, len(found), max_wait_ms=0)
        assert answer is not None and answer.error == 0
        new = [value for _, value in records_in(answer.records, len(found))]
        if not new:
            fetcher.close()
            return found
        found += new


def _produce(connection, number):
    answer = connection.ask(produce_request(number, TOPIC, 0, batch([b"%d" % number])))
    assert produced(answer[1]).error == 0


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path / "first").start()
    with connect(broker.bootstrap) as client:
        create_topic(client, TOPIC, 1, {})
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def test_a_copy_of_a_stopped_broker(broker, tmp_path, monkeypatch):
    with RawConnection(broker.port()) as connection:
        for number in range(50):
            _produce(connection, number)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # where `mpbroker` is
    second = Broker(tmp_path / "second")
    second.directory.mkdir()
    _run(_backup(0), broker.data_dir, second.data_dir)
    with second:
        assert _values(second) == [b"%d" % number for number in range(50)]


def test_a_copy_of_a_broker_at_work(broker, tmp_path):
    """Somebody writes all the time: the copy holds what was acknowledged before, and a beginning of the rest."""
    with RawConnection(broker.port()) as connection:
        for number in range(100):
            _produce(connection, number)
        enough = threading.Event()

        def write_on():
            number = 100
            while not enough.is_set():
                _produce(connection, number)
                number += 1

        writer = threading.Thread(target=write_on)
        writer.start()
        second = Broker(tmp_path / "second")
        second.directory.mkdir()
        try:
            _run(_backup(1), broker.data_dir, second.data_dir)
        finally:
            enough.set()
            writer.join()
    with second:
        found = _values(second)
        assert len(found) >= 100 and found == [b"%d" % number for number in range(len(found))]
        with RawConnection(second.port()) as connection:
            _produce(connection, 1000)
