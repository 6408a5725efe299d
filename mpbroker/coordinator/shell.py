"""The coordinator's shell: requests, acknowledgements, time and metadata go into the logic, its effects come out.

Runs in the coordinator process, from its first request on. The logic (`group_coordinator`) does no I/O; everything it
asks for is carried out here, in order.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial
from ipaddress import IPv6Address
from typing import Final

import msgspec

from mpbroker.channel.handler_port import MAX_ATTEMPTS, Cell, HandlerPort, Request
from mpbroker.channel.request_log import naming
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.limits import largest_batch_bytes
from mpbroker.coordinator.counting import Counting
from mpbroker.coordinator.effects import Answer, Append, Effect, GiveBack, GroupRequest, Now, PassOn
from mpbroker.coordinator.entry_answers import EntryAnswers
from mpbroker.coordinator.group_coordinator import GroupCoordinator
from mpbroker.coordinator.group_settings import GroupSettings, own_settings
from mpbroker.coordinator.group_table import GroupTable
from mpbroker.coordinator.many_groups import groups_of
from mpbroker.coordinator.offsets_loader import OffsetsLoader
from mpbroker.coordinator.offsets_log import OffsetsLog
from mpbroker.coordinator.responses import FAILED
from mpbroker.coordinator.shared_table import SharedTable
from mpbroker.coordinator.transactions.transaction_answers import TRANSACTION_FAILED
from mpbroker.coordinator.transactions.transaction_shell import RECORDED_IN_STATE, TRANSACTION_APIS, TransactionShell
from mpbroker.coordinator.unknown_topics import UnknownTopics
from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.log.leadership import led_since
from mpbroker.log.log_manager import LogManager, open_log
from mpbroker.metadata.metadata_cache import MetadataCache, Topic
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.codec import decode
from mpbroker.protocol.group_apis import BY_KEY, GroupApi
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.types import Struct
from mpbroker.shm.clock import Clock
from mpbroker.shm.layout import SLOT_LOG_KEEPER
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState
from mpbroker.trace.record import STAGES

#: Of the requests that name several groups, those that change them.
APPENDS_TO_SEVERAL: Final = frozenset({ApiKey.DELETE_GROUPS})
#: What a request hears that fails as a whole, by API key.
FAILURES: Final = {**FAILED, **TRANSACTION_FAILED}
HANDLER_START: Final = STAGES.index("handler_start")
LOGGED_FRAME_BYTES: Final = 256
REPAIR_RETRY_MS: Final = 100


class Shell:
    """All that the coordinator works with."""

    def __init__(
        self,
        ctx: ProcessContext,
        port: HandlerPort,
        clock: Clock,
        log_manager: LogManager,
        metadata: MetadataCache,
        table: GroupTable,
    ) -> None:
        self._ctx = ctx
        self._port = port
        self._clock = clock
        self._logs = log_manager
        self._metadata = metadata
        self._answers = EntryAnswers(port, ctx.process_row, ctx.log)
        self._settings = GroupSettings.of(ctx.config, ctx.core.entry_count // ctx.core.processor_count)
        self._own_settings = own_settings(ctx.config)
        self._table = table
        self._groups = self._make_groups(self._settings.partitions)
        self._appends = OffsetsLog(port, log_manager, ctx.config.offsets_commit_timeout_ms)
        self._loader = OffsetsLoader(log_manager, ctx.log, lambda: self._groups, self._loaded, clock=clock)
        self._counting = Counting(ctx.process_row)
        self._effects: deque[Effect] = deque()
        self._crash_point = ctx.core.crash_point
        self._unrepaired: list[Request] = []
        self._is_carrying = False
        self._cells: dict[object, dict[int, int]] = {}  # request → partition → its cell, where there are several
        self._topic: Topic | None = None  # __consumer_offsets
        self._names: dict[str, tuple[bytes, int]] = {}  # of all topics, with id and number of partitions
        self._opened: dict[int, int] = {}  # partition → leader epoch
        self._is_in_cluster = ctx.config.cluster_store is not None
        self._unknown_topics = UnknownTopics(metadata, clock, self._is_in_cluster)
        self._unsure: set[int] = set()  # partitions that were loaded and may name topics that are gone
        self._transactions = TransactionShell(
            ctx,
            port,
            log_manager,
            metadata,
            clock,
            self._appends,
            self._take,
            lambda group_id: self._groups.partition_of(group_id),
            lambda *ended: self._groups.transaction_ended(*ended),
        )
        self._take_metadata()

    # what the loop calls

    def execute(self, request: Request) -> None:
        """Answers a claimed request, now or later."""
        self._answers.take(request)
        self._crash_point("coordinator.taken")
        self._follow_metadata()
        if request.attempts and self._port.intended_row(request) is not None:
            self._unrepaired.append(request)
            self._answers.park()
            return
        self._run(request)
        if self._answers.park():
            self._crash_point("coordinator.parked")

    def _run(self, request: Request) -> None:
        api = BY_KEY.get(request.api_key)
        if api is None or not api.versions[0] <= request.api_version <= api.versions[1]:
            self._answers.refuse(request, "unsupported_version", code=ErrorCode.UNSUPPORTED_VERSION)
            return
        message = None
        try:
            header = decode_request_header(request.payload)
            message = decode(api.request, request.api_version, request.payload, header.body_offset)
            request.client_id = header.client_id
            self._execute(request, api, message)
        except ProtocolError as error:
            self._answers.refuse(request, "malformed_body", str(error))
        except Exception as error:  # one broken request is error -1 for that request; the coordinator goes on
            self._fail(request, error, message)

    def _run_unrepaired(self) -> None:
        """Second runs of requests whose first append is being finished or undone (UnfinishedRun of the handlers): until
        then nobody knows what is recorded."""
        requests, self._unrepaired = self._unrepaired, []
        for request in requests:
            ordinal = self._port.intended_row(request)
            if ordinal is None:
                self._run(request)
            else:
                self._logs.repair(ordinal)
                self._unrepaired.append(request)

    def deliver(self, everything: bool, moved: list[int]) -> None:
        """Metadata, acknowledgements, deadlines, a slice of what is to be loaded: in this order."""
        now = self._now()
        self._follow_metadata()
        if self._unrepaired:
            self._run_unrepaired()
        self._appends.moved(everything, moved)
        self._appends.retry(now.ms)
        self._appends.expire(now.ms)
        self._answers.retry(now.ms)
        self._loader.step()
        for partition in [one for one in self._unsure if self._unknown_topics.are_gone(one)]:
            self._forget_gone(partition)
        self._transactions.deliver()
        self._take(self._groups.pass_time(now))
        if self._ctx.core.state == BrokerState.DRAINING:
            self._answers.close_parked()

    def next_due_ms(self) -> int | None:
        """The next deadline; now, while there is something to load."""
        now_ms = self._clock.monotonic_ms()
        all_due = (
            self._loader.next_due_ms(now_ms),
            now_ms + REPAIR_RETRY_MS if self._unrepaired else None,
            self._groups.deadline_ms(),
            self._transactions.next_due_ms(now_ms),
            self._appends.next_due_ms(now_ms),
            self._answers.next_due_ms(now_ms),
        )
        due = [one for one in all_due if one is not None]
        return min(due) if due else None

    def rest(self) -> None:
        """Descriptors of removed files go; counters are published."""
        self._logs.close_stale()
        self._counting.publish(self._groups.counts)
        self._transactions.rest()

    def use_config(self, config: BrokerConfig) -> None:
        """Settings of topics and of single groups may have changed."""
        self._metadata.use_config(config)
        self._own_settings = own_settings(config)
        self._groups.use_own_settings(self._own_settings)

    # a request

    def _execute(self, request: Request, api: GroupApi, message: Struct) -> None:
        request.stamp(HANDLER_START)
        recorded = self._recorded(request)
        asked = GroupRequest(
            token=request,
            api_key=request.api_key,
            version=request.api_version,
            message=message,
            client_id=request.client_id,
            client_host=client_host(request),
            lane=request.processor,
            identity=request.fill_number.to_bytes(8, "big"),
            appended=frozenset(recorded),
        )
        if request.attempts >= MAX_ATTEMPTS and not recorded:
            self._answer_poison(request, FAILURES[api.key](message, asked.version, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if recorded and (self._logs.flush_on_commit or self._is_in_cluster):
            self._await_recorded(asked, recorded)
        else:
            self._decide(asked)

    def _decide(self, asked: GroupRequest) -> None:
        """Let the logic answer: that of transactions, or that of groups."""
        if asked.api_key in TRANSACTION_APIS:
            self._transactions.handle(asked)
        else:
            self._decide_group(asked)

    def _decide_group(self, asked: GroupRequest) -> None:
        request = asked.token
        assert isinstance(request, Request)
        if request.api_key in APPENDS_TO_SEVERAL:
            partitions = sorted({self._groups.partition_of(group_id) for group_id in groups_of(asked)})
            if len(partitions) > 1:
                self._cells[request] = {partition: number for number, partition in enumerate(partitions)}
        self._take(self._groups.handle(asked, self._now()))

    def _recorded(self, request: Request) -> dict[int, Cell]:
        """What an earlier run of this request appended, by partition; refused appends are tried again."""
        if not request.cell_count:
            return {}
        cells = (self._port.cell(request, number) for number in range(request.cell_count))
        by_row = {cell.ordinal: cell for cell in cells if cell is not None and not cell.error}
        topic = self._transactions.topic if request.api_key in RECORDED_IN_STATE else self._topic
        partitions = topic.partitions if by_row and topic is not None else []
        return {number: by_row[ordinal] for number, ordinal in enumerate(partitions) if ordinal in by_row}

    def _await_recorded(self, asked: GroupRequest, recorded: dict[int, Cell]) -> None:
        """An earlier run died before its records were synced and replicated: it may have been for that that it was not
        answered."""
        missing = dict(recorded)

        def settled(partition: int, code: int) -> None:
            del missing[partition]
            if code:
                failed = code if code == ErrorCode.REQUEST_TIMED_OUT else ErrorCode.COORDINATOR_NOT_AVAILABLE
                message = FAILURES[asked.api_key](asked.message, asked.version, failed)
                self._take([Answer(asked.token, message)])
            elif not missing:
                self._decide(asked)

        for partition, cell in recorded.items():
            self._appends.await_cell(cell, self._clock.monotonic_ms(), partial(settled, partition))

    def _answer_poison(self, request: Request, message: Struct) -> None:
        """It killed two coordinators: an error, a closed connection, and the frame in the log."""
        self._ctx.process_row.count("poison_requests")
        frame_hex = bytes(request.payload[:LOGGED_FRAME_BYTES]).hex()
        self._ctx.log.error("poison_request", **naming(request), frame=frame_hex)
        self._answers.close(request, message, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, request: Request, error: Exception, message: Struct | None) -> None:
        self._ctx.log.exception("request_failed", error, **naming(request))
        self._ctx.process_row.count("handler_exceptions")
        if message is None:
            self._answers.refuse(request, "unreadable", str(error))
            return
        failed = FAILURES[request.api_key](message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._answers.answer(request, failed, self._clock.monotonic_ms())

    # effects

    def _take(self, effects: list[Effect]) -> None:
        """Carries effects out, and those that follow from them; an append that is settled at once is among them."""
        if effects:
            self._crash_point("coordinator.decided")
        self._effects.extend(effects)
        if self._is_carrying:
            return
        self._is_carrying = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_carrying = False

    def _carry_out(self, effect: Effect) -> None:
        now_ms = self._clock.monotonic_ms()
        if isinstance(effect, Answer):
            assert isinstance(effect.token, Request)
            self._cells.pop(effect.token, None)
            self._answers.answer(effect.token, effect.message, now_ms)
            self._crash_point("coordinator.answered")
        elif isinstance(effect, PassOn):
            self._decide_group(effect.request)
        elif isinstance(effect, GiveBack):
            assert isinstance(effect.request.token, Request)
            self._transactions.refuse_written(effect.request, effect.code)
            self._answers.give_back(effect.request.token)
            self._crash_point("coordinator.answered")
        elif isinstance(effect, Append):
            self._append(effect, now_ms)
        else:
            self._transactions.carry_out(effect)

    def _append(self, effect: Append, now_ms: int) -> None:
        is_of_groups = effect.topic == OFFSETS_TOPIC
        topic = self._topic if is_of_groups else self._transactions.topic

        def then(code: int) -> None:
            self._crash_point("coordinator.appended")
            logic = self._groups if is_of_groups else self._transactions.coordinator
            self._take(logic.appended(effect.partition, effect.number, code, self._now()))

        request = effect.token if isinstance(effect.token, Request) else None
        cells = self._cells.get(request, {})
        if topic is None:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif request is not None and not self._port.ensure_cells(request, max(len(cells), 1)):
            then(ErrorCode.NOT_ENOUGH_REPLICAS)  # the client hears COORDINATOR_NOT_AVAILABLE, and comes back
        else:
            cell = cells.get(effect.partition, 0)
            self._appends.append(topic, effect, request, cell, now_ms, then)

    def _make_groups(self, partitions: int) -> GroupCoordinator:
        """Which partition holds a group depends on how many there are: of the topic that is there, whatever the setting
        says by now."""
        settings = msgspec.structs.replace(self._settings, partitions=partitions)
        groups = GroupCoordinator(settings, self._table, self._has_partition, self._ctx.boot_secret, self._metadata)
        groups.use_own_settings(self._own_settings)
        return groups

    def _loaded(self, partition: int) -> None:
        self._crash_point("coordinator.loaded")
        self._take(self._groups.loaded(partition, self._now()))
        self._forget_gone(partition)

    def _forget_gone(self, partition: int) -> None:
        """Offsets of topics that were deleted while nobody looked."""
        self._unsure.discard(partition)
        if partition not in self._opened:
            return
        unknown = [topic for topic in self._groups.topics(partition) if self._metadata.topic(topic) is None]
        if unknown and not self._unknown_topics.are_gone(partition):
            self._unsure.add(partition)
            return
        for topic in unknown:
            self._take(self._groups.topic_deleted(topic, self._now()))

    # metadata

    def _has_partition(self, topic: str, partition: int) -> bool:
        found = self._metadata.topic(topic)
        return found is not None and 0 <= partition < len(found.partitions)

    def _follow_metadata(self) -> None:
        if self._metadata.refresh():
            self._take_metadata()

    def _take_metadata(self) -> None:
        """Topics that are gone take their offsets with them; partitions of `__consumer_offsets` are opened."""
        names = {topic.name: (topic.id, len(topic.partitions)) for topic in self._metadata.topics()}
        gone = [name for name, (topic_id, _) in self._names.items() if names.get(name, (b"", 0))[0] != topic_id]
        changed = frozenset(name for name, _ in names.items() ^ self._names.items())
        self._names = names
        topic = self._metadata.topic(OFFSETS_TOPIC)
        if self._topic is not None and (topic is None or topic.id != self._topic.id):
            self._close_all()
            self._topic = None
        if self._topic is None and topic is not None:
            self._groups = self._make_groups(len(topic.partitions))
            self._counting = Counting(self._ctx.process_row)
        self._topic = topic
        self._groups.topics_changed(changed)
        for name in gone:
            self._take(self._groups.topic_deleted(name, self._now()))
        for partition, ordinal in enumerate(topic.partitions if topic is not None else ()):
            leader_epoch = led_since(self._logs.state(ordinal), self._is_in_cluster)
            opened = self._opened.get(partition)
            if opened is not None and leader_epoch is None:
                self._close(partition, self._opened.pop(partition))
            elif leader_epoch is not None and (opened is None or opened < leader_epoch):
                self._opened[partition] = leader_epoch
                self._unknown_topics.took_over(partition)
                self._take(self._groups.open(partition, leader_epoch, self._now()))
                self._loader.begin(partition, ordinal)
        self._transactions.follow_metadata()

    def _close_all(self) -> None:
        opened, self._opened = self._opened, {}
        for partition, leader_epoch in opened.items():
            self._close(partition, leader_epoch)

    def _close(self, partition: int, leader_epoch: int) -> None:
        self._loader.forget(partition)
        self._take(self._groups.close(partition, leader_epoch, self._now()))

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())


def client_host(request: Request) -> str:
    """The client's address as Kafka writes it, with a slash before it; after that nothing if it is not known."""
    address = request.client_address
    return "/" if address is None else _host(address)


@lru_cache(maxsize=1024)
def _host(address: bytes) -> str:
    found = IPv6Address(address)
    return f"/{found.ipv4_mapped or found}"


def open_shell(ctx: ProcessContext, port: HandlerPort, clock: Clock, metadata: MetadataCache) -> Shell:
    """Everything the coordinator works with; after the fork."""
    log_manager = LogManager(
        open_log(ctx),
        clock,
        ctx.config.mpbroker_log_flush == "commit",
        lambda: ctx.core.ring_service(SLOT_LOG_KEEPER),
        largest_batch_bytes(ctx.core.arena_handler_bytes),
    )
    return Shell(ctx, port, clock, log_manager, metadata, SharedTable(ctx.core))
