"""The coordinator's logic: requests, acknowledgements and time go in, effects come out. In the coordinator process.

The process around it (the shell) decodes requests, appends, answers and keeps time; see `effects.py`. For every
partition of `__consumer_offsets` that this broker leads: `open`, then `load` with its records, then `loaded`. Requests
for a partition that is being loaded wait for it (`loading_queue`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from mpbroker.coordinator.any_group import MAX_NAME_BYTES, NO_TOPICS, ModernGroup, Topics
from mpbroker.coordinator.effects import Effect, GroupRequest, Now
from mpbroker.coordinator.environment import Counts, Environment, HasPartition
from mpbroker.coordinator.group_loading import build_groups
from mpbroker.coordinator.group_settings import GroupSettings, OwnSettings
from mpbroker.coordinator.group_table import GroupTable
from mpbroker.coordinator.heartbeat import handle as heartbeat
from mpbroker.coordinator.join_group import handle as join_group
from mpbroker.coordinator.leave_group import handle as leave_group
from mpbroker.coordinator.loaded_offsets import LoadedOffsets
from mpbroker.coordinator.loading_queue import LoadingQueue
from mpbroker.coordinator.many_groups import ANSWERS, groups_of
from mpbroker.coordinator.offset_commit import handle as commit_offsets
from mpbroker.coordinator.offset_removal import handle as delete_offsets
from mpbroker.coordinator.offset_removal import remove_topic, watch_age
from mpbroker.coordinator.offsets_loader import RecordPairs
from mpbroker.coordinator.responses import failure, loading
from mpbroker.coordinator.shard import Shard
from mpbroker.coordinator.sync_group import handle as sync_group
from mpbroker.coordinator.txn_offset_commit import end as end_transaction
from mpbroker.coordinator.txn_offset_commit import handle as commit_transactional
from mpbroker.errors import ErrorCode
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.group_apis import BY_KEY
from mpbroker.protocol.types import Struct

NAMES_PROTOCOL = 5  # the version from which SyncGroup says type and name of its protocol

#: Requests about one group, by API key.
_HANDLERS: Final[dict[int, Callable[[Shard, GroupRequest, Any, Now], None]]] = {
    ApiKey.OFFSET_COMMIT: commit_offsets,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.OFFSET_DELETE: delete_offsets,
    ApiKey.TXN_OFFSET_COMMIT: commit_transactional,
}
#: Those that are answered alike, whatever the group's protocol.
_OF_BOTH: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.TXN_OFFSET_COMMIT})


class GroupCoordinator:
    """All groups of this broker. Every method that returns effects returns them in the order to carry them out."""

    def __init__(
        self,
        settings: GroupSettings,
        table: GroupTable,
        has_partition: HasPartition,
        boot_secret: bytes,
        topics: Topics = NO_TOPICS,
    ) -> None:
        """`has_partition(topic, partition)`: whether it exists now. `boot_secret`: 16 to 64 bytes of this boot, the
        same for every process that takes over within it. `topics`: what groups of the new protocol need to know of
        them."""
        self._env = Environment(settings, table, has_partition, boot_secret, topics)
        self._shards: dict[int, Shard] = {}
        self._loading: dict[int, LoadedOffsets] = {}
        self._queue = LoadingQueue(self._env, self._is_loading, self._answer, self._refuse_loading)
        self._loads = 0

    @property
    def counts(self) -> Counts:
        """Amounts and events, for the shell's counters."""
        return self._env.counts

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds a group."""
        return partition_of(group_id, self._env.settings.partitions)

    def use_own_settings(self, own: Mapping[str, OwnSettings]) -> None:
        """Groups that have settings of their own have these from now on; each takes them at its next request."""
        self._env.own_settings = own

    # partitions

    def open(self, partition: int, leader_epoch: int, now: Now) -> list[Effect]:
        """This broker leads the partition from this epoch on. A present or older epoch changes nothing."""
        shard = self._shards.get(partition)
        if shard is not None and shard.leader_epoch >= leader_epoch:
            return []
        if shard is not None:
            self._close(shard, now)
        self._shards[partition] = Shard(partition, leader_epoch, self._env)
        self._loading[partition] = LoadedOffsets()
        return self._env.take_effects()

    def load(self, partition: int, records: RecordPairs) -> None:
        """Records of a partition that was opened, in the order of the log, in as many calls as the shell likes."""
        self._loading[partition].add(records)

    def load_transactional(self, partition: int, producer_id: int, offset: int, records: RecordPairs) -> None:
        """Likewise, of a batch at `offset` that counts when its transaction is committed."""
        self._loading[partition].add_transactional(producer_id, offset, records)

    def load_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """Likewise, the end of a transaction."""
        self._loading[partition].end(producer_id, committed)

    def loaded(self, partition: int, now: Now) -> list[Effect]:
        """All its records were given: its groups are served from now on."""
        shard, settings = self._shards[partition], self._env.settings
        build_groups(shard, self._loading.pop(partition), now)
        shard.is_loading = False
        for topic in shard.deleted_topics:
            remove_topic(shard, topic, now)
        shard.deleted_topics.clear()
        for producer_id, committed in shard.ended:
            end_transaction(shard, producer_id, committed)
        shard.ended.clear()
        spread_ms = settings.retention_check_ms * (partition + 1) // settings.partitions
        watch_age(shard, now.ms + spread_ms)
        self._loads += 1
        self._env.timers.at(now.ms + settings.max_session_timeout_ms, self._forget_strangers, self._loads)
        self._queue.serve(now)
        return self._env.take_effects()

    def close(self, partition: int, leader_epoch: int, now: Now) -> list[Effect]:
        """This broker does not lead the partition any more, or must not append: those who wait get error 16."""
        shard = self._shards.get(partition)
        if shard is not None and shard.leader_epoch <= leader_epoch:
            self._close(shard, now)
            self._queue.serve(now)
        return self._env.take_effects()

    def _close(self, shard: Shard, now: Now) -> None:
        del self._shards[shard.partition]
        self._loading.pop(shard.partition, None)
        shard.close(now)

    def _forget_strangers(self, loads: int, now: Now) -> None:
        """Members of before a restart that did not come back."""
        if loads == self._loads:
            self._env.table.drop_unconfirmed_members()

    # requests

    def handle(self, request: GroupRequest, now: Now) -> list[Effect]:
        """One request of an API in `protocol.group_apis`, in a version that stands there."""
        self._handle(request, now)
        return self._env.take_effects()

    def _handle(self, request: GroupRequest, now: Now) -> None:
        code = _request_error(request)
        refused = self._refused_heartbeat(request)
        if refused is not None:
            self._env.answer(request.token, refused)
        elif code != ErrorCode.NONE:
            self._env.answer(request.token, failure(request, code))
        else:
            self._queue.answer_or_wait(request, now)

    def _refused_heartbeat(self, request: GroupRequest) -> Struct | None:
        """The answer to a heartbeat of the new protocol that is wrong whatever the group."""
        if request.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return None
        from mpbroker.coordinator.consumer_groups.consumer_heartbeat import refused, request_refusal

        message: Any = request.message
        refusal = request_refusal(message, request.version, self._env.settings)
        return refused(refusal) if refusal is not None else None

    def _answer(self, request: GroupRequest, now: Now) -> None:
        if request.api_key in ANSWERS:
            ANSWERS[request.api_key](self._env, self._shards, request, request.message, now)
            return
        shard = self._shards.get(self.partition_of(groups_of(request)[0]))
        if shard is None:
            self._env.answer(request.token, failure(request, ErrorCode.NOT_COORDINATOR))
        elif request.api_key in _OF_BOTH or not self._is_modern(shard, request):
            _HANDLERS[request.api_key](shard, request, request.message, now)
        else:
            from mpbroker.coordinator.consumer_groups.requests import handle

            handle(shard, request, request.message, now, partial(self._answer, request))

    @staticmethod
    def _is_modern(shard: Shard, request: GroupRequest) -> bool:
        message: Any = request.message
        key = request.api_key
        return key == ApiKey.CONSUMER_GROUP_HEARTBEAT or isinstance(shard.any(message.group_id), ModernGroup)

    # requests for a partition that is being loaded

    def _is_loading(self, request: GroupRequest) -> bool:
        if request.api_key == ApiKey.LIST_GROUPS:
            return any(shard.is_loading for shard in self._shards.values())
        shards = (self._shards.get(self.partition_of(group_id)) for group_id in groups_of(request))
        return any(shard is not None and shard.is_loading for shard in shards)

    def _refuse_loading(self, request: GroupRequest, now: Now, has_waited: bool) -> None:
        self._env.counts.loading_refused += 1
        if has_waited and request.api_key in ANSWERS:
            self._answer(request, now)  # the groups that can be answered are
        else:
            self._env.answer(request.token, loading(request))

    # what happens otherwise

    def appended(self, partition: int, number: int, code: int, now: Now) -> list[Effect]:
        """An append is acknowledged (code 0), or will never be."""
        shard = self._shards.get(partition)
        if shard is not None:
            shard.appended(number, code, now)
        return self._env.take_effects()

    def transaction_ended(self, partition: int, producer_id: int, committed: bool) -> None:
        """The marker of a transaction was written to a partition: offsets in it count, or are gone."""
        shard = self._shards.get(partition)
        if shard is not None and shard.is_loading:
            shard.ended.append((producer_id, committed))
        elif shard is not None:
            end_transaction(shard, producer_id, committed)

    def topics(self, partition: int) -> set[str]:
        """Topics in which the groups of a partition have offsets."""
        shard = self._shards.get(partition)
        return {topic for group in shard.groups.values() for topic in group.offsets} if shard is not None else set()

    def topic_deleted(self, topic: str, now: Now) -> list[Effect]:
        """A topic is gone: so are the offsets in it."""
        for shard in self._shards.values():
            if shard.is_loading:
                shard.deleted_topics.append(topic)
            else:
                remove_topic(shard, topic, now)
        return self._env.take_effects()

    def topics_changed(self, names: frozenset[str]) -> None:
        """Topics came, went, or got more partitions: groups of the new protocol look at their next heartbeat."""
        for shard in self._shards.values():
            for group in shard.groups.values():
                if isinstance(group, ModernGroup):
                    group.topics_changed(names)

    def deadline_ms(self) -> int | None:
        """When `pass_time` has something to do, in monotonic milliseconds; None: never."""
        return self._env.timers.deadline_ms()

    def pass_time(self, now: Now) -> list[Effect]:
        """Do what is due."""
        self._env.timers.run(now)
        return self._env.take_effects()


def _request_error(request: GroupRequest) -> int:
    """What is wrong with a request whatever the group."""
    message: Any = request.message
    must_name = request.api_key == ApiKey.SYNC_GROUP and request.version >= NAMES_PROTOCOL
    if must_name and None in (message.protocol_type, message.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.api_key in _HANDLERS:
        is_missing = not message.group_id and not BY_KEY[request.api_key].takes_empty_id
        if is_missing or len(message.group_id.encode()) > MAX_NAME_BYTES:
            return ErrorCode.INVALID_GROUP_ID
    if request.api_key == ApiKey.JOIN_GROUP:
        names = [message.group_instance_id or "", message.protocol_type, *(row.name for row in message.protocols)]
        if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE
