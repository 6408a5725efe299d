"""Moves of partitions between log directories, as far as the controller has to do with them. Controller process only.

Request handlers ask for a move in the partition's row, the log keeper makes it (log/replica_mover.py). The controller
notes in the store where the partition lies then, and asks again after a start that found a copy half made. Until it is
noted, a start finds the partition by looking; a log directory that misses a partition which left it is known by what
the move left there (PartitionLogs.find).
"""

import os
from collections.abc import Callable

from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.partition_logs import Home, PartitionLogs
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.log import partition_directory
from mpbroker.log.partition_directory import FoundDirectory
from mpbroker.shm.events import Events
from mpbroker.shm.layout import PartitionFlags


class Moves:
    """`moves()`: counts what is asked for and what ends. `store` None: of a broker of a cluster, whose topics' records
    are the elected controller's; there every start finds partitions by looking."""

    def __init__(
        self,
        *,
        context: ControllerContext,
        store: ControllerStore | None,
        rows: PartitionRows,
        logs: PartitionLogs,
        moves: Callable[[], int],
        log: Events,
        count: Callable[[str], object],
    ) -> None:
        self._context = context
        self._store = store
        self._rows = rows
        self._logs = logs
        self._moves = moves
        self._log = log
        self._count = count
        self._seen = -1

    def note(self) -> None:
        """Tell the store where partitions lie, if any has moved since the last look. StoreChanged."""
        moves = self._moves()
        if moves == self._seen or not self._logs.are_several:
            return
        changed = [topic for topic in self._context.by_id.values() if self._settle(topic)]
        if changed and self._store is not None:
            self._store.add_partitions(changed, operation=0, answer=b"")
        self._seen = moves

    def _settle(self, topic: TopicState) -> bool:
        """Whether one of its partitions lies elsewhere than was noted. An offline one lies nowhere."""
        moved = False
        for partition, ordinal in enumerate(topic.ordinals):
            who = self._rows.who(ordinal)
            if who.flags & PartitionFlags.ONLINE and who.topic_id == topic.id:
                moved |= self._logs.settle(topic, partition, ordinal, who.log_dir)
        return moved

    def resume(self) -> None:
        """After a start: what was being copied is wanted still; of several copies of a partition the youngest is. Those
        of partitions that the store does not know stay: it may be an older one, put back. OSError passes."""
        if not self._logs.are_several or self._moves():
            return  # the rows know
        wanted: dict[tuple[str, int], list[tuple[float, Home, FoundDirectory]]] = {}
        for home in self._logs.online_homes:
            for found in partition_directory.find_futures(home.path):
                if not self._is_known(home, found):
                    continue
                made_s = partition_directory.made_at(home.path, found.name)
                wanted.setdefault((found.topic, found.partition), []).append((made_s, home, found))
        for copies in wanted.values():
            copies.sort(key=lambda copy: copy[0])
            for _, home, found in copies[:-1]:
                self._retire(home, found)
            _, home, found = copies[-1]
            if not self._ask(home, found):
                self._retire(home, found)

    def _is_known(self, home: Home, found: FoundDirectory) -> bool:
        topic = self._context.by_name.get(found.topic)
        if topic is not None and topic.id == found.topic_id and found.partition < len(topic.ordinals):
            return True
        self._count("stray_directories")
        self._log.warning(
            "stray_directory",
            directory=os.path.join(home.path, found.name),
            left="as it is",
            remedy="the copy of a partition that is not known here: put the metadata back, or move it away",
        )
        return False

    def _ask(self, home: Home, found: FoundDirectory) -> bool:
        """False: nobody needs that copy."""
        topic = self._context.by_name[found.topic]
        ordinal = topic.ordinals[found.partition]
        who = self._rows.who(ordinal)
        if not who.flags & PartitionFlags.ONLINE:
            return True  # its log directory is offline: the copy may be all there is
        return who.log_dir != home.log_dir and not self._logs.ask_move(ordinal, topic.id, home.log_dir)

    def _retire(self, home: Home, found: FoundDirectory) -> None:
        name = partition_directory.directory_name(found.topic, found.partition)
        assert found.topic_id is not None
        partition_directory.retire_future(home.path, name, found.topic_id)
