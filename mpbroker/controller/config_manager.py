"""AlterConfigs and IncrementalAlterConfigs: judged, committed, shown. Runs in the controller process only.

One store transaction holds the changes of a command with its answer, so that a controller killed at any moment leaves
all or nothing of it; its successor shows what the store says. A process that follows the metadata snapshot takes the
new settings over with its next look at it. Settings of brokers and groups go to the supervisor, which tells everybody.
"""

from collections.abc import Callable

from mpbroker.config.topic_changes import NotAList, changed_topic_configs
from mpbroker.config.topic_config import validate_topic_configs
from mpbroker.controller.broker_settings import GROUP, BrokerSettings, Layer
from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AlterConfigs, ConfigChanges, TopicResult, TopicResults, encode_answer
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot, encode_overrides
from mpbroker.metadata.topic_names import illegal_name_sentence
from mpbroker.metadata.topic_validation import BIGGEST_BLOB_BYTES, Refusal
from mpbroker.shm.events import Events

BROKER = 4
NO_DEFAULT_TOPIC = "Default topic resources are not allowed."


class ConfigManager:
    """Carries out the commands that change settings."""

    def __init__(
        self,
        *,
        context: ControllerContext,
        store: ControllerStore,
        snapshot: MetadataSnapshot,
        brokers: BrokerSettings,
        crash_point: Callable[[str], object],
        log: Events,
    ) -> None:
        self._context = context
        self._store = store
        self._snapshot = snapshot
        self._brokers = brokers
        self._crash_point = crash_point
        self._log = log

    def alter(self, command: AlterConfigs, operation: int) -> TopicResults:
        """Change what may be changed; each resource has its own result."""
        changed: list[tuple[TopicState, dict[str, str]]] = []
        results: list[TopicResult] = []
        settings = self._brokers.stored
        for wanted in command.resources:
            if wanted.resource_type in (BROKER, GROUP):
                after = self._brokers.judge(wanted, command.replace, settings)
                if isinstance(after, Refusal):
                    results.append(TopicResult(wanted.name, *after))
                else:
                    results.append(TopicResult(wanted.name))
                    settings = after
                continue
            outcome = self._judge(wanted, command.replace)
            if isinstance(outcome, Refusal):
                results.append(TopicResult(wanted.name, *outcome))
                continue
            results.append(TopicResult(wanted.name))
            topic, configs = outcome
            if configs != topic.configs:
                changed.append(outcome)
        answer = TopicResults(results)
        layers = self._brokers.changed(settings)
        if (changed or layers) and not command.validate_only:
            self._commit(changed, layers, operation, answer)
        return answer

    def _commit(
        self,
        changed: list[tuple[TopicState, dict[str, str]]],
        layers: list[Layer],
        operation: int,
        answer: TopicResults,
    ) -> None:
        before = [topic.configs for topic, _ in changed]
        self._crash_point("controller.prepared")
        kept = self._store.alter_configs(changed, layers, operation, encode_answer(answer))
        self._crash_point("controller.committed")
        if kept:
            self._log.info("broker_settings_changed", settings=",".join(self._brokers.committed(kept)))
            self._crash_point("controller.settings_published")
        for (topic, configs), old in zip(changed, before, strict=True):
            self._snapshot.publish(topic.row, topic.image())
            self._crash_point("controller.shown")
            names = sorted(name for name in old.keys() | configs.keys() if old.get(name) != configs.get(name))
            self._log.info("topic_settings_changed", topic=topic.name, settings=",".join(names))

    def _judge(self, wanted: ConfigChanges, replace: bool) -> tuple[TopicState, dict[str, str]] | Refusal:
        """The topic with the settings it is to have; checked in Kafka's order, its existence last."""
        topic = self._context.by_name.get(wanted.name)
        own = topic.configs if topic and not replace else {}
        try:
            after = changed_topic_configs(own, wanted.changes)
        except NotAList as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        if not wanted.name:
            return Refusal(ErrorCode.INVALID_REQUEST, NO_DEFAULT_TOPIC)
        illegal = illegal_name_sentence(wanted.name)
        if illegal:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        configs, sentence = validate_topic_configs(after)
        if sentence:
            return Refusal(ErrorCode.INVALID_CONFIG, sentence)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        if encode_overrides(configs) is None:
            sentence = f"There is no room for so many settings of one topic ({BIGGEST_BLOB_BYTES} bytes are kept)."
            return Refusal(ErrorCode.POLICY_VIOLATION, sentence)
        return topic, configs
