"""What may have become of the files of a data directory: restored, lost, damaged, half renamed, older, doubled.

Each mutation takes a random number generator and a `State`, changes the copy, and says what it did in one line; None:
there was nothing that it could be done to.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from mpbroker.log.clean_shutdown import MARKER
from tests.filestates.bases import Base

KINDS = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "-checkpoint",
    "meta.properties",
    "partition.metadata",
    "metadata.db",
    "metadata.db-wal",
    MARKER,
    ".cut",
    ".deleted",
)
SEGMENT = (".log", ".index", ".timeindex", ".txnindex")


class State(NamedTuple):
    """A copy of a base that is being changed."""

    path: Path
    base: Base

    def files(self, random: Random) -> list[Path]:
        """The files of a kind chosen by chance, so that rare kinds are not rarely chosen; never none."""
        everything = sorted(path for path in self.path.rglob("*") if path.is_file())
        for kind in random.sample(KINDS, len(KINDS)):
            found = [path for path in everything if path.name.endswith(kind)]
            if found:
                return found
        return everything

    def file(self, random: Random) -> Path:
        """One of them."""
        return random.choice(self.files(random))

    def of_partitions(self) -> list[Path]:
        """The partitions' directories that are there."""
        return sorted(path for path in self.path.rglob("*") if path.is_dir() and path.name in self.base.batches)

    def short(self, path: Path) -> str:
        """A path as reports name it."""
        return str(path.relative_to(self.path))


Mutation = Callable[[Random, State], str | None]


def drop_file(random: Random, state: State) -> str | None:
    """A file is lost."""
    path = state.file(random)
    path.unlink()
    return f"drop {state.short(path)}"


def drop_segment(random: Random, state: State) -> str | None:
    """All files of a segment are lost."""
    logs = sorted(state.path.rglob("*.log"))
    if not logs:
        return None
    log = random.choice(logs)
    for suffix in SEGMENT:
        log.with_suffix(suffix).unlink(missing_ok=True)
    return f"drop segment {state.short(log)}"


def drop_directory(random: Random, state: State) -> str | None:
    """A partition is lost, with its directory or all in it."""
    found = state.of_partitions()
    if not found:
        return None
    path = random.choice(found)
    shutil.rmtree(path)
    if random.random() < 0.5:
        path.mkdir()
    return f"drop directory {path.name}, {'empty' if path.exists() else 'gone'}"


def truncate(random: Random, state: State) -> str | None:
    """A file ends too early."""
    path = state.file(random)
    size = path.stat().st_size
    to = random.choice([0, size // 2, max(size - 1, 0), random.randrange(size + 1)])
    os.truncate(path, to)
    return f"truncate {state.short(path)} from {size} to {to}"


def extend(random: Random, state: State) -> str | None:
    """A file ends in zeros or in something."""
    path, count = state.file(random), random.choice([1, 7, 8, 12, 61, 300, 4096])
    tail = bytes(count) if random.random() < 0.5 else random.randbytes(count)
    with open(path, "ab") as file:
        file.write(tail)
    return f"extend {state.short(path)} by {count} {'zeros' if not any(tail) else 'bytes'}"


def flip(random: Random, state: State) -> str | None:
    """Some bits are wrong."""
    path = state.file(random)
    data = bytearray(path.read_bytes())
    if not data:
        return None
    places = sorted(random.randrange(8 * len(data)) for _ in range(random.choice([1, 1, 1, 2, 8])))
    for place in places:
        data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return f"flip bits {places} of {state.short(path)}"


def zero(random: Random, state: State) -> str | None:
    """A stretch is zero: a page that was never written."""
    path = state.file(random)
    data = bytearray(path.read_bytes())
    if not data:
        return None
    begin = random.randrange(len(data))
    end = min(len(data), begin + random.choice([16, 200, 4096]))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    return f"zero {begin} to {end} of {state.short(path)}"


def swap(random: Random, state: State) -> str | None:
    """Two files of a kind have each other's content."""
    found = state.files(random)
    if len(found) < 2:
        return None
    one, other = random.sample(found, 2)
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)
    return f"swap {state.short(one)} and {state.short(other)}"


def double_file(random: Random, state: State) -> str | None:
    """A file is there a second time: as another segment, as a copy, in another directory."""
    path = state.file(random)
    other = random.choice(state.files(random))
    stem, *rest = path.name.split(".", 1)
    number = f"{int(stem) + random.choice([1, 4, 10, 1000]):020d}" if stem.isdecimal() else f"{stem}-copy"
    target = random.choice(
        [path.with_name(".".join([number, *rest])), path.with_name(f"{path.name}~"), other.parent / path.name]
    )
    if target.is_dir():
        return None
    shutil.copy2(path, target) if target != path else None
    return f"double {state.short(path)} as {state.short(target)}"


def double_segment(random: Random, state: State) -> str | None:
    """A segment is there a second time under another base offset."""
    logs = sorted(state.path.rglob("*.log"))
    if not logs:
        return None
    log = random.choice(logs)
    base = max(0, int(log.stem) + random.choice([-10, -4, -1, 1, 4, 10, 1000]))
    for suffix in SEGMENT:
        source, target = log.with_suffix(suffix), log.with_name(f"{base:020d}{suffix}")
        if source.exists() and source != target:
            shutil.copy2(source, target)
    return f"double segment {state.short(log)} as {base}"


def double_directory(random: Random, state: State) -> str | None:
    """A partition's directory is there a second time, as another one or as a stray."""
    found = state.of_partitions()
    if not found:
        return None
    path = random.choice(found)
    target = path.parent / random.choice(["t-3", "new-0", "u-1", f"{path.name}.{'0' * 32}-stray", f"{path.name}.old"])
    if target.exists():
        return None
    shutil.copytree(path, target)
    return f"double {path.name} as {target.name}"


def resurrect(random: Random, state: State) -> str | None:
    """Files that were deleted are back: `.deleted` undone, or from an older copy."""
    renamed = sorted(state.path.rglob("*.deleted"))
    if renamed and random.random() < 0.5:
        stem = random.choice(renamed).name.split(".", 1)[0]
        chosen = [path for path in renamed if path.name.startswith(stem)]
        for path in chosen if random.random() < 0.7 else chosen[:1]:
            path.rename(path.with_name(path.name.removesuffix(".deleted")))
        return f"undo the deletion of {stem}"
    older = [path for path in sorted(state.base.earlier.rglob("*")) if path.is_file()]
    missing = [path for path in older if not (state.path / path.relative_to(state.base.earlier)).exists()]
    missing = [path for path in missing if (state.path / path.relative_to(state.base.earlier)).parent.is_dir()]
    if not missing:
        return None
    path = random.choice(missing)
    target = state.path / path.relative_to(state.base.earlier)
    shutil.copy2(path, target)
    return f"resurrect {state.short(target)}"


def roll_back(random: Random, state: State) -> str | None:
    """A file, or all of a partition, is as it was some time ago."""
    earlier = state.base.earlier
    if random.random() < 0.2:
        name = random.choice([state.base.home_of[one] + one for one in sorted(state.base.batches)])
        shutil.rmtree(state.path / name, ignore_errors=True)
        shutil.copytree(earlier / name, state.path / name)
        return f"roll back {name}"
    found = [path for path in state.files(random) if (earlier / state.short(path)).is_file()]
    if not found:
        return None
    path = random.choice(found)
    shutil.copy2(earlier / state.short(path), path)
    return f"roll back {state.short(path)}"


def undo_rename(random: Random, state: State) -> str | None:
    """A file has still the name under which it was written, or a deleted topic's directory its own."""
    deleted = sorted(state.path.rglob("*-delete"))
    if deleted and random.random() < 0.3:
        target = deleted[0].with_name(deleted[0].name.split(".", 1)[0])
        if target.exists():
            return None
        deleted[0].rename(target)
        return f"undo the deletion of {target.name}"
    whole = [
        path
        for path in state.files(random)
        if path.name.endswith(("-checkpoint", MARKER, ".snapshot", ".metadata", ".properties"))
    ]
    if not whole:
        return None
    path = random.choice(whole)
    temporary = path.with_name(f"{path.name}.tmp")
    path.rename(temporary)
    if random.random() < 0.5:
        os.truncate(temporary, random.randrange(temporary.stat().st_size + 1))
    return f"undo the rename to {state.short(path)}"


def touch(random: Random, state: State) -> str | None:
    """A file has another time: it was put back by a copy. (A log much older than its records is deleted by age: the
    broker's clock is believed, not the producers'.)"""
    path = state.file(random)
    by_s = random.choice([-3600, 60, 86_400])
    now = path.stat().st_mtime
    os.utime(path, (now + by_s, now + by_s))
    return f"touch {state.short(path)} by {by_s} s"


def lose_home(random: Random, state: State) -> str | None:
    """A log directory beside the first is not there: its disk is not mounted, or another one is."""
    found = [state.path / home for home in state.base.homes[1:] if (state.path / home).is_dir()]
    if not found:
        return None
    home, becomes = random.choice(found), random.choice(["gone", "empty", "a file", "without its identity"])
    if becomes == "without its identity":
        (home / "meta.properties").unlink(missing_ok=True)
        return f"{home.name} is {becomes}"
    shutil.rmtree(home)
    if becomes == "empty":
        home.mkdir()
    elif becomes == "a file":
        home.touch()
    return f"{home.name} is {becomes}"


def move_directory(random: Random, state: State) -> str | None:
    """A partition lies in another log directory, or there, too."""
    found = state.of_partitions()
    if not found or len(state.base.homes) == 1:
        return None
    path = random.choice(found)
    homes = [state.path / home for home in state.base.homes]
    target = random.choice([home for home in homes if home != path.parent]) / path.name
    if target.exists() or not target.parent.is_dir():
        return None
    if random.random() < 0.5:
        path.rename(target)
        return f"move {state.short(path)} to {state.short(target)}"
    shutil.copytree(path, target)
    return f"double {state.short(path)} as {state.short(target)}"


def swap_homes(random: Random, state: State) -> str | None:
    """The log directories were mounted in each other's place."""
    homes = [state.path / home for home in state.base.homes]
    if len(homes) == 1 or not all(home.is_dir() for home in homes):
        return None
    between = state.path / "between"
    homes[0].rename(between)
    homes[1].rename(homes[0])
    between.rename(homes[1])
    return "swap the log directories"


MUTATIONS: tuple[Mutation, ...] = (
    drop_file,
    drop_file,
    drop_segment,
    drop_directory,
    truncate,
    truncate,
    extend,
    flip,
    flip,
    flip,
    zero,
    swap,
    double_file,
    double_segment,
    double_directory,
    resurrect,
    resurrect,
    roll_back,
    undo_rename,
    touch,
    lose_home,
    move_directory,
    swap_homes,
)


def mutate(random: Random, state: State) -> list[str]:
    """One to four of them; what they did."""
    done: list[str] = []
    while len(done) < random.choice([1, 1, 1, 2, 2, 3, 4]):
        said = random.choice(MUTATIONS)(random, state)
        if said is not None:
            done.append(said)
    return done
