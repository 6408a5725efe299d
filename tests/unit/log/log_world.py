"""Shared memory, a native Log on a temporary directory, a clock that a test moves: all a log keeper's job needs."""

import os
from typing import Any

from mpbroker import _native
from mpbroker._native import NO_REQUEST, Log, LogOptions
from mpbroker.config.load_config import load_broker_config
from mpbroker.config.topic_config import effective
from mpbroker.log.keeper_context import KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.log_loader import LogLoader, PartitionToLoad
from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE, prepare
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.topic_table import rows_raise
from tests.harness.small_core import small_core

ROWS = 16


class Events:
    """Log lines, kept."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("INFO", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("WARN", event, fields))

    def error(self, event: str, about: str | None = None, /, **fields: Any) -> None:
        self.lines.append(("ERROR", event, fields if about is None else fields | {"about": about}))

    def exception(self, event: str, exception: BaseException, **fields: Any) -> None:
        self.lines.append(("ERROR", event, fields | {"exception": exception}))

    def named(self, event: str) -> list[dict[str, Any]]:
        """Fields of every line of this event."""
        return [fields for _, name, fields in self.lines if name == event]


class Instead:
    """The log, but for these calls."""

    def __init__(self, log: Any, **calls: Any) -> None:
        self._log = log
        vars(self).update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class PlainPartitions:
    """The keeper's view without a metadata snapshot."""

    def __init__(self) -> None:
        self.all: list[KeptPartition] = []
        self.changed = False
        self.loaded = True

    def refresh(self) -> bool:
        changed, self.changed = self.changed, False
        return changed

    def use_config(self, config: Any) -> None:
        """Settings stay what the test made them."""


def to_load(partition: KeptPartition) -> PartitionToLoad:
    """What the loader is given."""
    return PartitionToLoad(
        partition.ordinal,
        partition.topic_id,
        0,
        partition.topic,
        partition.partition,
        0,
        partition.dir,
        partition.settings,
    )


def config_of(*overrides: str) -> Any:
    return load_broker_config(overrides=overrides, environ={}, cores=2)


class LogWorld:
    """One data directory and one broker's memory. `reboot` throws the memory away, as a crash or a stop does."""

    def __init__(self, path: Any, *overrides: str, replicated: bool = False) -> None:
        self.path = path
        self.replicated = replicated
        self.clock = ManualClock()
        self.events = Events()
        self.config = config_of(*overrides)
        self.partitions = PlainPartitions()
        self.moved: list[int] = []
        self.counted: list[str] = []  # by the loaders
        self.boot()

    def boot(self) -> None:
        """Fresh memory, nothing loaded."""
        self.core = small_core(partitions=ROWS, replicated=self.replicated).core
        rows_raise(self.core, 0, ROWS)
        self.log = Log(self.core, [str(self.path)], 1)

    def close(self) -> None:
        self.log.close()

    def reboot(self) -> LogLoader:
        """The next start: every partition is loaded again; returns the loader that did it."""
        self.close()
        self.boot()
        loader = LogLoader(self.log, str(self.path), self.events, self.clock, count=self.counted.append)
        loader([to_load(partition) for partition in self.partitions.all])
        return loader

    def create(self, topic: str = "t", partition: int = 0, ordinal: int = 0, **settings: str) -> KeptPartition:
        """An empty partition; settings by Kafka's names with _ for dots."""
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        made = KeptPartition(
            ordinal, (ordinal + 1).to_bytes(16, "big"), topic, partition, effective(overrides, self.config)
        )
        prepare(str(self.path), made.dir, made.topic_id)
        for each in (METADATA_FILE, EPOCH_FILE):  # a second ago: times of files are as coarse as the kernel's clock
            path = self.path / made.dir / each
            os.utime(path, (path.stat().st_mtime - 1,) * 2)
        assert (
            self.log.create(
                ordinal=ordinal,
                topic_id=made.topic_id,
                topic_row=0,
                partition=partition,
                log_dir=0,
                dir=made.dir,
                leader_epoch=0,
                now_ms=self.clock.wall_ms(),
            )
            == 0
        )
        self.partitions.all.append(made)
        self.partitions.changed = True
        return made

    def append(
        self,
        partition: KeptPartition,
        count: int = 1,
        size: int = 100,
        timestamp_ms: int | None = None,
        **batch_settings: int,
    ) -> Any:
        """One batch; returns the AppendResult. Segment size and index interval are the topic's."""
        stamp = self.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        batch = encode_batch([(b"k", bytes(size), stamp) for _ in range(count)], **batch_settings)
        options = LogOptions(
            segment_bytes=partition.settings.segment_bytes, index_interval_bytes=partition.settings.index_interval_bytes
        )
        walked = (
            stamp if batch_settings.get("codec") else None
        )  # of compressed records the caller says the largest timestamp
        return self.log.append(
            partition.ordinal, NO_REQUEST, 0, batch, options, self.clock.wall_ms(), max_timestamp=walked
        )

    def fill(self, partition: KeptPartition, end_offset: int, **settings: int) -> None:
        """Batches of one record up to the offset."""
        while self.state(partition).leo < end_offset:
            result = self.append(partition, **settings)
            assert result.error == 0

    def roll(self, partition: KeptPartition) -> None:
        assert self.log.roll(partition.ordinal, self.clock.wall_ms()) == 0

    def state(self, partition: KeptPartition) -> Any:
        return self.log.state(partition.ordinal)

    def records(self, partition: KeptPartition) -> bytes:
        """Every byte from log start to log end, as a fetch would get it."""
        out, offset = b"", self.state(partition).log_start
        while True:
            error, plan = self.log.find(partition.ordinal, offset, _native.READ_TO_END, 1 << 20)
            assert error == 0
            if not plan.length:
                return out
            buffer = bytearray(plan.length)
            assert self.log.read_into(plan, buffer) == (0, plan.length)
            out += bytes(buffer)
            offset = next_offset(buffer)

    def keeper(self, **fields: Any) -> KeeperContext:
        """What the jobs are given."""
        defaults = {
            "log": self.log,
            "partitions": self.partitions,
            "clock": self.clock,
            "config": self.config,
            "data_dir": str(self.path),
            "events": self.events,
            "notify": self.moved.append,
            "crash_point": self.core.crash_point,
        }
        return KeeperContext(**(defaults | fields))

    def files(self, partition: KeptPartition, suffix: str = "") -> list[str]:
        return sorted(path.name for path in (self.path / partition.dir).iterdir() if path.name.endswith(suffix))


def next_offset(batches: bytes | bytearray) -> int:
    """The offset after the last whole batch."""
    at, following = 0, 0
    while at < len(batches):
        base = int.from_bytes(batches[at : at + 8], "big")
        following = base + int.from_bytes(batches[at + 23 : at + 27], "big") + 1
        at += 12 + int.from_bytes(batches[at + 8 : at + 12], "big")
    return following
