"""What a handler survives: delayed operations that raise, memory for answers that was not used, new settings."""

import struct
import time
from types import SimpleNamespace

import msgspec
import pytest

from mpbroker.channel.processor_port import ANSWER_CLOSE, ANSWER_INLINE
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from mpbroker.server import dispatch, request_handler
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import ApiTable
from mpbroker.server.request_handler import work
from mpbroker.server.server_context import ANSWER_RETRY_MS, DelayedAnswer
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS, SLOT_LOG_KEEPER
from mpbroker.shm.process_context import ProcessContext
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, part, produce


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


def _break(broker, monkeypatch, name):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(broker.handler.context.log_manager, name, broken)
    monkeypatch.setattr(broker.handler.context.native_topics.fetch, "off", True)


def test_a_long_poll_that_raises_gets_error_1_and_the_handler_goes_on(broker, monkeypatch):
    broker.create_topic("t")
    broker.handler.context.native_topics.fetch.off = True
    broker.send(fetch(max_wait_ms=1000), 11)
    broker.send(fetch(max_wait_ms=1000), 11)
    broker.step()
    broker.step()
    assert broker.collect() == []
    with monkeypatch.context() as patch:
        _break(broker, patch, "find")
        broker.clock.advance(1000)
        broker.step()
    answers = [part(broker.decode(fetch(), 11, frame)) for _, _, frame in broker.collect()]
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert len(broker.handler.context.purgatory) == 0
    assert part(broker.call(produce(records=batch(b"a")), 7)).error_code == 0


def test_the_memory_of_an_answer_that_fails_is_free_again(broker, monkeypatch):
    broker.create_topic("t")
    assert part(broker.call(produce(records=batch(bytes(900_000))), 7)).error_code == 0
    with monkeypatch.context() as patch:
        _break(broker, patch, "read_into")
        for _ in range(100):  # of 64 MiB
            assert part(broker.call(fetch(), 11)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(part(broker.call(fetch(), 11)).records) > 900_000


class Port:
    """It has no memory for answers until `has_room`, and notes what it closed."""

    def __init__(self, port):
        self.has_room, self.tried, self.closed, self._port = False, 0, 0, port

    def answer(self, request, frame):
        self.tried += 1
        return self.has_room

    def answer_close(self, request, code):
        self.closed += 1

    def __getattr__(self, name):
        return getattr(self._port, name)


@pytest.mark.parametrize("comes", [False, True])
def test_an_answer_waits_for_memory_only_so_long(broker, comes):
    broker.send(fetch(), 11)
    request = broker.handler.port.serve_or_claim()
    context = broker.handler.context
    context.port = port = Port(context.port)
    waits = DelayedAnswer(context, request, b"1234", 5 * ANSWER_RETRY_MS)
    assert not context.purgatory.try_complete_else_watch(waits)
    for turn in range(20):
        port.has_room = comes and turn == 2
        broker.clock.advance(ANSWER_RETRY_MS)
        context.purgatory.advance(broker.clock.monotonic_ms())
    assert (port.tried, port.closed) == ((3, 0) if comes else (5, 1))
    assert len(context.purgatory) == 0


def test_a_request_that_fails_after_its_answer_is_named_as_such(broker):
    broker.send(fetch(), 11)
    context, told = broker.handler.context, []
    context.log = SimpleNamespace(exception=lambda event, error, about, **fields: told.append((event, about)))
    request = broker.handler.port.serve_or_claim()
    broker.handler.port.answer(request, b"1234")
    context.fail(request, RuntimeError("late"))
    assert told == [("request_failed", "answered RuntimeError")]
    assert len(broker.collect()) == 1


@pytest.mark.parametrize("outcome", [None, 7, b"\0\0\0\4", object()])
def test_what_is_no_answer_is_an_error_of_its_request_alone(broker, monkeypatch, outcome):
    """Of the kinds of answers each has a function of its own; there is none for anything else."""
    broker.create_topic("t")
    table = SimpleNamespace(get=lambda key: msgspec.structs.replace(API_TABLE.get(key), handle=lambda *_: outcome))
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "API_TABLE", table)
        assert part(broker.call(produce(records=batch(b"a")), 7)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.core.row(SLOT_HANDLERS).counter(Counter.HANDLER_EXCEPTIONS) == 1
    assert part(broker.call(produce(records=batch(b"a")), 7)).error_code == 0


def test_where_not_even_the_error_can_be_written_the_connection_is_closed(broker, monkeypatch):
    broker.send(fetch(), 11)
    context = broker.handler.context
    request = broker.handler.port.serve_or_claim()
    monkeypatch.setattr(context, "answer", lambda request, answer: 1 / 0)
    context.fail(request, RuntimeError("first"))
    [(_, kind, frame)] = broker.collect()
    assert kind == ANSWER_CLOSE and not frame
    assert broker.core.row(SLOT_HANDLERS).counter(Counter.REQUESTS_REFUSED) == 1


def test_new_settings_reach_the_native_path(broker, tmp_path):
    broker.create_topic("t")
    for _ in range(2):
        assert part(broker.call(produce(records=batch(bytes(1000))), 7)).error_code == 0
    smaller = load_broker_config(overrides=[f"log.dirs={tmp_path}", "message.max.bytes=500"], environ={})
    broker.handler.use_config(smaller)
    assert part(broker.call(produce(records=batch(bytes(1000))), 7)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    broker.create_topic("later")
    answer = part(broker.call(produce("later", records=batch(bytes(1000))), 7))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE, "topics that come later have them too"


def test_a_handler_that_is_never_idle_takes_new_settings_and_closes_old_files_all_the_same(
    broker, tmp_path, monkeypatch
):
    closed, smaller = [], load_broker_config(overrides=[f"log.dirs={tmp_path}", "message.max.bytes=500"], environ={})
    monkeypatch.setattr(broker.handler.context.log_manager, "close_stale", lambda: closed.append(1))
    ctx = ProcessContext(config=broker.config)
    monkeypatch.setattr(ctx, "take_reload", lambda: smaller)
    broker.create_topic("t")
    for _ in range(5):
        broker.clock.advance(400)
        broker.send(fetch(), 11)
        work(ctx, broker.handler)
    assert len(broker.collect()) == 5, "there was a request in every round"
    assert broker.handler.context.config is smaller
    assert len(closed) == 2


@pytest.mark.parametrize(("name", "kept"), [(b"\xff\xff", ""), (b"\0\2\xff\n", "\ufffd\n")])
def test_a_client_id_may_be_null_or_no_text(broker, monkeypatch, name, kept):
    asked = []
    api = API_TABLE.by_key[ApiKey.API_VERSIONS]
    broken = msgspec.structs.replace(api, handle=lambda context, request, _: asked.append(request.client_id) or 1 / 0)
    monkeypatch.setitem(API_TABLE.by_key, ApiKey.API_VERSIONS, broken)
    assert broker.processor.submit(0, 1, 1, 0, struct.pack(">hhi", ApiKey.API_VERSIONS, 0, 5) + name, 0) >= 0
    broker.step()
    assert asked == [kept]
    [(_, kind, _)] = broker.collect()
    assert kind == ANSWER_INLINE, "error -1, not a closed connection"


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), ImportError("half a file")])
def test_an_api_that_cannot_be_imported_closes_its_connection_and_is_tried_again(broker, monkeypatch, capfd, error):
    """It is imported at its first request, which may find no descriptor."""
    table, message = ApiTable((), {}, {ApiKey.DESCRIBE_CLUSTER: (0, 1)}, API_TABLE._load, {}), DescribeClusterRequest()
    monkeypatch.setattr("mpbroker.server.dispatch.API_TABLE", table)

    def fail(_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(table, "_load", fail)
        broker.send(message, 0)
        broker.step()
    [(_, kind, frame)] = broker.collect()
    assert kind == ANSWER_CLOSE and not frame and broker.core.row(SLOT_HANDLERS).counter(Counter.REQUESTS_REFUSED) == 1
    assert "reason=api_not_loaded" in capfd.readouterr().err
    assert broker.call(message, 0).error_code == 0


def test_what_a_predecessor_left_is_settled_log_first_before_it_runs(broker, monkeypatch):
    """The successor in a process slot: a partition half written, then the requests that wait for its result."""
    context, done = broker.handler.context, []

    def take() -> bool:
        context.port.take_dirty()  # a successor is told to look at everything first
        return context.port.serve_or_claim(0) is not None

    monkeypatch.setattr(request_handler, "build_context", lambda _: context)
    monkeypatch.setattr(context.log_manager, "recover_slot", lambda slot: done.append(("log", slot)))
    monkeypatch.setattr(context.fetch_sessions, "recover", lambda: done.append(("sessions", take())))
    broker.create_topic("t")
    context.native_topics.fetch.off = True
    broker.send(fetch(), 11)
    assert take()
    ctx = SimpleNamespace(
        process_row=context.row,
        index=0,
        slot=7,
        core=broker.core,
        config=SimpleNamespace(reserved_handlers=0, handlers_discipline="fifo"),
        running=lambda: done.append(("runs", take())),
        stop_requested=lambda: True,
    )
    request_handler.main(ctx)
    assert done == [("log", 7), ("sessions", False), ("runs", True)]


def test_a_bell_ends_a_wait_at_once(broker):
    """Of a handler with no request: who is told to look at partitions does so, and not when its wait is over."""
    port = broker.handler.context.port
    port.recover()
    begun = time.monotonic()
    assert port.serve_or_claim(20_000) is None and time.monotonic() - begun < 10
    assert port.take_dirty()[0], "everything"


@pytest.mark.parametrize(("flush", "waits"), [("commit", True), ("none", False), (None, False)])
def test_a_handler_waits_for_syncs_where_the_settings_say_so(monkeypatch, flush, waits):
    made, rung = [], []
    for name in ("MetadataCache", "open_handler_port", "FetchSessionTable"):
        monkeypatch.setattr(request_handler, name, lambda *_: None)
    monkeypatch.setattr(request_handler, "open_log", lambda *_: SimpleNamespace(flush="flush"))
    monkeypatch.setattr(request_handler, "steady", lambda *given: given[:2])
    monkeypatch.setattr(request_handler, "LogManager", lambda *given: made.append(given) or 1 / 0)
    overrides = [] if flush is None else [f"mpbroker.log.flush={flush}", "mpbroker.experiment.sync.ms=4"]
    core = SimpleNamespace(arena_handler_bytes=1 << 20, ring_service=rung.append)
    ctx = SimpleNamespace(
        core=core, config=load_broker_config(overrides=overrides, environ={}, cores=2), data_dirs=("/d",)
    )
    with pytest.raises(ZeroDivisionError):
        request_handler.build_context(ctx)
    [(_, _, on_commit, ring, largest, data_dirs, sync)] = made
    ring()
    assert sync == (None if flush is None else ("flush", 4))
    assert (on_commit, data_dirs, rung) == (waits, ("/d",), [SLOT_LOG_KEEPER]) and 0 < largest < 1 << 20


@pytest.mark.parametrize(
    ("due_ms", "waits_ms"),
    [(None, request_handler.POLL_MS), (1000, 0), (990, 0), (1003, 3), (10**9, request_handler.POLL_MS)],
)
def test_a_handler_waits_until_something_is_due(due_ms, waits_ms):
    handler = request_handler.RequestHandler.__new__(request_handler.RequestHandler)
    purgatory = SimpleNamespace(has_deadlines=due_ms is not None, next_due_ms=lambda: due_ms)
    handler.context = SimpleNamespace(purgatory=purgatory, clock=SimpleNamespace(monotonic_ms=lambda: 1000))
    assert handler._wait_ms() == waits_ms
