"""The agent: the controller process of a broker that is one of a cluster.

It registers the broker in the cluster's store and keeps the session alive, follows the store's topics and settings,
carries out LeaderAndIsr, StopReplica and UpdateMetadata for the elected controller, and tells that one which replicas
are in sync. It alone writes rows of topics, partitions' identities, `assignments` and `brokers`. What it knows stands
in the store and in shared memory; a successor reads both and goes on.

A session that ended (the process stood still for too long) ends every role here: the broker registers anew, with a
higher broker epoch, and waits for the controller to speak.
"""

import zlib
from array import array
from typing import Any, Final

import msgspec

from mpbroker.client.broker_channel import BrokerChannel
from mpbroker.config.topic_config import effective
from mpbroker.controller.agent_decisions import Epochs
from mpbroker.controller.agent_requests import ControlRequests
from mpbroker.controller.broker_settings import BrokerSettings, Room
from mpbroker.controller.cluster_topics import ClusterTopics
from mpbroker.controller.cluster_view import (
    BrokersChanged,
    ClusterView,
    ControllerChanged,
    Seen,
    SettingsChanged,
    TopicGone,
    TopicPut,
    address_of,
)
from mpbroker.controller.command_inbox import Taken
from mpbroker.controller.config_manager import ConfigManager
from mpbroker.controller.controlled_shutdown import ControlledShutdown, follows_the_store
from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.controller_store import PRODUCER_ID_BLOCK, ControllerStore, StoreChanged
from mpbroker.controller.feature_manager import FeatureManager
from mpbroker.controller.isr_proposals import IsrProposals
from mpbroker.controller.own_record import failed_directories, own_record
from mpbroker.controller.partition_logs import PartitionLogs
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.controller.role_trace import RoleTrace
from mpbroker.controller.shown_brokers import ShownBrokers
from mpbroker.errors import ErrorCode, MpbrokerError
from mpbroker.log.log_manager import Log
from mpbroker.metadata.broker_registration import Occupied, Registered, register
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    Answer,
    ControlAnswer,
    ControlRequest,
    Failed,
    ProducerIds,
    UpdateFeatures,
    decode_command,
    encode_answer,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import ClusterStore, Compacted, Watch
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot
from mpbroker.metadata.topic_names import is_internal_topic
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from mpbroker.protocol.messages_by_key import REQUESTS
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.cluster_table import (
    NOBODY,
    cluster_announce,
    cluster_state,
    held_payload,
)
from mpbroker.shm.layout import MAX_FETCHERS, SLOT_FETCHERS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState

ATTEMPTS: Final = 5
AGAIN_MS: Final = 200


class LostRegistration(MpbrokerError):
    """Another broker has this id, or nobody can say who has it."""


class Agent:
    """Everything but the loop."""

    def __init__(self, ctx: ProcessContext, store: ClusterStore, log: Log, logs: PartitionLogs, unclean: bool) -> None:
        self._ctx = ctx
        self._core = ctx.core
        self._config = ctx.config
        self._store = store
        self._log = log
        self._clock = SystemClock()
        self._keys = Keys(ctx.cluster_id)
        self._view = ClusterView(self._keys)
        self._watch: Watch | None = None
        self._registered: Registered | None = None
        self._failed: list[str] = []
        self._told: Any = None  # failed directories and listeners, as they are registered
        self._unclean = unclean
        self._renewed_ms = 0
        self._channel: BrokerChannel | None = None
        self._shutdown: ControlledShutdown | None = None
        self._handed_over = False
        self._commands = ControllerStore(store, self._keys, ctx.core.boot_id)
        snapshot, rows = MetadataSnapshot(ctx.core), PartitionRows(ctx.core)
        self._topics = ClusterTopics(
            core=ctx.core,
            self_id=ctx.config.node_id,
            snapshot=snapshot,
            rows=rows,
            logs=logs,
            settings_of=lambda configs: effective(configs, self._config),
            log=ctx.log,
            crash_point=ctx.core.crash_point,
            count=ctx.process_row.count,
        )
        self._snapshot = snapshot
        self._roles = RoleTrace(ctx.trace_notices_fd, log.replica_state, ctx.process_row.count)
        self._brokers = self._shown_brokers()
        self._requests = ControlRequests(
            self_id=ctx.config.node_id,
            topics=self._topics,
            log=log,
            known=self._epochs,
            seen=self._seen,
            brokers=self._brokers.show,
            missing=self._look_up,
            settings_of=lambda configs: effective(configs, self._config),
            roles_changed=self._ring_fetchers,
            alive=self.keep_alive,
            now_ms=self._clock.monotonic_ms,
            events=ctx.log,
            roles=self._roles,
            crash_point=ctx.core.crash_point,
        )
        self._proposals = IsrProposals(
            log=log,
            self_id=ctx.config.node_id,
            lag_ms=ctx.config.replica_lag_time_max_ms,
            identity_of=self._identity_of,
            broker_epoch=self._broker_epoch,
            count=ctx.process_row.count,
        )

    def _shown_brokers(self) -> ShownBrokers:
        return ShownBrokers(
            self._core,
            epochs=lambda: {broker: live.epoch for broker, live in self._view.brokers.items()},
            now_ms=self._clock.monotonic_ms,
            gone_ms=lambda: self._config.broker_session_timeout_ms,
            crash_point=self._core.crash_point,
        )

    # ---- at the start

    def recover(self) -> None:
        """Shared memory as the store has it, then the registration: who registers can serve."""
        self._read_store()
        self._announce(*self._known_controller())
        self._make_managers()
        self.tell_changes()
        self._register()

    def _read_store(self) -> None:
        """Everything anew: at the start, and when the watch has fallen too far behind."""
        view, revs = ClusterView(self._keys), []
        keys = self._keys
        for prefix in (keys.topic_configs, keys.topics, keys.brokers, keys.controller):
            for page in self._store.scan(prefix):
                view.load(page.entries)
                revs.append(page.rev)
        self._view = view
        self._topics.recover(view.topics())
        if self._watch is not None:
            self._watch.close()
        self._watch = self._store.open_watch(self._keys.prefix, min(revs) + 1)

    def _make_managers(self) -> None:
        ctx = self._ctx
        room = Room(ctx.core.processor_count, ctx.core.handler_count - (ctx.core.coordinator >= 0))
        self._settings = BrokerSettings(
            store=self._commands, config=lambda: self._config, publish=ctx.publish_settings, room=room
        )
        self._settings.announce()
        self._features = FeatureManager(
            core=ctx.core,
            store=self._commands,
            node_id=ctx.config.node_id,
            crash_point=ctx.core.crash_point,
            log=ctx.log,
        )

    def _register(self) -> None:
        outcome = register(
            self._store,
            self._keys,
            own_record(self._ctx, self._failed, self._unclean),
            self._config.broker_session_timeout_ms,
        )
        self._core.crash_point("agent.registered")
        if isinstance(outcome, Occupied):
            raise LostRegistration(outcome.sentence)
        self._registered, self._told = outcome, (self._failed, self._ctx.listeners)
        self._renewed_ms = self._clock.monotonic_ms()
        self._announce(*self._known_controller())
        self._ctx.log.info("broker_registered", broker_epoch=outcome.epoch, resumed=outcome.resumed)

    def tell_changes(self) -> None:
        """What moved between log directories. The controller is to know which of them cannot be used here, and tells
        all brokers of listeners that came, went, or are to be told otherwise."""
        self._topics.note_moves()
        self._failed = failed_directories(self._ctx, self._log)
        if self._registered is not None and self._told != (self._failed, self._ctx.listeners):
            self._register()

    # ---- the session

    def keep_alive(self) -> None:
        """Renew the session when it is time. False from the store: it has ended, and we were declared dead. What came
        to nothing, because the store did not answer or a partition was busy, is tried again after a pause."""
        now_ms = self._clock.monotonic_ms()
        pause_ms = self._config.broker_heartbeat_interval_ms if self._registered is not None else AGAIN_MS
        if now_ms - self._renewed_ms < pause_ms:
            return
        self._ctx.process_row.beat()
        self._renewed_ms = now_ms
        if self._registered is None:
            self._begin_again()
        elif not self._store.session_renew(self._registered.session):
            self._ctx.log.warning("broker_session_lost", broker_epoch=self._registered.epoch)
            self._begin_again()

    def _begin_again(self) -> None:
        """All roles end before the broker is known again; not as long as one of them cannot be ended."""
        self._registered = None
        codes = [
            self._end_role(topic, partition)
            for topic in self._topics.context.by_id.values()
            for partition, ordinal in enumerate(topic.ordinals)
            if self._topics.has_log(ordinal)
        ]
        for topic in self._topics.context.by_id.values():
            if is_internal_topic(topic.name):
                self._topics.announce(topic)  # whoever coordinated by it does not any more
        self._ring_fetchers()
        if ErrorCode.REQUEST_TIMED_OUT not in codes:
            self._register()

    def _end_role(self, topic: TopicState, partition: int) -> int:
        ordinal = topic.ordinals[partition]
        try:
            before = self._roles.role_of(ordinal)
            code = self._log.stop(ordinal)
            if code == ErrorCode.NONE:
                self._roles.changed(topic.name, partition, ordinal, before, self._epochs().controller)
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        return code

    def _ring_fetchers(self) -> None:
        """Roles or leaders' addresses have changed."""
        for slot in range(SLOT_FETCHERS, SLOT_FETCHERS + MAX_FETCHERS):
            self._core.ring_service(slot)

    # ---- what the requests need

    def _epochs(self) -> Epochs:
        state = cluster_state(self._core)
        return Epochs(state.controller_epoch, state.broker_epoch)

    def _known_controller(self) -> tuple[int, int]:
        """Id and latest epoch seen, by the store or by a request."""
        state, record = cluster_state(self._core), self._view.controller
        latest = state.controller_epoch
        if record is None:
            return NOBODY, latest
        return (record.id, max(record.epoch, latest)) if record.epoch >= latest else (state.controller, latest)

    def _announce(self, controller: int, epoch: int) -> None:
        own = self._registered.epoch if self._registered is not None else cluster_state(self._core).broker_epoch
        wanted = (controller, epoch, own)
        if cluster_state(self._core)[1:] != wanted:
            cluster_announce(self._core, *wanted)

    def _seen(self, controller: int, epoch: int) -> None:
        if epoch > cluster_state(self._core).controller_epoch:
            self._announce(controller, epoch)

    def _look_up(self, topic_id: bytes) -> TopicState | None:
        """A topic that the watch has not brought yet."""
        _, entry = self._store.get(self._keys.topic(topic_id))
        if entry is None:
            return None
        for seen in self._view.apply(entry.key, entry):
            self._follow(seen)
        name = next((topic.name for topic in self._view.topics() if topic.id == topic_id), "")
        _, config = self._store.get(self._keys.topic_config(name)) if name else (0, None)
        if config is not None:
            for seen in self._view.apply(config.key, config):
                self._follow(seen)
        return self._topics.context.by_id.get(topic_id)

    def _identity_of(self, ordinal: int) -> tuple[bytes, int]:
        who = self._topics.who(ordinal)
        return who.topic_id, who.partition

    def _broker_epoch(self, broker: int) -> int:
        if broker == self._config.node_id and self._registered is not None:
            return self._registered.epoch
        live = self._view.brokers.get(broker)
        return NOBODY if live is None else live.epoch

    # ---- the store's watch

    def watch_fd(self) -> int:
        """Readable when `follow_store` may have something."""
        assert self._watch is not None
        return self._watch.fileno()

    def follow_store(self) -> None:
        """What the store told since the last call."""
        assert self._watch is not None
        self._brokers.forget()
        try:
            for batch in self._watch.take():
                for event in batch.events:
                    for seen in self._view.apply(event.key, event.entry, batch.rev):
                        self._follow(seen)
        except Compacted:
            self._read_store()

    def _follow(self, seen: Seen) -> None:
        match seen:
            case TopicPut(topic):
                self._topics.put(topic)
                shown = self._topics.context.by_id.get(topic.id)
                if shown is not None:
                    self._requests.set_moved_aside(shown)
            case TopicGone(topic_id):
                self._topics.remove(topic_id)
            case BrokersChanged():
                self._brokers.store_changed()
            case ControllerChanged():
                self._announce(*self._known_controller())
            case SettingsChanged():
                self._make_managers()

    # ---- commands

    def execute(self, taken: Taken) -> bytes:
        """Carry out an encoded command and return the encoded answer."""
        try:
            return encode_answer(self._run(decode_command(taken.payload), taken.operation))
        except msgspec.DecodeError as error:
            return encode_answer(Failed(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        except Exception as error:
            self._ctx.log.exception("controller_command_failed", error)
            return encode_answer(Failed(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _run(self, command: Any, operation: int) -> Answer:
        match command:
            case ControlRequest():
                return self._control(command)
            case AllocateProducerIds():
                return self._producer_ids()
            case AlterConfigs():
                return self._config_manager().alter(command, operation)
            case UpdateFeatures():
                return self._features.update(command, operation)
        return Failed(ErrorCode.NOT_CONTROLLER)

    def _control(self, command: ControlRequest) -> ControlAnswer:
        payload = held_payload(self._core, command.entry, command.fill_number)
        if payload is None:
            return ControlAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
        header = decode_request_header(payload)
        request = decode(REQUESTS[header.api_key], header.api_version, payload, header.body_offset)
        self._core.crash_point("agent.request_read")
        code, codes = self._execute(request)
        self._core.crash_point("agent.request_done")
        return ControlAnswer(code, zlib.compress(array("h", codes).tobytes(), 1))

    def _execute(self, request: Any) -> tuple[int, list[int]]:
        match request:
            case LeaderAndIsrRequest():
                return self._requests.leader_and_isr(request)
            case StopReplicaRequest():
                return self._requests.stop_replica(request)
            case UpdateMetadataRequest():
                return self._requests.update_metadata(request), []
        return ErrorCode.INVALID_REQUEST, []

    def _producer_ids(self) -> ProducerIds:
        for _ in range(ATTEMPTS):
            try:
                first = self._commands.allocate_producer_ids()
            except StoreChanged:  # another broker took a block at the same time
                continue
            return ProducerIds(error_code=-1) if first is None else ProducerIds(first, PRODUCER_ID_BLOCK)
        return ProducerIds(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _config_manager(self) -> ConfigManager:
        """For the settings of brokers; those of topics go to the cluster's controller."""
        return ConfigManager(
            context=self._topics.context,
            store=self._commands,
            snapshot=self._snapshot,
            brokers=self._settings,
            crash_point=self._core.crash_point,
            log=self._ctx.log,
        )

    # ---- in-sync replicas

    def tell_roles(self) -> None:
        """Roles that changed, to the tracer; nobody waits for it."""
        self._roles.tell()

    def channels(self) -> list[BrokerChannel]:
        """Connections to the controller."""
        leaving = None if self._shutdown is None else self._shutdown.channel
        return [channel for channel in (self._channel, leaving) if channel is not None]

    def propose(self) -> None:
        """Send what leaders here want, and take the answer."""
        now_ms = self._clock.monotonic_ms()
        if self._channel is not None:
            outcome = self._channel.turn(now_ms)  # also when nothing is asked: the other side may have closed it
            if outcome is not None:
                code = self._proposals.answered(outcome.response, now_ms)  # type: ignore[arg-type]
                if code:
                    self._ctx.log.warning("alter_partition_failed", error=code, problem=outcome.problem)
            elif self._channel.busy:
                return
        channel = self._to_controller()
        if channel is not None and self._registered is not None:
            request = self._proposals.next_request(now_ms)
            if request is not None:
                channel.send(request, now_ms)

    def _controller_address(self) -> tuple[str, int] | None:
        record = self._view.controller
        live = None if record is None else self._view.brokers.get(record.id)
        return None if live is None else address_of(live.record, self._config.end_points)

    def _to_controller(self) -> BrokerChannel | None:
        address = self._controller_address()
        if address is None:
            return None
        if self._channel is None or self._channel.address != address:
            if self._channel is not None:
                self._channel.close()
            self._channel = BrokerChannel(*address, client_id=str(self._config.node_id))
        return self._channel

    # ---- before the broker stops

    def hand_over(self) -> None:
        """While the broker waits to stop: have others lead what is led here, then say so."""
        if self._core.state != BrokerState.HANDING_OVER or self._handed_over:
            return
        config, now_ms = self._config, self._clock.monotonic_ms()
        self._shutdown = self._shutdown or ControlledShutdown(
            node_id=config.node_id,
            broker_epoch=lambda: self._broker_epoch(config.node_id),
            controller=self._controller_address,
            follows=lambda: follows_the_store(
                self._store, self._keys, self._topics, self._log, self._core, config.node_id
            ),
            attempts=config.controlled_shutdown_max_retries,
            backoff_ms=config.controlled_shutdown_retry_backoff_ms,
            log=self._ctx.log,
            now_ms=now_ms,
        )
        if self._shutdown.turn(now_ms):
            self._handed_over = True
            self._ctx.log.info("handed_over")
            self._ctx.handed_over()

    def use_config(self, config: Any) -> None:
        """The broker's settings were read again."""
        self._config = config

    def close(self) -> None:
        """The orderly end: nobody has to wait until the session is stale."""
        if self._channel is not None:
            self._channel.close()
        if self._watch is not None:
            self._watch.close()
        if self._registered is not None:
            self._store.session_close(self._registered.session)
        self._store.close()
