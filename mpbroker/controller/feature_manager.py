"""UpdateFeatures: judged, committed, shown. Runs in the controller process only.

One store transaction holds the new levels with the answer. Who dies behind it leaves the showing to its successor,
which shows what the store says.
"""

from collections.abc import Callable

from mpbroker.controller.controller_store import ControllerStore
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import TopicResult, TopicResults, UpdateFeatures, encode_answer
from mpbroker.metadata.features import FeatureLevels, publish, refusal
from mpbroker.shm.core import Core
from mpbroker.shm.events import Events


class FeatureManager:
    """The finalized levels, as the store has them."""

    def __init__(
        self,
        *,
        core: Core,
        store: ControllerStore,
        node_id: int,
        crash_point: Callable[[str], object],
        log: Events,
    ) -> None:
        self._core = core
        self._store = store
        self._node_id = node_id
        self._crash_point = crash_point
        self._log = log
        self.levels = store.load_features()
        publish(core, self.levels)

    def update(self, command: UpdateFeatures, operation: int) -> TopicResults:
        """Each feature has its own result, in the order of their names; one that is refused stops no other."""
        results: list[TopicResult] = []
        after: FeatureLevels = self.levels
        updates = {update.name: update for update in command.updates}
        for name, update in sorted(updates.items()):
            sentence = refusal(name, update.level, update.kind, self.levels, self._node_id)
            code = ErrorCode.INVALID_UPDATE_VERSION if sentence else ErrorCode.NONE
            results.append(TopicResult(name, code, sentence))
            if not sentence:
                after = after.with_level(name, update.level)
        answer = TopicResults(results)
        if after != self.levels and not command.validate_only:
            self._commit(after._replace(epoch=self.levels.epoch + 1), operation, answer)
        return answer

    def _commit(self, after: FeatureLevels, operation: int, answer: TopicResults) -> None:
        self._crash_point("controller.prepared")
        self._store.update_features(after, operation, encode_answer(answer))
        self._crash_point("controller.committed")
        self.levels = after
        publish(self._core, after)
        self._crash_point("controller.shown")
        self._log.info("features_changed", **after._asdict())
