"""An exception that nobody expected, while one connection is served, closes that connection and no other."""

import pytest

from mpbroker.network.kafka_channel import KafkaChannel
from tests.harness.raw_client import frame
from tests.unit.network.test_processor import API, Setting

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def setting(tmp_path):
    made = Setting(tmp_path)
    yield made
    made.close()


def serves(setting, client, number):
    client.send(frame(API, 5, number))
    setting.turns()
    request = setting.claim()
    assert request.correlation_id == number
    setting.answer(request)
    setting.turns()
    assert client.recv(100).endswith(b"done")


def broken(*_arguments):
    raise RuntimeError("broken")


def test_while_its_request_is_received(setting, monkeypatch):
    healthy, failing = setting.connect(), setting.connect()
    monkeypatch.setattr(KafkaChannel, "receive_large", broken)
    failing.send(frame(API, 5, 1, bytes(40_000))[:20_000])
    setting.turns()
    check_closed(setting, failing)
    serves(setting, healthy, 2)
    assert setting.counter("connections_failed") == 1
    assert setting.row.connections == 1
    assert setting.processor._port.reserve(1 << 19) is not None, "the room of its frame is free again"


def test_while_it_waits_for_room(setting, monkeypatch):
    healthy, failing = setting.connect(), setting.connect()
    monkeypatch.setattr(setting.processor._reader, "_admit_one", broken)
    [channel] = [each for each in setting.processor._by_fd.values() if each.number == 1]
    setting.processor._reader.wait_for_room(channel)
    setting.turns()
    check_closed(setting, failing)
    monkeypatch.undo()
    serves(setting, healthy, 2)
    assert setting.counter("connections_failed") == 1


def test_when_it_is_new(setting, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(setting.processor._notices, "opened", broken)
        failing = setting.connect()
        check_closed(setting, failing)
    serves(setting, setting.connect(), 1)
    assert setting.counter("connections_failed") == 1 and setting.row.connections == 1


def test_even_when_closing_it_raises_too(setting, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(setting.processor._notices, "closed", broken)
        failing = setting.connect()
        failing.close()
        setting.turns()
    serves(setting, setting.connect(), 1)
    assert setting.counter("connections_failed") == 1 and setting.row.connections == 1


def check_closed(setting, client):
    assert client.recv(1) == b""
    assert [event for event, _ in setting.log.lines] == ["connection_failed"]
