"""What every API handler of one request handler process works with. Made once per process, after the fork."""

from __future__ import annotations

from mpbroker.protocol.headers import encode_response_frame
from mpbroker.purgatory.delayed_operation import DelayedOperationPurgatory
from mpbroker.server.producer_ids import ProducerIds


class ServerContext:
    """The handler process's collaborators, by name.

    config: BrokerConfig · port: the native HandlerPort · records: PartitionLogs (append and read) · metadata:
    MetadataCache · commands: ControllerCommands · listeners: list of EndPoint, by the index a request carries ·
    purgatory: operations this process has parked · clock · log: the structured logger · client_id: of the request in
    hand.
    """

    def __init__(self, *, config, port, log_manager, metadata, commands, listeners, clock, log, row, apis,
                 cluster_id: str) -> None:
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
        self.client_id = ""
        self.producer_ids = ProducerIds()
        self.purgatory = DelayedOperationPurgatory(clock.monotonic_ms(), port.watch)

    def answer(self, request, message, version: int | None = None) -> None:
        """Encodes the response in the request's version (or the one given) and hands it to the processor."""
        used = request.api_version if version is None else version
        self.port.answer(request, encode_response_frame(request.api_key, used, request.correlation_id, message))

    def refuse(self, request, reason: str, error: Exception | None = None) -> None:
        """Closes the connection of a request that cannot be answered: a counter and one log line."""
        self.count("requests_refused")
        self.log.warning("request_refused", reason=reason, api=request.api_key, version=request.api_version,
                         detail=str(error) if error else "")
        self.port.answer_close(request, 0)

    def count(self, counter: str, n: int = 1) -> None:
        self.row.count(counter, n)
