"""A request that a second handler runs again is answered as the first one would have answered it: errors too."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.record.batch_builder import encode_batch
from mpbroker.server import replica_append
from mpbroker.server.request_handler import RequestHandler
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, part, produce


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t", cleanup_policy="compact")
    broker.create_topic("often", flush_messages="1")
    return broker


class Died(BaseException):
    """Stands for a kill."""


class LogThatSyncs:
    """The native log, but `sync` takes the place of its flush."""

    def __init__(self, log, sync) -> None:
        self._log, self.flush = log, sync

    def __getattr__(self, name):
        return getattr(self._log, name)


def sync_with(broker, sync) -> None:
    manager = broker.handler.context.log_manager
    manager.log = LogThatSyncs(manager.log, sync)


def fail(ordinal):
    return ErrorCode.KAFKA_STORAGE_ERROR, 0


def die(ordinal):
    raise Died


def answer(broker, message):
    [(_, _, frame)] = broker.collect()
    return part(broker.decode(message, 7, frame))


def die_before_answering(broker, message) -> None:
    def never(request, frame):
        raise Died

    broker.handler.context.port.answer = never
    broker.send(message, 7)
    with pytest.raises(Died):
        broker.step()


def succeed(broker) -> None:
    """The dead handler's successor, up to the request that it finds."""
    broker.handler = RequestHandler(broker._context())
    broker.handler.port.recover()
    broker.step()  # the bell of the recovery


def test_a_compressed_batch_that_was_refused_is_refused_again_without_a_look(broker):
    message = produce(records=encode_batch([(None, b"v" * 99, 1_700_000_000_000)], codec=1))
    die_before_answering(broker, message)
    succeed(broker)
    broker.handler.context.log_manager.append = None  # what was refused stands in the cell
    broker.step()
    found = answer(broker, message)
    assert (found.error_code, found.base_offset, found.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)


def test_an_append_whose_sync_failed_keeps_its_error_and_its_records(broker):
    message = produce("often", records=batch(b"a"))
    sync_with(broker, fail)
    die_before_answering(broker, message)
    succeed(broker)
    broker.step()
    found = answer(broker, message)
    assert (found.error_code, found.base_offset, found.log_start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
    assert part(broker.call(fetch("often"), 11)).high_watermark == 1


@pytest.mark.parametrize(("sync", "code"), [(None, 0), (fail, ErrorCode.KAFKA_STORAGE_ERROR)])
def test_a_handler_that_died_before_the_sync_is_followed_by_one_that_syncs(broker, sync, code):
    message = produce("often", records=batch(b"a"))
    sync_with(broker, die)
    broker.send(message, 7)
    with pytest.raises(Died):
        broker.step()
    ordinal = broker.handler.context.metadata.topic("often").partitions[0]
    assert broker.log.state(ordinal).leo == 1 and broker.log.state(ordinal).flushed_offset == 0
    succeed(broker)
    if sync is not None:
        sync_with(broker, sync)
    broker.step()
    assert answer(broker, message).error_code == code
    assert broker.log.state(ordinal).flushed_offset == (1 if code == 0 else 0)
    assert broker.log.state(ordinal).leo == 1


@pytest.mark.parametrize(
    ("topic", "error", "ordinal", "synced"),
    [
        (SimpleNamespace(partitions=[4]), 0, 4, True),
        (SimpleNamespace(partitions=[4]), 0, 5, False),
        (SimpleNamespace(partitions=[4]), 3, 4, False),
        (None, 0, 4, False),
    ],
)
@pytest.mark.parametrize("again", [None, "what the sync came to"])
def test_what_was_written_is_synced_before_it_is_told_again(monkeypatch, topic, error, ordinal, synced, again):
    """Of a partition that the topic still has; what a cell says of an error stands."""
    monkeypatch.setattr(replica_append, "_response", lambda index, result: (index, result))
    cell, asked = SimpleNamespace(error=error, ordinal=ordinal), []
    context = SimpleNamespace(
        port=SimpleNamespace(cell=lambda request, number: cell if number == 2 else None),
        log_manager=SimpleNamespace(sync_recorded=lambda *words: asked.append(words) or again),
    )
    assert replica_append.recorded_result(context, "request", topic, 7, 1) is None
    found = replica_append.recorded_result(context, "request", topic, 7, 2)
    assert found == (7, again if synced and again else cell)
    assert asked == ([(topic, ordinal, "request", 2)] if synced else [])
