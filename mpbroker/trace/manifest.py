"""`manifest.jsonl` of a trace directory: one line per closed segment, so that a reader opens only the files it needs.

Written by the tracer alone; a convenience that can be rebuilt from the segments' headers. A last line without its end
(a crash) is ignored, lines of files that retention has deleted are too.
"""

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from mpbroker.trace import segment

FILE = "manifest.jsonl"


class ManifestRow(NamedTuple):
    """A closed segment. `finished`, `dropped`, `sampled_out`: this segment's share; times in nanoseconds since 1970."""

    file: str
    broker: int
    boot: str
    ring: int
    first_seq: int
    records: int
    finished: int
    dropped: int
    sampled_out: int
    epoch_min_ns: int
    epoch_max_ns: int
    max_total_ns: int
    apis: dict[str, int]
    crc: int
    file_bytes: int


def row_of(info: segment.SegmentInfo) -> ManifestRow:
    """The line of a closed segment."""
    closed, offset_ns = info.closed, info.epoch_offset_ns
    assert closed is not None, "only closed segments stand in the manifest"
    apis = {str(api): count for api, count in enumerate(closed.api_counts) if count}
    finished, _, dropped, sampled_out = info.progress.share()
    return ManifestRow(
        info.path.name,
        info.opened.broker_id,
        f"{info.opened.boot_id:016x}",
        info.opened.ring,
        info.opened.first_seq,
        closed.record_count,
        finished,
        dropped,
        sampled_out,
        closed.t0_min_ns + offset_ns,
        closed.t0_max_ns + offset_ns,
        closed.max_total_ns,
        apis,
        closed.records_crc,
        info.file_bytes,
    )


def append(directory: Path, info: segment.SegmentInfo) -> None:
    """Add a line and sync it."""
    file = os.open(directory / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        os.write(file, b"\n" * torn + _line(row_of(info)))
        os.fsync(file)
    finally:
        os.close(file)


def read(directory: Path) -> list[ManifestRow]:
    """Every readable line whose file is there; the last line of a file counts."""
    try:
        text = (directory / FILE).read_text()
    except FileNotFoundError:
        return []
    rows: dict[str, ManifestRow] = {}
    for line in text.splitlines():
        try:
            row = ManifestRow(**json.loads(line))
        except (ValueError, TypeError):
            continue  # torn by a crash, or from a later version: the segment's own header still says it all
        rows[row.file] = row
    return [row for name, row in rows.items() if (directory / name).exists()]


def rebuild(directory: Path) -> list[ManifestRow]:
    """Rewrite the manifest from the headers of the closed segments; returns its rows."""
    rows = [row_of(info) for info in segments(directory) if info.closed is not None]
    _replace(directory, map(_line, rows))
    return rows


def forget(directory: Path, names: set[str]) -> None:
    """Take the lines of deleted files out."""
    try:
        lines = (directory / FILE).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    prefixes = tuple(_line_start(name) for name in names)
    _replace(directory, [line for line in lines if not line.startswith(prefixes) and line.endswith(b"\n")])


def segments(
    directory: Path,
    pattern: str | None = None,
    skip: Collection[str] = (),
    complaints: list[str] | None = None,
    start: str = "",
) -> list[segment.SegmentInfo]:
    """Headers of the segments in a directory, by name, those in `skip` left out; of those whose names begin with
    `start`, or of whatever `pattern` finds.

    Damaged files are left out too, unless their records can be read; each has a sentence in `complaints`.
    """
    found = []
    for path in segment.find(directory, start) if pattern is None else sorted(directory.glob(pattern)):
        if path.name in skip:
            continue
        try:
            found.append(segment.read_info(path))
            damage = found[-1].damage
        except FileNotFoundError:
            continue  # retention was quicker
        except segment.SegmentError as error:
            damage = str(error)
        if damage and complaints is not None:
            complaints.append(damage)
    return found


def _line(row: ManifestRow) -> bytes:
    return json.dumps(row._asdict(), separators=(",", ":")).encode() + b"\n"


def _line_start(name: str) -> bytes:
    return f'{{"file":"{name}"'.encode()


def _replace(directory: Path, lines: Iterable[bytes]) -> None:
    temporary = directory / (FILE + ".new")
    with open(temporary, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / FILE)
