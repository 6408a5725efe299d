"""What every API handler of one request handler process works with. Made once per process, after the fork."""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.errors import ErrorCode
from mpbroker.purgatory.delayed_operation import DelayedOperation, DelayedOperationPurgatory
from mpbroker.server.apis import fail_parked
from mpbroker.server.auto_creation import AutoCreation
from mpbroker.server.native_topics import NativeTopics
from mpbroker.server.producer_ids import ProducerIds
from mpbroker.server.response_frame import encode_answer

ANSWER_RETRY_MS, ANSWER_PATIENCE_MS = 20, 30_000


class ServerContext:
    """The handler process's collaborators, by name.

    config: BrokerConfig · port: the native HandlerPort · log_manager: LogManager (append and read) · metadata:
    MetadataCache · commands: ControllerCommands · listeners: BoundListener by the index a request carries ·
    purgatory: operations this process has parked · clock · log: EventLog.
    """

    def __init__(
        self, *, config, port, log_manager, metadata, commands, listeners, clock, log, row, apis, cluster_id: str
    ) -> None:
        self.config = config
        self.port = port
        self.log_manager = log_manager
        self.metadata = metadata
        self.commands = commands
        self.listeners = listeners
        self.clock = clock
        self.log = log
        self.row = row
        self.apis = apis
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self.is_ending: Callable[[], bool] = lambda: False  # the broker is about to stop: long polls end now
        self.producer_ids = ProducerIds()
        self.auto_creation = AutoCreation(commands)
        self.native_topics = NativeTopics(self)
        self.purgatory = DelayedOperationPurgatory(clock.monotonic_ms(), port.watch)

    def answer(self, request, message, version: int | None = None) -> None:
        """Encodes the response in the request's version (or the one given) and hands it to the processor."""
        try:
            frame = encode_answer(request, message, version)
        except ValueError as error:  # a name that got longer when it was read (see read_text in py_codec_decode.c)
            self.refuse(request, "unanswerable", error)
            return
        if not self.port.answer(request, frame):
            self.answer_later(request, frame)

    def answer_later(self, request, frame: bytes) -> None:
        """No memory for answers now: clients that do not read hold it. The frame waits here for room."""
        self.purgatory.try_complete_else_watch(DelayedAnswer(self, request, frame, ANSWER_PATIENCE_MS))

    def resume(self, request) -> None:
        """A parked request is in hand again; to be called before it is answered."""
        self.port.resume(request)

    def refuse(
        self, request, reason: str, error: Exception | None = None, code: int = ErrorCode.UNKNOWN_SERVER_ERROR
    ) -> None:
        """Closes the connection of a request that cannot be answered: a counter, one log line, and `code` in its
        trace record."""
        self.count("requests_refused")
        self.log.warning(
            "request_refused",
            reason=reason,
            api=request.api_key,
            version=request.api_version,
            detail=str(error) if error else "",
        )
        self.port.answer_close(request, code)

    def count(self, counter: str, n: int = 1) -> None:
        self.row.count(counter, n)


class DelayedAnswer(DelayedOperation):
    """A finished answer that waits for memory; tried again every few milliseconds, then the connection is closed."""

    __slots__ = ("context", "frame", "patience_ms", "request")

    def __init__(self, context: ServerContext, request, frame: bytes, patience_ms: int) -> None:
        super().__init__(context.clock.monotonic_ms() + ANSWER_RETRY_MS, ())
        self.context = context
        self.request = request
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

    def on_failure(self, error: Exception) -> None:
        fail_parked(self.context, self.request, error)
