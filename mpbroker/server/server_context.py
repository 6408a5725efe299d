"""What every API handler of one request handler process works with. Made once per process, after the fork.

The state of a single request is not kept here but in its Request, and in the operation that holds it while it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mpbroker.channel.fetch_session_table import FetchSessionTable
from mpbroker.channel.handler_port import HandlerPort, Request
from mpbroker.channel.request_log import naming
from mpbroker.channel.response_frame import encode_answer
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.errors import ConfigError, ErrorCode
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.producer_ids import ProducerIds
from mpbroker.protocol.types import Struct
from mpbroker.purgatory.delayed_operation import DelayedOperation, DelayedOperationPurgatory
from mpbroker.server.auto_creation import AutoCreation
from mpbroker.server.controller_commands import ControllerCommands
from mpbroker.server.native_topics import NativeTopics
from mpbroker.shm.clock import Clock
from mpbroker.shm.events import Events
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import ProcessRow
from mpbroker.shm.replication_quota import ReplicationQuota

ANSWER_RETRY_MS, ANSWER_PATIENCE_MS = 20, 30_000


class ServedApis(Protocol):
    """The table of APIs (apis.ApiTable) as the code below it needs it."""

    def versions(self, for_brokers: bool = False) -> dict[int, tuple[int, int]]:
        """Key → (lowest, highest) advertised version, in key order."""
        ...

    def failure(self, request: Request, code: int, message: Struct | None = None) -> Struct:
        """The response when all of a request fails with one code. ProtocolError: the request cannot be read."""
        ...


class ServerContext:
    """The handler process's collaborators, by name.

    log_manager appends and reads · fetch_sessions: those of all handlers · commands go to the controller ·
    listeners: by the index a request carries · purgatory: operations this process has parked · row: this process's
    row of the process table · cluster: the other brokers, None in a broker that is alone.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        port: HandlerPort,
        log_manager: LogManager,
        fetch_sessions: FetchSessionTable,
        metadata: MetadataCache,
        commands: ControllerCommands,
        listeners: Sequence[BoundListener],
        clock: Clock,
        log: Events,
        row: ProcessRow,
        apis: ServedApis,
        cluster_id: str,
        cluster: ClusterCache | None = None,
    ) -> None:
        self.config = config
        self.port = port
        self.log_manager = log_manager
        self.fetch_sessions = fetch_sessions
        self.metadata = metadata
        self.commands = commands
        self.listeners = listeners
        self.clock = clock
        self.log = log
        self.row = row
        self.apis = apis
        self.cluster_id = cluster_id
        self.cluster = cluster
        self.node_id: int = config.node_id
        self.stored_settings: Callable[[], DynamicSettings | None] = lambda: None
        self.asks_coordinator = (
            False  # about batches whose partition knows nothing of their transaction; False in tests
        )
        self.renew_listeners: Callable[[], Sequence[BoundListener]] = lambda: self.listeners
        self.request_isr_change: Callable[[], None] = lambda: None  # the agent is to ask the controller
        self.is_ending: Callable[[], bool] = lambda: False  # the broker is about to stop: long polls end now
        self.leader_quota: ReplicationQuota | None = None  # only in a cluster
        self.fetch_deadline_ms: int | None = None  # of the Fetch that is being dispatched again; it has waited already
        self.produce_deadline_ms: int | None = None  # of such a Produce, likewise
        self.producer_ids = ProducerIds()
        self.auto_creation = AutoCreation(commands, lambda: self.config)
        self.native_topics = NativeTopics(log_manager, port, metadata)
        self.native_topics.use_config(config)
        self.purgatory = DelayedOperationPurgatory(clock.monotonic_ms(), port.watch)

    def listener(self, index: int) -> BoundListener:
        """By the index that a request carries. One that was added a moment ago may not be known here yet."""
        if index >= len(self.listeners) or self.listeners[index].removed:
            self.listeners = self.renew_listeners()
        return self.listeners[index]

    def is_between_brokers(self, listener: int) -> bool:
        """Whether a listener is one on which brokers of a cluster talk to each other."""
        bound = self.listener(listener)
        return self.cluster is not None and (bound.control or bound.name == self.config.end_points.inter_broker)

    def shown_config(self) -> BrokerConfig:
        """What clients are shown: with the dynamic settings as they are stored, which this process may not have taken
        over yet."""
        stored = self.stored_settings()
        if stored is None or stored == self.config.dynamic:
            return self.config
        try:
            return build_broker_config(Given(self.config.texts, {}, ()), self.config.cores, stored)
        except ConfigError:  # the supervisor leaves out what it cannot use, and says so
            return self.config

    def answer(self, request: Request, message: Struct, version: int | None = None) -> None:
        """Encodes the response in the request's version (or the one given) and hands it to the processor."""
        try:
            frame = encode_answer(request, message, version)
        except ValueError as error:  # a name that got longer when it was read (see read_text in py_codec_decode.c)
            self.refuse(request, "unanswerable", error)
            return
        if not self.port.answer(request, frame):
            self.answer_later(request, frame)

    def answer_later(self, request: Request, frame: bytes) -> None:
        """No memory for answers now: clients that do not read hold it. The frame waits here for room."""
        self.purgatory.try_complete_else_watch(DelayedAnswer(self, request, frame, ANSWER_PATIENCE_MS))

    def resume(self, request: Request) -> None:
        """A parked request is in hand again; to be called before it is answered."""
        self.port.resume(request)

    def refuse(
        self,
        request: Request,
        reason: str,
        error: Exception | None = None,
        code: int = ErrorCode.UNKNOWN_SERVER_ERROR,
    ) -> None:
        """Closes the connection of a request that cannot be answered: a counter, one log line, and `code` in its
        trace record."""
        self.count("requests_refused")
        named = naming(request)
        about = f"{named['client_id']} {named['api']} {reason}"
        self.log.warning("request_refused", about, reason=reason, **named, detail=str(error) if error else "")
        self.port.answer_close(request, code)

    def fail(self, request: Request, error: Exception, message: Struct | None = None) -> None:
        """A handler or a delayed operation raised: error −1 for the request, unless it is answered already.

        `message`: the request's body if it is at hand. Where not even the error can be written (a name that grew too
        long for the wire), the connection is closed.
        """
        held = _is_held(request)
        named = naming(request) if held else {"api": "answered"}
        self.log.exception("request_failed", error, f"{named['api']} {type(error).__name__}", **named)
        self.count("handler_exceptions")
        if not held:
            return
        try:
            self.answer(request, self.apis.failure(request, ErrorCode.UNKNOWN_SERVER_ERROR, message))
        except Exception as unanswerable:
            self.refuse(request, "unanswerable", unanswerable)

    def count(self, counter: str, n: int = 1) -> None:
        self.row.count(counter, n)


def _is_held(request: Request) -> bool:
    """Whether this process still has to answer it."""
    try:
        return request.generation is not None
    except ValueError:
        return False


class ParkedRequest(DelayedOperation):
    """A delayed operation that holds a claimed request; base of all those of this package. One that raises fails its
    request."""

    __slots__ = ("context", "request")

    def __init__(self, context: ServerContext, request: Request, deadline_ms: int, keys: Iterable[int] = ()) -> None:
        super().__init__(deadline_ms, keys)
        self.context = context
        self.request = request

    def on_failure(self, error: Exception) -> None:
        self.context.fail(self.request, error)


class DelayedAnswer(ParkedRequest):
    """A finished answer that waits for memory; tried again every few milliseconds, then the connection is closed."""

    __slots__ = ("frame", "patience_ms")

    def __init__(self, context: ServerContext, request: Request, frame: bytes, patience_ms: int) -> None:
        super().__init__(context, request, context.clock.monotonic_ms() + ANSWER_RETRY_MS)
        self.frame = frame
        self.patience_ms = patience_ms

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        context, left_ms = self.context, self.patience_ms - ANSWER_RETRY_MS
        if context.port.answer(self.request, self.frame):
            return
        if left_ms > 0:
            context.purgatory.try_complete_else_watch(DelayedAnswer(context, self.request, self.frame, left_ms))
        else:
            context.refuse(self.request, "no_answer_memory")
