"""CreateTopics, CreatePartitions, DeleteTopics, AllocateProducerIds: judged, prepared, committed, shown.

Runs in the controller process only.

    1 judge          Kafka's rules; nothing is touched
    2 prepare        rows taken, directories and first segments made; nobody knows the topic yet
    3 commit         one store transaction with the answer in it: from here on it exists, whichever process dies
    4 show           partition chain, topic row, journal

Killed before 3: the successor throws the prepared parts away. Killed after 3: it does 4 again.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import PRODUCER_ID_BLOCK, ControllerStore
from mpbroker.controller.partition_logs import PartitionLogs, names_of
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.controller.topic_deletion import TopicDeletions
from mpbroker.errors import ErrorCode
from mpbroker.metadata import topic_validation
from mpbroker.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ProducerIds,
    TopicResult,
    TopicResults,
    encode_answer,
)
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot, encode_overrides
from mpbroker.metadata.topic_validation import Defaults, Refusal, TopicPlan
from mpbroker.shm.events import Events

DUPLICATE = "Duplicate topic name."
FULL = "The disk of the log directory was full at the start, and has no room yet."
OFFLINE = "The log directory is offline after an I/O error."


class TopicManager:
    """Carries out commands. `brokers`: registered broker ids; `new_id`: 16 random bytes; `count(name)`: a counter;
    `log`: one line for every change of a topic."""

    def __init__(
        self,
        *,
        context: ControllerContext,
        store: ControllerStore,
        snapshot: MetadataSnapshot,
        rows: PartitionRows,
        logs: PartitionLogs,
        deletions: TopicDeletions,
        brokers: list[int],
        new_id: Callable[[], bytes],
        now_ms: Callable[[], int],
        crash_point: Callable[[str], object],
        count: Callable[[str], object],
        log: Events,
    ) -> None:
        self._log = log
        self._context = context
        self._store = store
        self._snapshot = snapshot
        self._rows = rows
        self._logs = logs
        self._deletions = deletions
        self._brokers = brokers
        self._new_id = new_id
        self._now_ms = now_ms
        self._crash_point = crash_point
        self._count = count

    def create_topics(self, command: CreateTopics, defaults: Defaults, operation: int) -> TopicResults:
        """Create what may be created; each topic has its own result."""
        names, duplicates = _once(topic.name for topic in command.topics)
        judged = self._judge_topics([topic for topic in command.topics if topic.name in names], defaults)
        prepared: list[TopicState] = []
        results: dict[str, TopicResult] = {}
        for name, plan in judged.items():
            outcome: TopicState | TopicPlan | Refusal = plan
            if isinstance(plan, TopicPlan) and not command.validate_only:
                outcome = self._prepare_topic(plan)
            if isinstance(outcome, TopicState):
                prepared.append(outcome)
            results[name] = _created(name, outcome)
        answer = _answer(results, duplicates)
        if prepared:
            self._logs.sync()
            self._crash_point("controller.prepared")
            self._store.create_topics(prepared, operation, encode_answer(answer))
            self._crash_point("controller.committed")
            self._logs.creations_are_over()
            for topic in prepared:
                self._context.add(topic)
                self._show(topic)
                self._say("topic_created", topic)
        else:
            self._logs.creations_are_over()  # what was refused was put away: its notes would gather
        return answer

    def _judge_topics(self, topics: list[NewTopic], defaults: Defaults) -> dict[str, TopicPlan | Refusal]:
        if topic_validation.too_many_partitions(topics, defaults):
            refusal = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            return {topic.name: refusal for topic in topics}
        return {topic.name: self._judge_topic(topic, defaults) for topic in topics}

    def _judge_topic(self, new: NewTopic, defaults: Defaults) -> TopicPlan | Refusal:
        other = self._context.colliding(new.name)
        colliding = {} if other is None else {new.name: other}
        refusal = topic_validation.refuse_name(new.name, self._context.by_name, colliding)
        if refusal is None and new.name in self._deletions.pending:
            refusal = Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' is marked for deletion.")
        return refusal or topic_validation.plan_topic(new, self._brokers, defaults)

    def _prepare_topic(self, plan: TopicPlan) -> TopicState | Refusal:
        if encode_overrides(plan.configs) is None:
            return self._no_room("so many settings of one topic", "3584 bytes of them are kept")
        if self._snapshot.free_rows == 0:
            return self._no_room("more topics", "raise mpbroker.max.topics")
        topic = TopicState(self._new_id(), plan.name, plan.replicas, plan.configs, self._now_ms())
        topic.row = self._snapshot.reserve()
        topic.ordinals, topic.directories = [], []
        refusal = self._prepare_partitions(topic, range(len(plan.replicas)))
        if refusal:
            self._snapshot.release(topic.row)
            return refusal
        return topic

    def _prepare_partitions(self, topic: TopicState, partitions: range) -> Refusal | None:
        """Make partitions and append their rows to `topic.ordinals`; all of them or, with a refusal, none."""
        if not self._logs.online:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, OFFLINE)
        if not self._logs.has_room:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, FULL)
        if self._rows.free < len(partitions):
            return self._no_room("more partitions", "raise mpbroker.max.partitions")
        made: list[int] = []
        self._logs.note_creation(topic)
        for partition in partitions:
            made.append(self._rows.allocate())
            error = self._logs.create(topic, partition, made[-1])
            if error:
                why = self._why_not_made(topic, partition)
                self._throw_away(topic, partitions, made)
                return Refusal(error, why)
        topic.ordinals = topic.ordinals + made
        return None

    def _why_not_made(self, topic: TopicState, partition: int) -> str:
        [name] = names_of(topic.name, [partition])
        if any(self._logs.is_foreign(home, name, topic.id) for home in self._logs.online_homes):
            return f"Records of an unknown topic lie in {name}: `mpbroker adopt` takes them in, or move it away."
        return "The data directory cannot hold the partition."

    def _throw_away(self, topic: TopicState, partitions: range, made: list[int]) -> None:
        for ordinal in made:
            self._logs.hide(ordinal)
        for name in names_of(topic.name, partitions[: len(made)]):
            self._logs.retire(name, topic.id)
        del topic.directories[partitions.start :]
        self._rows.release(made)

    def _no_room(self, what: str, advice: str) -> Refusal:
        self._count("controller_table_full")
        return Refusal(ErrorCode.POLICY_VIOLATION, f"There is no room for {what} ({advice}).")

    def _show(self, topic: TopicState) -> None:
        self._rows.link(topic.ordinals)
        self._crash_point("controller.linked")
        self._snapshot.publish(topic.row, topic.image())
        self._crash_point("controller.shown")

    def _say(self, event: str, topic: TopicState) -> None:
        self._log.info(event, topic=topic.name, id=topic.id.hex(), partitions=len(topic.replicas))

    def create_partitions(self, command: CreatePartitions, operation: int) -> TopicResults:
        """Add partitions to topics; each topic has its own result."""
        names, duplicates = _once(topic.name for topic in command.topics)
        changed: list[TopicState] = []
        results: dict[str, TopicResult] = {}
        for wanted in (topic for topic in command.topics if topic.name in names):
            topic = self._context.by_name.get(wanted.name)
            replicas = topic.replicas if topic else None
            outcome = topic_validation.plan_partitions(wanted, replicas, self._brokers)
            if topic and not isinstance(outcome, Refusal) and not command.validate_only:
                refusal = self._prepare_partitions(topic, range(len(topic.replicas), wanted.count))
                if refusal is None:
                    topic.replicas = topic.replicas + outcome
                    changed.append(topic)
                outcome = refusal or outcome
            refused = isinstance(outcome, Refusal)
            results[wanted.name] = TopicResult(wanted.name, *outcome) if refused else TopicResult(wanted.name)
        answer = _answer(results, duplicates)
        if changed:
            self._logs.sync()
            self._crash_point("controller.prepared")
            self._store.add_partitions(changed, operation, encode_answer(answer))
            self._crash_point("controller.committed")
            self._logs.creations_are_over()
            for topic in changed:
                self._show(topic)
                self._say("partitions_created", topic)
        else:
            self._logs.creations_are_over()
        return answer

    def delete_topics(self, command: DeleteTopics, allowed: bool, operation: int) -> TopicResults:
        """Delete topics; when this returns they can be created again, empty."""
        names, duplicates = _once(command.names)
        if not allowed:
            disabled = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            return TopicResults([TopicResult(name, *disabled) for name in names])
        found = [self._context.by_name[name] for name in names if name in self._context.by_name]
        topics = [topic for topic in found if command.ids.get(topic.name, topic.id) == topic.id]
        results = {name: TopicResult(name, _unknown(command, name)) for name in names}
        results.update({topic.name: TopicResult(topic.name) for topic in topics})
        answer = _answer(results, duplicates)
        if topics:
            deletions = self._store.delete_topics(topics, operation, encode_answer(answer))
            self._crash_point("controller.committed")
            for topic, deletion in zip(topics, deletions, strict=True):
                self._context.remove(topic)
                self._deletions.add(deletion, topic.row, topic.ordinals)
                self._say("topic_deleted", topic)
            self._deletions.finish_all()
        return answer

    def allocate_producer_ids(self) -> ProducerIds:
        """A block of ids."""
        first = self._store.allocate_producer_ids()
        if first is None:
            return ProducerIds(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        self._crash_point("controller.committed")
        return ProducerIds(first, PRODUCER_ID_BLOCK)


def _unknown(command: DeleteTopics, name: str) -> int:
    return ErrorCode.UNKNOWN_TOPIC_ID if name in command.ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _once(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(names given once, names given more than once), in order."""
    counted = Counter(names)
    return [name for name, n in counted.items() if n == 1], [name for name, n in counted.items() if n > 1]


def _created(name: str, outcome: TopicState | TopicPlan | Refusal) -> TopicResult:
    if isinstance(outcome, Refusal):
        return TopicResult(name, *outcome)
    topic_id = outcome.id if isinstance(outcome, TopicState) else bytes(16)
    return TopicResult(name, 0, None, topic_id, len(outcome.replicas), len(outcome.replicas[0]))


def _answer(results: dict[str, TopicResult], duplicates: list[str]) -> TopicResults:
    repeated = [TopicResult(name, ErrorCode.INVALID_REQUEST, DUPLICATE) for name in duplicates]
    return TopicResults([*results.values(), *repeated])
