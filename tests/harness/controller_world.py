"""A controller without processes: small shared memory, a store, a data directory, logs that are an empty file each.

`World.controller()` makes a fresh controller over the same memory, store and directory, as a successor process would.
A crash point that is armed raises Killed, which nothing in the controller catches: what a SIGKILL there would leave is
exactly what is left.
"""

import itertools
import os
from collections import Counter
from pathlib import Path

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import load_broker_config
from mpbroker.controller.controller import Controller
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.partition_logs import PartitionLogs
from mpbroker.log.log_loader import PartitionToLoad
from mpbroker.metadata.commands import Answer, Command, decode_answer, encode_command
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.topic_table import PartitionWho, partition_who, rows_high
from tests.harness.memory_store import MemoryStore
from tests.harness.small_core import SmallCore, small_core

FIRST_SEGMENT = f"{0:020d}.log"


class Killed(BaseException):
    """The controller died here."""


class EmptyLogs:
    """Stands for `_native.Log`: a partition row, an empty segment. `errors`: ordinal → error code of its next use;
    `online`, `room`: of the directory."""

    def __init__(self, memory: SmallCore, data_dir: Path) -> None:
        self.memory = memory
        self.data_dir = data_dir
        self.errors: dict[int, int] = {}
        self.online = self.room = True
        self.loaded: list[PartitionToLoad] = []
        self.written: dict[tuple[str, int], int] = {}

    def takes_appends(self, log_dir):
        return self.room

    def log_dir_online(self, log_dir):
        return self.online

    def create(self, ordinal, topic_id, topic_row, partition, log_dir, dir, leader_epoch, now_ms):
        if ordinal in self.errors:
            return self.errors.pop(ordinal)
        (self.data_dir / dir).mkdir(exist_ok=True)
        (self.data_dir / dir / FIRST_SEGMENT).write_bytes(b"")
        self.memory.partition(ordinal, topic_id, partition, 3, topic_row, dir)
        return 0

    def set_flags(self, ordinal, set, clear):
        if ordinal in self.errors:
            return self.errors.pop(ordinal)
        who = partition_who(self.memory.core, ordinal)
        self.memory.set_flags(ordinal, (who.flags | set) & ~clear)
        return 0

    highest_producer_id = -1

    def written_up_to(self, topic: str, partition: int) -> int:
        return self.written.get((topic, partition), 0)

    def __call__(self, partitions: list[PartitionToLoad]) -> None:
        for p in partitions:
            self.loaded.append(p)
            self.memory.partition(p.ordinal, p.topic_id, p.partition, 3, p.topic_row, p.dir)


class Lines:
    """An event log that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []

    def warning(self, event: str, about: str | None = None, **fields) -> None:
        self.events.append((event, fields))

    info = error = warning

    @property
    def changes(self) -> list[tuple[str, str, int]]:
        """(event, topic, partitions) of every change of a topic."""
        return [
            (event, fields["topic"], fields["partitions"]) for event, fields in self.events if "partitions" in fields
        ]

    def exception(self, event: str, exception: BaseException, **fields) -> None:
        self.events.append((event, fields | {"exception": exception}))

    def named(self, event: str) -> list[dict]:
        return [fields for name, fields in self.events if name == event]


class World:
    """Memory, store and directory, and whichever controller runs on them."""

    def __init__(self, data_dir: Path, *overrides: str, store=None, **plan: int) -> None:
        self.data_dir = data_dir
        self.plan = plan
        data_dir.mkdir(exist_ok=True)
        self.config = load_broker_config(overrides=[f"log.dirs={data_dir}", *overrides], environ={}, cores=2)
        self.store = store or MemoryStore()
        self.clock = ManualClock()
        self.ids = (n.to_bytes(16, "big") for n in itertools.count(1))
        self.passed: Counter[str] = Counter()
        self.armed: tuple[str, int] | None = None
        self.boot_id = 0
        self.written: dict[tuple[str, int], int] = {}  # what the checkpoints say
        self.boot()

    def boot(self) -> None:
        """Start the broker anew: shared memory is empty, store and directory are what they were."""
        self.memory = small_core(**self.plan)
        self.core = self.memory.core
        self.boot_id += 1
        self.counters: Counter[str] = Counter()
        self.successor()
        self.cache = MetadataCache(self.core, self.config)

    def successor(self) -> Controller:
        """Start the controller process anew."""
        self.logs = EmptyLogs(self.memory, self.data_dir)
        self.logs.written = self.written
        self.lines = Lines()
        self.published: list[DynamicSettings] = []
        logs = PartitionLogs(self.logs, str(self.data_dir), self.logs, self.clock.wall_ms, self.crash_point)
        store = ControllerStore(self.store, Keys("c"), self.boot_id)
        self.controller = Controller(
            core=self.core,
            config=self.config,
            store=store,
            logs=logs,
            now_ms=self.clock.wall_ms,
            new_id=lambda: next(self.ids),
            log=self.lines,
            count=lambda name: self.counters.update([name]),
            crash_point=self.crash_point,
            publish=self.published.append,
        )
        self.controller.recover()
        return self.controller

    def crash_point(self, name: str) -> None:
        self.passed[name] += 1
        if self.armed == (name, self.passed[name]):
            self.armed = None
            raise Killed(name)

    def run(self, command: Command, operation: int = 0) -> Answer:
        return decode_answer(self.controller.execute(encode_command(command), operation))

    def codes(self, command: Command, operation: int = 0) -> dict[str, int]:
        return {result.name: result.error_code for result in self.run(command, operation).results}

    def topics(self) -> dict[str, list[int]]:
        """What a process sees: topic → rows of its partitions."""
        self.cache.refresh()
        return {topic.name: topic.partitions for topic in self.cache.topics()}

    def directories(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.data_dir) if entry.is_dir())

    def who(self, ordinal: int) -> PartitionWho:
        return partition_who(self.core, ordinal)

    def live_rows(self) -> int:
        return sum(self.who(ordinal).flags & 1 for ordinal in range(rows_high(self.core)[1]))

    def check(self) -> None:
        """Store, snapshot, rows and directories tell the same story."""
        keys = Keys("c")
        stored = [entry.key for page in self.store.scan(f"{keys.prefix}tn/") for entry in page.entries]
        shown = self.topics()
        assert sorted(key.removeprefix(f"{keys.prefix}tn/") for key in stored) == sorted(shown)
        assert self.live_rows() == sum(map(len, shown.values()))
        wanted = [f"{topic}-{partition}" for topic, ordinals in shown.items() for partition in range(len(ordinals))]
        kept = [name for name in self.directories() if not name.endswith(("-delete", "-stray"))]
        assert kept == sorted(wanted)
        for topic in self.cache.topics():
            assert [self.who(ordinal)[2] for ordinal in topic.partitions] == list(range(len(topic.partitions)))
            assert {self.who(ordinal).topic_id for ordinal in topic.partitions} == {topic.id}
            assert {self.who(ordinal).topic_row for ordinal in topic.partitions} == {topic.row}
        assert [entry for page in self.store.scan(keys.deletions) for entry in page.entries] == []
