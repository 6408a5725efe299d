"""LeaderAndIsr, StopReplica and UpdateMetadata carried out: fenced by `agent_decisions`, done to rows and logs.
Controller
process of a broker of a cluster only, one request at a time.

Doing one again changes nothing: roles that are set are found set (Log.become), logs that are made are found made. So a
request that met a partition whose lock is not to be had is answered REQUEST_TIMED_OUT as a whole: the controller sends
it again, whereas an error of a single partition is the last word on it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from mpbroker.config.topic_config import TopicSettings
from mpbroker.controller.agent_decisions import (
    DURING_DELETE,
    Epochs,
    Hosted,
    Role,
    Wanted,
    fence,
    is_done,
    judge_leader_and_isr,
    judge_stop_replica,
)
from mpbroker.controller.cluster_topics import ClusterTopics
from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.role_trace import RoleTrace
from mpbroker.errors import ErrorCode
from mpbroker.log.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX
from mpbroker.metadata.topic_names import is_internal_topic
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from mpbroker.shm.cluster_table import NOBODY, Assignment, Broker, Endpoint, fits
from mpbroker.shm.events import Events
from mpbroker.shm.layout import MAX_ASSIGNED, PARTITION_ONLINE, ReplicaRole

FULL: Final = 2
"""LeaderAndIsr's and UpdateMetadata's type: it names all there is."""
ALIVE_EVERY: Final = 100
"""Partitions between two signs of life: making logs takes its time."""


class ReplicaLog(Protocol):
    """What is needed of `_native.Log`."""

    def become(
        self,
        ordinal: int,
        role: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        self_id: int,
        min_isr: int,
        now_ms: int,
        leader: int,
    ) -> int:
        """Leader or follower from here on; a Kafka error code."""
        ...

    def stop(self, ordinal: int, /) -> int:
        """Neither; a Kafka error code."""
        ...

    def replica_state(self, ordinal: int, /) -> "object":
        """Role, epochs and ends of a row."""
        ...

    def state(self, ordinal: int, /) -> "object":
        """The row."""
        ...

    def log_dir_online(self, log_dir: int, /) -> bool:
        """Whether a log directory can be used."""
        ...


class ControlRequests:
    """`known()`: the epochs; `seen(controller, epoch)`: a controller spoke; `brokers(list)`: they live;
    `roles_changed()`:
    fetchers and waiters are to look; `missing(topic_id)`: a topic that the watch has not brought yet, looked up;
    `roles`: is told of every role that changes; `crash_point(name)`: where tests kill the process."""

    def __init__(
        self,
        *,
        self_id: int,
        topics: ClusterTopics,
        log: object,
        known: Callable[[], Epochs],
        seen: Callable[[int, int], object],
        brokers: Callable[[list[Broker]], object],
        missing: Callable[[bytes], TopicState | None],
        settings_of: Callable[[dict[str, str]], TopicSettings],
        roles_changed: Callable[[], object],
        alive: Callable[[], object],
        now_ms: Callable[[], int],
        events: Events,
        roles: RoleTrace,
        crash_point: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._self_id = self_id
        self._topics = topics
        self._log: ReplicaLog = log  # type: ignore[assignment]
        self._known = known
        self._seen = seen
        self._brokers = brokers
        self._missing = missing
        self._settings_of = settings_of
        self._roles_changed = roles_changed
        self._alive = alive
        self._now_ms = now_ms
        self._events = events
        self._roles = roles
        self._crash_point = crash_point
        self._touched: set[int] = set()

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> tuple[int, list[int]]:
        """(code of the whole, code of each partition in the request's order)."""
        partitions = list(_topics_of(request))
        code = self._fenced(request.controller_id, request.controller_epoch, request.broker_epoch)
        if code:
            return code, [code] * len(partitions)
        codes, named, coordinated, strays = [], set(), {}, []
        for number, (topic_state, state) in enumerate(partitions):
            if number % ALIVE_EVERY == 0:
                self._alive()
            topic = self._topic(topic_state.topic_id, topic_state.topic_name)
            if topic is None and topic_state.topic_name in self._topics.context.by_name:
                codes.append(int(ErrorCode.INCONSISTENT_TOPIC_ID))
                continue
            step = partial(self._become, topic, topic_state.topic_id, state, request.controller_epoch)
            codes.append(_unless_busy(step))
            if topic is not None and state.partition_index < len(topic.ordinals):
                named.add(topic.ordinals[state.partition_index])
                if is_internal_topic(topic.name):
                    coordinated[topic.id] = topic
        if request.type == FULL:
            strays = self._set_strays_aside(named)
        self._topics.announce_made()
        for topic in coordinated.values():
            self._topics.announce(topic)
        self._roles_changed()
        self._events.info(
            "leader_and_isr", controller=request.controller_id, epoch=request.controller_epoch, partitions=len(codes)
        )
        return _whole([*codes, *strays]), codes

    def stop_replica(self, request: StopReplicaRequest) -> tuple[int, list[int]]:
        """The same of StopReplica."""
        stops = list(_stops_of(request))
        code = self._fenced(request.controller_id, request.controller_epoch, request.broker_epoch)
        if code:
            return code, [code] * len(stops)
        codes = [_unless_busy(partial(self._stop, name, state, request.controller_epoch)) for name, state in stops]
        self._roles_changed()
        self._events.info(
            "stop_replica", controller=request.controller_id, epoch=request.controller_epoch, partitions=len(codes)
        )
        return _whole(codes), codes

    def update_metadata(self, request: UpdateMetadataRequest) -> int:
        """The code."""
        code = self._fenced(request.controller_id, request.controller_epoch, request.broker_epoch)
        if code:
            return code
        self._brokers(_brokers_of(request, self._events))
        self._crash_point("agent.brokers_told")
        for topic_state, state in _metadata_of(request):
            self._show(topic_state, state)
        self._roles_changed()
        return ErrorCode.NONE

    def _fenced(self, controller: int, controller_epoch: int, broker_epoch: int) -> int:
        known = self._known()
        code = fence(known, controller_epoch, broker_epoch)
        if code:
            self._events.warning(
                "control_request_fenced",
                controller=controller,
                epoch=controller_epoch,
                latest=known.controller,
                broker_epoch=broker_epoch,
                error=int(code),
            )
        else:
            self._seen(controller, controller_epoch)
        return int(code)

    def _topic(self, topic_id: bytes, name: str) -> TopicState | None:
        context = self._topics.context
        if any(topic_id):
            return context.by_id.get(topic_id) or self._missing(topic_id)
        return context.by_name.get(name)

    def _hosted(self, topic: TopicState, partition: int) -> Hosted | None:
        ordinal = topic.ordinals[partition]
        if not self._topics.has_log(ordinal):
            return None
        row = self._log.state(ordinal)
        online = row.flags & PARTITION_ONLINE and self._log.log_dir_online(row.log_dir)  # type: ignore[attr-defined]
        if not online:  # nobody takes its lock any more
            return Hosted(topic.id, -1, -1, has_role=False, is_leader=False, online=False, untouched=False)
        replica = self._log.replica_state(ordinal)
        return Hosted(
            topic_id=topic.id,
            leader_epoch=replica.leader_epoch,  # type: ignore[attr-defined]
            partition_epoch=replica.partition_epoch,  # type: ignore[attr-defined]
            has_role=replica.role != ReplicaRole.NONE,  # type: ignore[attr-defined]
            is_leader=replica.role == ReplicaRole.LEADER,  # type: ignore[attr-defined]
            online=True,
            untouched=ordinal not in self._touched,
        )

    def _become(
        self, topic: TopicState | None, topic_id: bytes, state: LeaderAndIsrPartitionState, controller_epoch: int
    ) -> int:
        partition = state.partition_index
        if topic is None or not 0 <= partition < len(topic.ordinals):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ordinal = topic.ordinals[partition]
        wanted = Wanted(topic_id, state.leader, state.leader_epoch, state.partition_epoch, state.replicas, state.is_new)
        hosted = self._hosted(topic, partition)
        may_create = self._topics.can_create and (state.is_new or not self._topics.may_be_offline)
        verdict = judge_leader_and_isr(self._self_id, hosted, wanted, may_create)
        if verdict.code or len(state.replicas) > MAX_ASSIGNED:
            return int(verdict.code or ErrorCode.INVALID_REPLICATION_FACTOR)
        if verdict.create:
            error = self._topics.create(topic, partition)
            if error:
                return error
        self._touched.add(ordinal)
        if hosted is not None and is_done(self._self_id, hosted, wanted):
            return ErrorCode.NONE
        settings = self._settings_of(topic.configs)
        role = ReplicaRole.LEADER if verdict.role is Role.LEADER else ReplicaRole.FOLLOWER
        before = self._roles.role_of(ordinal)
        error = self._log.become(
            ordinal,
            int(role),
            state.leader_epoch,
            state.partition_epoch,
            tuple(state.replicas),
            tuple(broker for broker in state.isr if broker in state.replicas),
            self._self_id,
            settings.min_insync_replicas,
            self._now_ms(),
            state.leader,
        )
        self._crash_point("agent.role_set")
        if error == 0:
            self._roles.changed(topic.name, partition, ordinal, before, controller_epoch)
        return error

    def _set_strays_aside(self, named: set[int]) -> list[int]:
        """Replicas that the controller did not name although it named all of ours: a code for each."""
        codes = []
        for topic in list(self._topics.context.by_id.values()):
            for partition, ordinal in enumerate(topic.ordinals):
                if ordinal in named or not self._topics.has_log(ordinal):
                    continue
                codes.append(self._log.stop(ordinal))
                self._crash_point("agent.stray_stopped")
                if codes[-1] == ErrorCode.REQUEST_TIMED_OUT or self._self_id in topic.replicas[partition]:
                    continue  # busy; or made after the controller looked, or it is behind: its next request tells
                self._events.warning("stray_set_aside", directory=f"{topic.name}-{partition}", renamed=STRAY_SUFFIX)
                self._topics.drop(topic, partition, STRAY_SUFFIX)
                self._touched.discard(ordinal)
        return codes

    def set_moved_aside(self, topic: TopicState) -> None:
        """The store says who holds a topic's partitions: replicas here that are somebody else's now, and that no
        controller gives a role. The one that wanted them deleted may be gone, and its successor does not know."""
        for partition, ordinal in enumerate(topic.ordinals):
            if self._self_id in topic.replicas[partition] or not self._topics.has_log(ordinal):
                continue
            if self._log.state(ordinal).role == ReplicaRole.NONE:  # type: ignore[attr-defined]
                self._events.warning("stray_set_aside", directory=f"{topic.name}-{partition}", renamed=STRAY_SUFFIX)
                self._topics.drop(topic, partition, STRAY_SUFFIX)
                self._touched.discard(ordinal)

    def _stop(self, name: str, state: StopReplicaPartitionState, controller_epoch: int) -> int:
        topic, partition = self._topics.context.by_name.get(name), state.partition_index
        if topic is None or not 0 <= partition < len(topic.ordinals):
            return ErrorCode.NONE
        hosted = self._hosted(topic, partition)
        code = judge_stop_replica(hosted, state.leader_epoch)
        if code or hosted is None:
            return int(code)
        ordinal = topic.ordinals[partition]
        before = self._roles.role_of(ordinal)
        error = self._log.stop(ordinal)
        self._crash_point("agent.role_ended")
        if error == 0:
            self._roles.changed(name, partition, ordinal, before, controller_epoch)
        if error == 0 and is_internal_topic(name):
            self._topics.announce(topic)  # its coordinator is one no more
        if error == 0 and state.delete_partition:
            suffix = DELETE_SUFFIX if self._self_id not in topic.replicas[partition] else STRAY_SUFFIX
            self._topics.drop(topic, partition, suffix)
            self._touched.discard(ordinal)
        return error

    def _show(self, topic_state: UpdateMetadataTopicState, state: UpdateMetadataPartitionState) -> None:
        if state.leader == DURING_DELETE:
            return  # the store's watch removes the topic
        topic, partition = self._topic(topic_state.topic_id, topic_state.topic_name), state.partition_index
        if topic is None or not 0 <= partition < len(topic.ordinals) or len(state.replicas) > MAX_ASSIGNED:
            return
        self._topics.assign(
            topic,
            partition,
            Assignment(
                topic_id=topic.id,
                partition=partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.zk_version,
                controller_epoch=state.controller_epoch,
                replicas=list(state.replicas),
                isr=[broker for broker in state.isr if broker in state.replicas],
                offline=[broker for broker in state.offline_replicas if broker in state.replicas],
            ),
        )


def _unless_busy(step: Callable[[], int]) -> int:
    """The step's code; TimeoutError is a row whose lock is not to be had."""
    try:
        return step()
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT


def _whole(codes: list[int]) -> int:
    return ErrorCode.REQUEST_TIMED_OUT if ErrorCode.REQUEST_TIMED_OUT in codes else ErrorCode.NONE


def _topics_of(request: LeaderAndIsrRequest) -> Iterator[tuple[LeaderAndIsrTopicState, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield LeaderAndIsrTopicState(topic_name=state.topic_name), state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic, state


def _stops_of(request: StopReplicaRequest) -> Iterator[tuple[str, StopReplicaPartitionState]]:
    delete = request.delete_partitions
    for one in request.ungrouped_partitions:
        yield one.topic_name, StopReplicaPartitionState(partition_index=one.partition_index, delete_partition=delete)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, StopReplicaPartitionState(partition_index=index, delete_partition=delete)
    for topic_state in request.topic_states:
        for state in topic_state.partition_states:
            yield topic_state.topic_name, state


def _metadata_of(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[UpdateMetadataTopicState, UpdateMetadataPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield UpdateMetadataTopicState(topic_name=state.topic_name), state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic, state


def _brokers_of(request: UpdateMetadataRequest, events: Events) -> list[Broker]:
    found = []
    for live in request.live_brokers:
        endpoints = [Endpoint(one.listener, one.security_protocol, one.host, one.port) for one in live.endpoints]
        broker = Broker(live.id, NOBODY, endpoints, live.rack)
        if fits(broker):
            found.append(broker)
        else:
            events.warning("broker_not_shown", broker=live.id, problem="its endpoints are too long")
    return found
