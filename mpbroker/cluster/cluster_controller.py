"""The elected controller for one term: what happens goes in, what is to be done comes out. Pure: the process around it
owns the store, the watch, the connections to brokers and the clock.

    event → image changes → messages wanted of each broker, partitions to look at → next transaction → effects

The store comes first, messages after: brokers are told what a transaction committed, never what is about to be. A
guard that fails ends the term.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from mpbroker.cluster.balance import Balance
from mpbroker.cluster.cluster_config import TOLD_LAST_MS, ClusterConfig
from mpbroker.cluster.cluster_image import Change, ClusterImage, LiveBroker
from mpbroker.cluster.control_requests import ControlRequest, RequestBuilder
from mpbroker.cluster.controller_metrics import ControllerMetrics
from mpbroker.cluster.elections import BrokenRule, Elections
from mpbroker.cluster.events import (
    Answered,
    ControllerEvent,
    Effect,
    Log,
    ReadDone,
    Reply,
    Request,
    Resign,
    StoreBatch,
    Tick,
    TxnDone,
)
from mpbroker.cluster.jobs import BROKERS, CLIENTS, Job, Jobs
from mpbroker.cluster.leader_election import Surroundings
from mpbroker.cluster.offline_replicas import OfflineReplicas
from mpbroker.cluster.partition_jobs import PartitionJobs
from mpbroker.cluster.publisher import Publisher
from mpbroker.cluster.reassignment_jobs import ReassignmentJobs
from mpbroker.cluster.refusals import not_controller
from mpbroker.cluster.state_change_log import StateChangeLog
from mpbroker.cluster.timer import Timer
from mpbroker.cluster.topic_jobs import TopicJobs
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
)
from mpbroker.metadata.meta_store import Version
from mpbroker.metadata.topic_validation import Defaults
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest
from mpbroker.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from mpbroker.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


class Outgoing(NamedTuple):
    """A request for a broker. Its answer, or None, is to come back as Answered with the same epoch."""

    broker: int
    broker_epoch: int
    request: ControlRequest


class ClusterController:
    """One term. `image`: loaded by a scan after the election. `guard`: the controller epoch's key as the election left
    it. `max_operations` of a transaction; `now_ms` of every call is wall clock. `shutting_down`: brokers that asked to
    stop and are not gone yet."""

    def __init__(
        self,
        *,
        node_id: int,
        epoch: int,
        config: ClusterConfig,
        image: ClusterImage,
        guard: Version,
        max_operations: int,
        new_id: Callable[[], bytes],
        random: Random,
    ) -> None:
        self.image = image
        self.epoch = epoch
        self.metrics = ControllerMetrics()
        self._guard = guard
        self.shutting_down: set[int] = set()
        self._requests: dict[int, Any] = {}
        self._resigned = False
        self._effects: list[Effect] = []
        self._now_ms = 0
        self._looking_since_ms: int | None = None
        self._elections_seen = 0
        self._offline = OfflineReplicas()
        self._publisher = Publisher(image, self.shutting_down, self._offline.by_partition)
        self._builder = RequestBuilder(node_id, epoch, config.inter_broker_listener_name)
        self._elections = Elections(image, self._surroundings, config.unclean_leader_election_enable, max_operations)
        self._jobs = Jobs(
            image,
            guard,
            f"{node_id}/{epoch}",
            self.metrics,
            self._elections.next_step,
            self._elections.finished,
            self._changed,
        )
        self._partition_jobs = PartitionJobs(
            image=image,
            elections=self._elections,
            around=self._surroundings,
            max_operations=max_operations,
            shutting_down=self.shutting_down,
            stop_follower=lambda broker, partition: self._publisher.stop_follower(broker, partition, self._now_ms),
        )
        self._topic_jobs = TopicJobs(
            image=image,
            around=self._surroundings,
            max_operations=max_operations,
            defaults=Defaults(config.num_partitions, config.default_replication_factor),
            deletion_allowed=config.delete_topic_enable,
            new_id=new_id,
            random=random,
            now_ms=lambda: self._now_ms,
        )
        self._reassignments = ReassignmentJobs(image=image, around=self._surroundings, max_operations=max_operations)
        self._balance = Balance(image, config)
        self._state_changes = StateChangeLog(epoch, config.log_partitions)

    def start(self, now_ms: int) -> list[Effect]:
        """The term begins: everybody is told everything, every partition is looked at."""
        self._now_ms = now_ms
        self._publisher.start(now_ms)
        self._balance.start(now_ms)
        self._looking_since_ms = now_ms
        for topic in self.image.topics.values():
            self._elections.look_at(self.image.partitions_of(topic))
        if self.image.orphans():
            self._jobs.add(CLIENTS, self._topic_jobs.sweep(), lambda _: None)
        self._log("INFO", "controller_started", brokers=sorted(self.image.brokers), topics=len(self.image.topics))
        return self._settle()

    def event(self, event: ControllerEvent, now_ms: int) -> list[Effect]:
        """Something happened. After a Resign nothing does any more."""
        if self._resigned:
            return [] if not isinstance(event, Request) else [Reply(event.id, not_controller(event.command))]
        self._now_ms = now_ms
        match event:
            case StoreBatch(rev, events):
                self._stored(rev, events)
            case Request(request_id, command):
                self._request(request_id, command)
            case TxnDone(tag, outcome):
                self._effects += self._jobs.outcome(tag, outcome)
            case ReadDone(tag, entries):
                self._effects += self._jobs.read(tag, dict(entries))
            case Answered():
                self._answered(event)
            case Tick():
                self._tick()
        return self._settle()

    def targets(self) -> list[int]:
        """Brokers that there may be something to tell."""
        return sorted(self._publisher.targets)

    def next_request(self, broker: int, now_ms: int) -> Outgoing | None:
        """What to send to a broker now. None: nothing, or its last request is not answered, or failed just now."""
        target = self._publisher.targets.get(broker)
        told_last = broker in self.shutting_down and self._tells_others(now_ms)
        batch = None if target is None or self._resigned else target.next_batch(now_ms, roles_only=told_last)
        if target is None or batch is None:
            return None
        request = self._builder.build(batch, target.broker_epoch, self.image.brokers)
        self._effects += self._state_changes.request_sent(broker, batch)
        return Outgoing(broker, target.broker_epoch, request)

    def _tells_others(self, now_ms: int) -> bool:
        """Whether brokers that stay are just being told something. One that shuts down hears after them who leads now:
        then it stops, perhaps with this controller, and its clients ask the others."""
        staying = [target for broker, target in self._publisher.targets.items() if broker not in self.shutting_down]
        return any(target.queue_size and target.oldest_age_ms(now_ms) < TOLD_LAST_MS for target in staying)

    def broker(self, broker: int) -> LiveBroker | None:
        """A registered broker, with its addresses."""
        return self.image.brokers.get(broker)

    @property
    def settled(self) -> bool:
        """Whether nothing is to be decided or told any more."""
        quiet = self._jobs.idle and self._elections.settled
        return quiet and all(target.queue_size == 0 for target in self._publisher.targets.values())

    def queue_sizes(self) -> dict[int, int]:
        """QueueSize of each broker."""
        return {broker: target.queue_size for broker, target in self._publisher.targets.items()}

    def oldest_ages_ms(self, now_ms: int) -> dict[int, int]:
        """How long the oldest thing that a broker was not told, or has not confirmed, has been wanted."""
        return {broker: target.oldest_age_ms(now_ms) for broker, target in self._publisher.targets.items()}

    def queue_times(self) -> dict[int, Timer]:
        """RequestRateAndQueueTimeMs of each broker."""
        return {broker: target.queue_time for broker, target in self._publisher.targets.items()}

    def imbalance(self) -> int:
        """PreferredReplicaImbalanceCount."""
        return self._balance.imbalance()

    @property
    def event_queue_size(self) -> int:
        """EventQueueSize: commands that are not answered."""
        return self._jobs.queue_size

    def _surroundings(self) -> Surroundings:
        return Surroundings(self.image.brokers, self.shutting_down, self.epoch, offline=self._offline.by_partition)

    def _settle(self) -> list[Effect]:
        """Begin what can be begun, and hand over what is to be done."""
        try:
            if not self._resigned and not any(isinstance(effect, Resign) for effect in self._effects):
                self._effects += self._jobs.pump()
                self._time_elections()
        except BrokenRule as error:
            self._effects.append(Resign(str(error)))
        effects, self._effects = self._effects, []
        resign = next((effect for effect in effects if isinstance(effect, Resign)), None)
        if resign is None:
            return effects
        self._resigned = True
        self._jobs.give_up()
        replies = [Reply(number, not_controller(command)) for number, command in self._requests.items()]
        self._requests.clear()
        return [*(effect for effect in effects if isinstance(effect, Log | Reply)), *replies, resign]

    def _time_elections(self) -> None:
        if self._looking_since_ms is None or not self._elections.settled:
            return
        if self.metrics.elections > self._elections_seen:
            self.metrics.election_time.add(max(0, self._now_ms - self._looking_since_ms))
        self._elections_seen, self._looking_since_ms = self.metrics.elections, None

    def _resign(self, reason: str) -> None:
        self._effects.append(Resign(reason))

    def _stored(self, rev: int, events: Iterable[Any]) -> None:
        for event in events:
            if event.key == self._guard.key and (event.entry is None or event.entry.version > self._guard.version):
                self._resign("another controller was elected")
            if event.key == self.image.keys.controller and event.entry is None:
                self._resign("the controller's session has ended")
        self._changed(self.image.apply(rev, tuple(events)))

    def _changed(self, changes: list[Change]) -> None:
        """The image is another one: tell whom it concerns, look at what may need an election."""
        for change in changes:
            if change.kind == "broker":
                self._broker_changed(change)
        for before, after in self._publisher.publish(changes, self._now_ms):
            self._effects += self._state_changes.partition_changed(before, after)
            self.metrics.partition_changed(before, after)
        if self._looking_since_ms is None:
            self._looking_since_ms = self._now_ms
        for change in changes:
            self._elections.look_at(self._publisher.touched(change))
            if change.kind == "configs" and isinstance(change.id, str):
                topic = self.image.topic(change.id)
                self._elections.look_at(self.image.partitions_of(topic) if topic else ())

    def _broker_changed(self, change: Change) -> None:
        before, after = change.before, change.after
        old = before.epoch if isinstance(before, LiveBroker) else None
        new = after.epoch if isinstance(after, LiveBroker) else None
        assert isinstance(change.id, int)
        if old == new:
            if isinstance(before, LiveBroker) and isinstance(after, LiveBroker):
                self._directories_changed(before, after)
            return
        self.shutting_down.discard(change.id)
        self._offline.restarted(change.id)
        event = "broker_lost" if new is None else "broker_came" if old is None else "broker_restarted"
        self._log("INFO", event, broker=change.id, broker_epoch=new if new is not None else old)

    def _directories_changed(self, before: LiveBroker, after: LiveBroker) -> None:
        if before.record.failed != after.record.failed:
            self._log("INFO", "log_directories_changed", broker=after.id, failed=",".join(after.record.failed))
            self._publisher.ask_again(after.id, self._now_ms)

    def _request(self, request_id: int, command: Any) -> None:
        self._requests[request_id] = command
        if isinstance(command, ListPartitionReassignmentsRequest):
            self._reply(request_id, self._reassignments.list(command))
            return
        priority, job = self._job(command)
        self._jobs.add(priority, job, lambda message: self._reply(request_id, message))

    def _job(self, command: Any) -> tuple[int, Job]:
        match command:
            case AlterPartitionRequest():
                return BROKERS, self._partition_jobs.alter_partition(command)
            case ControlledShutdownRequest():
                return BROKERS, self._partition_jobs.controlled_shutdown(command)
            case AllocateProducerIds():
                return BROKERS, self._partition_jobs.allocate_producer_ids()
            case ElectLeadersRequest():
                return CLIENTS, self._partition_jobs.elect_leaders(command)
            case AlterPartitionReassignmentsRequest():
                return CLIENTS, self._reassignments.alter(command)
            case CreateTopics():
                return CLIENTS, self._topic_jobs.create_topics(command)
            case CreatePartitions():
                return CLIENTS, self._topic_jobs.create_partitions(command)
            case DeleteTopics():
                return CLIENTS, self._topic_jobs.delete_topics(command)
            case AlterConfigs():
                return CLIENTS, self._topic_jobs.alter_configs(command)
        raise TypeError(f"the controller has no job for {type(command).__name__}")

    def _reply(self, request_id: int, message: Any) -> None:
        if self._requests.pop(request_id, None) is not None:
            self._effects.append(Reply(request_id, message))

    def _answered(self, event: Answered) -> None:
        target = self._publisher.targets.get(event.broker)
        if target is None or target.broker_epoch != event.broker_epoch or target.in_flight is None:
            return  # of an earlier life of the broker
        batch, code = target.in_flight, getattr(event.response, "error_code", None)
        self._effects += self._state_changes.request_answered(event.broker, batch, event.response)
        if code == ErrorCode.STALE_CONTROLLER_EPOCH:
            self._resign(f"broker {event.broker} knows a later controller")
        elif code == ErrorCode.NONE:
            target.answered()
            changed = self._offline.answered(event.broker, event.response)
            self._publisher.look_again(changed, self._now_ms)
            self._elections.look_at(changed)
        else:
            target.failed(self._now_ms)

    def _tick(self) -> None:
        partitions = self._balance.due(self._now_ms)
        if partitions:
            self._log("INFO", "preferred_leaders_wanted", partitions=len(partitions))
            self._jobs.add(CLIENTS, self._partition_jobs.elect_preferred(partitions), lambda _: None)

    def _log(self, level: str, event: str, **fields: Any) -> None:
        self._effects.append(Log(level, event, {"controller_epoch": self.epoch, **fields}))
