"""Deleting topics: store, snapshot, rows, directories, in this order. Controller process only.

After the store's transaction the topic is gone for good; `finish` does the rest and may be done again at any time, by a
successor too: the deletion stands in the store until all of it is done.
"""

from collections.abc import Callable

from mpbroker.controller.controller_context import NO_ROW
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.partition_logs import PartitionLogs, names_of
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot
from mpbroker.metadata.topic_record import TopicDeletion
from mpbroker.shm.events import Events


class PendingDeletion:
    """A topic on its way out, with the rows it still holds."""

    def __init__(self, record: TopicDeletion, row: int, ordinals: list[int]) -> None:
        self.record = record
        self.id = bytes.fromhex(record.id)
        self.row = row
        self.ordinals = ordinals


class TopicDeletions:
    """Deletions that the store knows and that are not finished yet."""

    def __init__(
        self,
        store: ControllerStore,
        snapshot: MetadataSnapshot,
        rows: PartitionRows,
        logs: PartitionLogs,
        crash_point: Callable[[str], object],
        log: Events,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._rows = rows
        self._logs = logs
        self._crash_point = crash_point
        self._log = log
        self.pending: dict[str, PendingDeletion] = {}

    def add(self, record: TopicDeletion, row: int, ordinals: list[int]) -> None:
        """A topic that the store holds no more."""
        self.pending[record.name] = PendingDeletion(record, row, ordinals)

    def finish_all(self) -> None:
        """Try each; what cannot be done now is tried again later."""
        for deletion in list(self.pending.values()):
            self._finish(deletion)

    def _finish(self, deletion: PendingDeletion) -> None:
        if deletion.row != NO_ROW:
            self._snapshot.retire(deletion.row)
        self._crash_point("controller.topic_hidden")
        for ordinal in deletion.ordinals:
            error = self._logs.hide(ordinal)
            if error:
                self._log.warning("topic_deletion_waits", topic=deletion.record.name, row=ordinal, error=error)
                return
            self._crash_point("controller.partition_hidden")
        if not self._rename(deletion):
            return
        self._store.finish_deletion(deletion.id)
        self._crash_point("controller.deletion_finished")
        self._rows.release(deletion.ordinals)
        if deletion.row != NO_ROW:
            self._snapshot.release(deletion.row)
        del self.pending[deletion.record.name]

    def _rename(self, deletion: PendingDeletion) -> bool:
        try:
            for name in names_of(deletion.record.name, range(deletion.record.partitions)):
                self._logs.retire(name, deletion.id)
                self._crash_point("controller.directory_renamed")
            self._logs.sync()
        except OSError as error:
            self._log.warning("topic_deletion_waits", topic=deletion.record.name, detail=str(error))
            return False
        return True
