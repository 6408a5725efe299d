"""What the soak's broker may have to live with: little memory, a slow disk, a full trace disk, hundreds of partitions.

Each is a way to run the same soak; several may be in force at once. One that cannot be had on a machine is left out,
with a sentence.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.harness import slow_disk
from tests.harness.broker import Broker
from tests.harness.memory_limit import MemoryGroup, NoGroup, memory_limit

MEMORY_LIMIT, SLOW_SYNC = "memory-limit", "slow-sync"
FULL_TRACE_DISK, MANY_PARTITIONS = "full-trace-disk", "many-partitions"
ALL: Final = (MEMORY_LIMIT, SLOW_SYNC, FULL_TRACE_DISK, MANY_PARTITIONS)
MEMORY_BYTES: Final = 220_000_000
SYNC_MS: Final = 20
PARTITIONS: Final = 500
TRACE_DISK_KIB: Final = 256


class Surroundings(NamedTuple):
    """`left_out`: sentences about what could not be had."""

    broker: Broker
    group: MemoryGroup | None
    trace_disk: Path | None
    left_out: list[str]


@contextlib.contextmanager
def broker_in(names: tuple[str, ...], directory: Path, overrides: dict[str, object]) -> Iterator[Surroundings]:
    """A broker that is not started yet."""
    broker, left_out = Broker(directory, overrides=overrides), list[str]()
    directory.mkdir(exist_ok=True)
    group = trace_disk = None
    with contextlib.ExitStack() as stack:
        if MEMORY_LIMIT in names:
            try:
                group = stack.enter_context(memory_limit(MEMORY_BYTES))
                broker.prefix = list(group.prefix)
            except NoGroup as error:
                left_out.append(f"no memory limit: {error}")
        if SLOW_SYNC in names:
            broker.env |= slow_disk.slow_env(slow_disk.build(directory), f"{broker.data_dir}/", SYNC_MS)
        if FULL_TRACE_DISK in names:
            try:
                trace_disk = stack.enter_context(_small_disk(directory / "trace-disk"))
                broker.overrides["mpbroker.trace.dir"] = trace_disk / "traces"
            except subprocess.CalledProcessError:
                left_out.append("no full trace disk: no file system can be mounted here")
        yield Surroundings(broker, group, trace_disk, left_out)


@contextlib.contextmanager
def _small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={TRACE_DISK_KIB}k"]
    subprocess.run(["mount", *options, "tmpfs", path], check=True, capture_output=True)
    try:
        with open(path / "filled", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
