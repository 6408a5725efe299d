"""The part of the coordinator's shell that transactions need: their topic, markers, verification, producer ids.

Runs in the coordinator process, beside the shell of groups, which owns requests, appends and the order of effects.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from mpbroker.channel.handler_port import HandlerPort, Request
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.coordinator.effects import AskCoordinator, Effect, GroupRequest, Now, SendMarkers, TakeProducerIds, Verify
from mpbroker.coordinator.offsets_loader import OffsetsLoader
from mpbroker.coordinator.offsets_log import OffsetsLog
from mpbroker.coordinator.transactions.broker_requests import BrokerRequests
from mpbroker.coordinator.transactions.elsewhere_verifier import ElsewhereVerifier
from mpbroker.coordinator.transactions.marker_sender import Codes, MarkerSender
from mpbroker.coordinator.transactions.other_brokers import OtherBrokers
from mpbroker.coordinator.transactions.partition_verifier import LocalVerifier
from mpbroker.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from mpbroker.coordinator.transactions.transaction_counting import TransactionCounting
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.unknown_topics import UnknownTopics
from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import led_since
from mpbroker.log.log_manager import LogManager, PartitionBusyError
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.commands import AllocateProducerIds, ProducerIds, decode_answer, encode_command
from mpbroker.metadata.features import TRANSACTION_VERSION
from mpbroker.metadata.metadata_cache import MetadataCache, Topic
from mpbroker.metadata.topic_names import TRANSACTIONS_TOPIC
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.protocol.repeated_partitions import merge_repeated
from mpbroker.shm.clock import Clock
from mpbroker.shm.process_context import ProcessContext

IDS_SINCE: Final = 13  # the version of Produce that names topics by id
#: Requests that the logic of transactions sees first.
TRANSACTION_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
#: Of those, the ones that append to `__transaction_state` with their cell.
RECORDED_IN_STATE: Final = frozenset({ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN})


def _other_brokers(ctx: ProcessContext, metadata: MetadataCache) -> OtherBrokers:
    node_id, core = ctx.config.node_id, ctx.core
    requests = BrokerRequests(f"broker-{node_id}-coordinator", lambda: core.ring_handler(core.coordinator))
    return OtherBrokers(ClusterCache(core), metadata, ctx.config.end_points.inter_broker, node_id, requests)


class TransactionShell:
    """`take(effects)` carries out what the logic says; `offsets_partition(group)` and `offsets_ended(partition,
    producer id, committed)` are those of groups."""

    def __init__(
        self,
        ctx: ProcessContext,
        port: HandlerPort,
        log_manager: LogManager,
        metadata: MetadataCache,
        clock: Clock,
        appends: OffsetsLog,
        take: Callable[[list[Effect]], None],
        offsets_partition: Callable[[str], int],
        offsets_ended: Callable[[int, int, bool], None],
    ) -> None:
        self._ctx = ctx
        self._port = port
        self._logs = log_manager
        self._metadata = metadata
        self._clock = clock
        self._take = take
        self._offsets_partition = offsets_partition
        self._settings = TransactionSettings.of(ctx.config, ctx.core.entry_count // ctx.core.processor_count)
        self._crash_point = ctx.core.crash_point
        self._appends = appends
        self._is_in_cluster = ctx.config.cluster_store is not None
        others = _other_brokers(ctx, metadata) if self._is_in_cluster else None
        self._loader = OffsetsLoader(
            log_manager, ctx.log, lambda: self.coordinator, self._loaded, TRANSACTIONS_TOPIC, clock=clock
        )
        self._unknown_topics = UnknownTopics(metadata, clock, self._is_in_cluster)
        self._markers = MarkerSender(
            port,
            log_manager,
            metadata,
            appends,
            clock,
            offsets_ended,
            self._crash_point,
            self._coordinates,
            self._unknown_topics.are_gone,
            others,
        )
        self._verifier = LocalVerifier(port, log_manager, metadata)
        self._elsewhere = (
            None
            if others is None
            else ElsewhereVerifier(log_manager, metadata, others, self._state_partition, self._asked)
        )
        self._others = others
        self._opened: dict[int, int] = {}  # partition → leader epoch
        self._commands = 0  # for producer ids, on their way
        self.topic: Topic | None = None
        self._start(self._settings.partitions)

    def _start(self, partitions: int) -> None:
        """Which partition holds an id depends on how many there are: of the topic that is there."""
        settings = msgspec.structs.replace(self._settings, partitions=partitions)
        levels = self._metadata.features
        self.coordinator = TransactionCoordinator(
            settings,
            self._has_partition,
            self._offsets_partition,
            lambda: levels().of(TRANSACTION_VERSION),
            self._is_in_cluster,
        )
        self._counting = TransactionCounting(self._ctx.process_row)

    def _has_partition(self, topic: str, partition: int) -> bool:
        found = self._metadata.topic(topic)
        return found is not None and 0 <= partition < len(found.partitions)

    # metadata

    def follow_metadata(self) -> None:
        """Partitions of `__transaction_state` are opened; a topic that is another one by now is left."""
        topic = self._metadata.topic(TRANSACTIONS_TOPIC)
        if self.topic is not None and (topic is None or topic.id != self.topic.id):
            self._close_all()
            self.topic = None
        if self.topic is None and topic is not None:
            self._start(len(topic.partitions))
        self.topic = topic
        for partition, ordinal in enumerate(topic.partitions if topic is not None else ()):
            leader_epoch = led_since(self._logs.state(ordinal), self._is_in_cluster)
            opened = self._opened.get(partition)
            if opened is not None and leader_epoch is None:
                self._close(partition, self._opened.pop(partition))
            elif leader_epoch is not None and (opened is None or opened < leader_epoch):
                self._opened[partition] = leader_epoch
                self._unknown_topics.took_over(partition)
                self._take(self.coordinator.open(partition, leader_epoch, self._now()))
                self._loader.begin(partition, ordinal)
        self._tell_ready()

    def _close_all(self) -> None:
        opened, self._opened = self._opened, {}
        for partition, leader_epoch in opened.items():
            self._close(partition, leader_epoch)

    def _close(self, partition: int, leader_epoch: int) -> None:
        """It is not in `_opened` any more."""
        self._loader.forget(partition)
        self._take(self.coordinator.close(partition, leader_epoch, self._now()))

    def _coordinates(self, partition: int, leader_epoch: int) -> bool:
        return self._opened.get(partition) == leader_epoch

    def _state_partition(self, transactional_id: str) -> int:
        return self.coordinator.partition_of(transactional_id)

    def _loaded(self, partition: int) -> None:
        """What was read counts when it is replicated: nobody must hear of a decision that the next leader lacks."""
        if not self._is_in_cluster:
            self._serve(partition)
            return
        assert self.topic is not None
        ordinal, leader_epoch = self.topic.partitions[partition], self._opened[partition]
        state = self._logs.state(ordinal)
        end_offset = 0 if state is None else state.leo
        then = partial(self._replicated, partition, leader_epoch)
        self._appends.await_end(ordinal, end_offset, leader_epoch, self._clock.monotonic_ms(), then)

    def _replicated(self, partition: int, leader_epoch: int, code: int) -> None:
        if not self._coordinates(partition, leader_epoch):
            return
        if code == ErrorCode.REQUEST_TIMED_OUT:
            self._loaded(partition)
        else:
            self._serve(partition)

    def _serve(self, partition: int) -> None:
        self._crash_point("coordinator.transactions_loaded")
        self._take(self.coordinator.loaded(partition, self._now()))
        self._tell_ready()

    def _tell_ready(self) -> None:
        """Until everything that was ongoing is verified once more, partitions must not refuse what they do not know."""
        core = self._ctx.core
        if core.transactions_ready:
            return
        if self._is_in_cluster or self.coordinator.is_ready(len(self._opened)):  # leaders ask, in a cluster
            core.transactions_ready = 1

    # what the loop calls

    def handle(self, request: GroupRequest) -> None:
        """One request of TRANSACTION_APIS."""
        if isinstance(request.message, ProduceRequest):
            self._name_topics(request.message, request.version)
        self._take(self.coordinator.handle(request, self._now()))

    def _name_topics(self, message: ProduceRequest, version: int) -> None:
        """A request by ids gets the names too, and means what it means to request handlers."""
        if version >= IDS_SINCE:
            for asked in message.topic_data:
                topic = self._metadata.topic_by_id(asked.topic_id)
                asked.name = topic.name if topic is not None else ""
        merge_repeated(message)

    def refuse_written(self, asked_by: GroupRequest, code: int) -> None:
        """The code goes into the cells of a Produce request that are empty yet; 0: nothing does. A partition whose lock
        is not to be had stays without: then handlers ask once more."""
        request, message, cell = asked_by.token, asked_by.message, 0
        if code == ErrorCode.NONE:
            return
        assert isinstance(request, Request) and isinstance(message, ProduceRequest)
        for asked in message.topic_data:
            topic = self._metadata.topic(asked.name)
            for data in asked.partition_data:
                if self._has_partition(asked.name, data.index) and topic is not None:
                    with suppress(PartitionBusyError):
                        self._logs.refuse(topic, data.index, request, cell, code)
                cell += 1

    def deliver(self) -> None:
        """Answers of the controller, what waited for locks, deadlines, a slice of what is to be loaded."""
        now = self._now()
        if self._commands:
            self._take_commands(now)
        if self._others is not None:
            self._others.deliver()
        self._verifier.retry(now.ms)
        self._markers.retry(now.ms)
        self._loader.step()
        self._take(self.coordinator.pass_time(now))
        self._tell_ready()

    def next_due_ms(self, now_ms: int) -> int | None:
        """The next deadline; now, while there is something to load."""
        all_due = (
            self._loader.next_due_ms(now_ms),
            self.coordinator.deadline_ms(),
            self._verifier.next_due_ms(now_ms),
            self._markers.next_due_ms(),
        )
        due = [one for one in all_due if one is not None]
        return min(due) if due else None

    def rest(self) -> None:
        """Counters are published."""
        self._counting.publish(self.coordinator.counts)

    def use_config(self, config: BrokerConfig) -> None:
        """Nothing of it changes while the broker runs."""

    # effects

    def carry_out(self, effect: Verify | AskCoordinator | SendMarkers | TakeProducerIds) -> None:
        """What only transactions ask for."""
        if isinstance(effect, TakeProducerIds):
            self._send_command()
        elif isinstance(effect, AskCoordinator):
            assert self._elsewhere is not None
            self._elsewhere.ask(effect)
        elif isinstance(effect, Verify):
            self._verifier.verify(effect, self._clock.monotonic_ms(), partial(self._verified, effect))
        else:
            self._crash_point("coordinator.prepared")
            self._markers.send(effect, partial(self._marked, effect))

    def _verified(self, effect: Verify, code: int) -> None:
        self._take(self.coordinator.verified(effect.shard, effect.number, code, self._now()))

    def _asked(self, number: int, code: int) -> None:
        self._take(self.coordinator.asked(number, code, self._now()))

    def _marked(self, effect: SendMarkers, codes: Codes) -> None:
        self._take(self.coordinator.marked(effect.shard, effect.number, codes, self._now()))

    def _send_command(self) -> None:
        if self._port.send(encode_command(AllocateProducerIds()), 0) < 0:
            self._take(self.coordinator.add_producer_ids(-1, 0, self._now()))
        else:
            self._commands += 1

    def _take_commands(self, now: Now) -> None:
        for _, payload in self._port.answers():
            self._commands -= 1
            answer = decode_answer(payload)
            if isinstance(answer, ProducerIds) and not answer.error_code:
                self._take(self.coordinator.add_producer_ids(answer.first_id, answer.count, now))
            else:
                self._take(self.coordinator.add_producer_ids(-1, 0, now))

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())
