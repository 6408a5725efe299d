"""What must hold after a start on files that something was done to, worked out from the files alone.

- kept: every byte that was there is there, under its name or beside it as `.cut`;
- served: a batch that was acknowledged and is sound in its place is read, or its partition is offline (only if
  something was done to that partition) and its files are as they were;
- refused: nothing has changed at all.

A batch is sound in its place if its log file can be walked up to it and no other log file that begins where its name
says lies nearer. What lies behind damage above the recovery point after an unclean stop is given up, as Kafka does.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from crc32c import crc32c

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_checkpoint
from mpbroker.log.clean_shutdown import MARKER
from mpbroker.log.data_dir import META_FILE
from mpbroker.log.producer_snapshot import read_snapshot
from tests.filestates.bases import DELETED, HEADER_BYTES, Base, Batch
from tests.filestates.started import Running

Files = dict[str, bytes]  # path below the data directory → content
STORE = "metadata.db"
CHECKPOINTS = (LOG_START, RECOVERY_POINT, HIGH_WATERMARK)
OF_ALL = (*CHECKPOINTS, META_FILE)  # what tells of all partitions of a log directory
TXN_ENTRY = 34  # bytes
IDENTITY = ("partition.metadata", "leader-epoch-checkpoint")
GIVEN_UP = (".deleted", ".snapshot.tmp", "partition.metadata.tmp", "leader-epoch-checkpoint.tmp", ".lock", "-shm")
_HEADER = struct.Struct(">qiibI")


def read_files(path: Path) -> Files:
    """Every file of a data directory."""
    return dict(_read(os.fspath(path), ""))


def _read(directory: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in os.scandir(directory):
        if entry.is_dir():
            yield from _read(entry.path, f"{prefix}{entry.name}/")
        else:
            with open(entry.path, "rb", buffering=0) as file:
                yield prefix + entry.name, file.readall()


class _Walked(NamedTuple):
    batches: list[Batch]  # sound ones
    whole: bool  # nothing damaged, nothing behind the last
    first: int  # offset of the first batch, -1: none can be walked to
    cut_off: bool = False  # but for its end, which is missing


def _walk(data: bytes, base: int, *, past_damage: bool) -> _Walked:
    found: list[Batch] = []
    at, following, first, whole = 0, base, -1, True
    while at < len(data):
        if at + HEADER_BYTES > len(data):
            return _Walked(found, False, first, whole)
        offset, size, _epoch, magic, crc = _HEADER.unpack_from(data, at)
        end = at + 12 + size
        (delta,) = struct.unpack_from(">i", data, at + 23)
        if magic != 2 or size < HEADER_BYTES - 12 or offset < following or delta < 0:
            return _Walked(found, False, first)
        if end > len(data):
            return _Walked(found, False, first, whole)
        if at == 0:
            first = offset
        if crc32c(data[at + 21 : end]) == crc:
            found.append(Batch(offset, offset + delta, data[at:end]))
        elif past_damage:
            whole = False
        else:
            return _Walked(found, False, first)
        at, following = end, offset + delta + 1
    return _Walked(found, whole, first)


def _segments(files: Files, directory: str) -> dict[int, bytes]:
    """Base offset → content of every log file."""
    names = [_file(name) for name in files if name.rpartition("/")[0] == directory]
    stems = [name[:-4] for name in names if name.endswith(".log") and len(name) == 24 and name[:-4].isdecimal()]
    return {int(stem): files[f"{directory}/{stem}.log"] for stem in sorted(stems)}


def _file(name: str) -> str:
    return name.rpartition("/")[2]


def home_of(files: Files, base: Base, directory: str) -> str:
    """The log directory in which a start finds the partition: its own, else the only one in which it lies."""
    there = [home for home in base.homes if any(name.startswith(f"{home}{directory}/") for name in files)]
    own = base.home_of[directory]
    return there[0] if len(there) == 1 and own not in there else own


def is_clean(files: Files, home: str) -> bool:
    """Whether the last stop says of a log directory that it was clean."""
    try:
        return isinstance(json.loads(files[home + MARKER]), dict)
    except (KeyError, ValueError):
        return False


def required(path: Path, files: Files, base: Base, directory: str) -> tuple[list[Batch], bool]:
    """The acknowledged batches of a partition that a start on these files has to serve; whether nothing else than
    they is in its logs, so that a consumer comes from each to the next."""
    topic, _, partition = directory.rpartition("-")
    who, home = (topic, int(partition)), home_of(files, base, directory)
    if not (path / home).is_dir():
        return [], False
    clean, log_start = is_clean(files, home), read_checkpoint(str(path / home / LOG_START)).get(who, 0)
    believed = _believed(path / home, directory)
    recovery_point = read_checkpoint(str(path / home / RECOVERY_POINT)).get(who, 0) if believed else 0
    segments = _segments(files, home + directory)
    bases, wanted = list(segments), dict.fromkeys(base.batches[directory])
    walked: dict[int, _Walked] = {}
    for number, start in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        settled = clean or (following is not None and following <= recovery_point)
        walked[start] = _walk(segments[start], start, past_damage=settled)
        if not walked[start].whole and not settled:
            break
    named = [start for start, found in walked.items() if found.first == start]
    sound = [
        batch
        for start in named
        for batch in walked[start].batches
        if batch in wanted and named[bisect_right(named, batch.first) - 1] == start
    ]
    end = max((batch.last + 1 for found in walked.values() for batch in found.batches), default=0)
    served = [batch for batch in sound if batch.first >= log_start or log_start > end]
    plain = len(named) == len(bases) and all(found.whole or found.cut_off for found in walked.values())
    return served, plain and len(served) == sum(len(found.batches) for found in walked.values())


def _believed(path: Path, directory: str) -> bool:
    """A checkpoint says nothing about a directory that is younger."""
    made = [file.stat().st_mtime_ns for name in IDENTITY if (file := path / directory / name).exists()]
    checkpoint = path / RECOVERY_POINT
    return bool(made) and checkpoint.exists() and min(made) < checkpoint.stat().st_mtime_ns


def changed(before: Files, after: Files) -> list[str]:
    """Names of what is not as it was."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def not_kept(before: Files, after: Files, *, was_written: bool) -> list[str]:
    """Files whose bytes are not all there any more. `was_written`: the log keeper of a real broker, or of a clean stop,
    replaced checkpoints and old snapshots; the coordinator of a real one may have ended a transaction. What the base
    deleted goes if the store, without its last transaction, says that it is still to go."""
    lost = [name for name, data in before.items() if data and not _is_kept(name, data, before, after, was_written)]
    to_go = [name for name in lost if _file(name.rpartition("/")[0]) == f"{DELETED}-0"]
    return [name for name in lost if name not in to_go] if to_go and _is_still_to_go(before) else lost


def _is_still_to_go(files: Files) -> bool:
    """Whether the store holds an unfinished deletion; the base deleted one topic."""
    with TemporaryDirectory() as directory:
        for name, data in files.items():
            if _file(name) in (STORE, f"{STORE}-wal"):
                Path(directory, _file(name)).write_bytes(data)
        with closing(sqlite3.connect(Path(directory, STORE))) as db, suppress(sqlite3.Error):
            return bool(db.execute("SELECT 1 FROM kv WHERE key LIKE '%/admin/delete/%'").fetchall())
    return False


def _store_is_same(before: Files, original: Files) -> bool:
    """Whether nothing was done to the files that say which topics there are, and which directory is which."""
    names = [name for name in before | original if _file(name).startswith(STORE) or _file(name) == META_FILE]
    return all(before.get(name) == original.get(name) for name in names)


def _is_kept(name: str, data: bytes, before: Files, after: Files, was_written: bool) -> bool:
    top, _, file = name.rpartition("/")
    written = file in CHECKPOINTS or file.endswith((".snapshot", *(f"{one}.tmp" for one in CHECKPOINTS)))
    if file.endswith(GIVEN_UP) or top.endswith("-delete") or file.startswith((STORE, MARKER)):
        return True
    if after.get(name) == data or (was_written and written):
        return True
    if was_written and file.endswith(".log") and after.get(name, b"").startswith(data):
        return True
    stem, _, suffix = file.partition(".")
    if suffix in ("index", "timeindex", "txnindex") and f"{top}/{stem}.log" in before:
        return True
    whole = [*_aside(f"{name}.cut", after), *_aside(f"{name}.0.cut", after), f"{name}.deleted"]
    if any(after.get(other) == data for other in whole):
        return True
    heads = [after.get(name, b""), *(after[other] for other in _aside(f"{name}.cut", after))]
    tails = [(head, f"{name}.{len(head)}.cut") for head in heads if data.startswith(head)]
    return any(head + after[other] == data for head, tail in tails for other in _aside(tail, after))


def _aside(wanted: str, after: Files) -> list[str]:
    return [name for name in after if name == wanted or name.startswith(f"{wanted}.")]


class Expected(NamedTuple):
    """Of one partition: the batches that have to be served; offsets that are missing, with the batch that a consumer
    gets there; whether anything was done to it; whether its producers' state has to be whole, and whether it is that
    of its own batches alone (a segment of another partition behind its end adds to it); what readers of committed
    records are told."""

    batches: list[Batch]
    holes: list[tuple[int, Batch]]
    touched: bool
    producers: bool
    alone: bool
    transactions: bool


def expectations(path: Path, before: Files, base: Base, original: Files) -> dict[str, Expected]:
    """What a start on these files, which `before` has read, owes each partition."""
    changes = changed(before, original)
    found = {}
    for directory in base.batches:
        wanted, is_plain = required(path, before, base, directory)
        holes = [(one.last + 1, other) for one, other in pairwise(wanted) if is_plain and one.last + 1 < other.first]
        touched = any(f"/{directory}/" in f"/{name}" or _file(name) in OF_ALL for name in changes)
        place = home_of(before, base, directory) + directory
        whole = len(wanted) == len(base.batches[directory]) and _snapshots_are_own(path, before, base, directory)
        told = whole and is_plain and not any(_may_mislead(name, before, original, place) for name in changes)
        found[directory] = Expected(wanted, holes, touched, whole, is_plain, told)
    return found


def _may_mislead(name: str, before: Files, original: Files, place: str) -> bool:
    """Whether a changed file is a .txnindex of the partition at `place` that is believed, because it could be one:
    nobody compares that of a segment which is not read anew with the log."""
    if not name.startswith(f"{place}/") or not name.endswith(".txnindex"):
        return False
    data = before.get(name, b"")
    entries = [data[at : at + TXN_ENTRY] for at in range(0, len(data), TXN_ENTRY)]
    return len(data) % TXN_ENTRY == 0 and all(one.startswith(b"\0\0") for one in entries)


def problems(running: Running, wanted: dict[str, Expected], before: Files, base: Base, original: Files) -> list[str]:
    """What ought to be served by a start on `before` and is not; one sentence each."""
    found: list[str] = []
    shown = running.partitions()
    same = _store_is_same(before, original)
    for directory, expected in wanted.items():
        if directory not in shown:
            found += [f"{directory} is not shown"] if same else []
        elif shown[directory]:
            found += not_read(running, directory, [(one.first, one) for one in expected.batches] + expected.holes)
            found += _producers_lost(running, directory, base, expected.alone) if expected.producers else []
            found += _transactions_lost(running, directory, base) if expected.transactions else []
        elif not expected.touched and same:
            found.append(f"{directory} is offline, and nothing was done to it")
    return found


def not_read(running: Running, directory: str, wanted: list[tuple[int, Batch]]) -> list[str]:
    """The first of these offsets at which a read does not give the batch, as a sentence."""
    for offset, batch in wanted:
        error, data = running.read(directory, offset)
        if error or not data.startswith(batch.data):
            got = f"error {error}" if error else f"{data[:8].hex() or 'nothing'}"
            return [f"{directory}: offset {batch.first} is sound, but a read at {offset} gives {got}"]
    return []


def _snapshots_are_own(path: Path, before: Files, base: Base, directory: str) -> bool:
    """Whether every snapshot that would be believed was written under its name."""
    own = base.home_of[directory]
    for name, data in before.items():
        if f"/{directory}/" not in f"/{name}" or not name.endswith(".snapshot"):
            continue
        written = f"{own}{directory}/{_file(name)}"
        originals = [root / written for root in (base.path, base.earlier) if (root / written).is_file()]
        if all(data != file.read_bytes() for file in originals) and read_snapshot(str(path / name)) is not None:
            return False
    return True


def _producers_lost(running: Running, directory: str, base: Base, alone: bool) -> list[str]:
    there = running.producers(directory)
    wanted = base.producers[directory]
    if there is None or there == wanted or (not alone and there.keys() >= wanted.keys()):
        return []
    return [f"{directory}: producers {there}, not {wanted}, though every batch is there"]


def _transactions_lost(running: Running, directory: str, base: Base) -> list[str]:
    there = running.transactions(directory, [one.first for one in base.batches[directory]])
    wanted = base.transactions[directory]
    return [] if there == wanted else [f"{directory}: {there}, not {wanted}, though every batch is there"]
