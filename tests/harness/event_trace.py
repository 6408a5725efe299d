"""Writes what the event model did as real trace segments, with losses and sampling if asked for, and the dictionary's
rows."""

import json
import random
from pathlib import Path
from typing import NamedTuple

from mpbroker import _native
from mpbroker.trace import record, segment, segment_writer
from mpbroker.trace.clock_sample import ClockSample
from tests.harness.event_model import CLIENT_HASHES, CONTROLLER_HASH, MOVED_TOPIC, TOPIC_HASHES, Outcome

BASE_NS = 1_000_000_000_000
EPOCH_OFFSET_NS = 1_700_000_000_000_000_000 - BASE_NS  # the model begins at a whole second of 2023
APIS = {"0": "Produce", "1": "Fetch", "3": "Metadata", "4": "LeaderAndIsr"}
CLIENT_NAMES = {**{number: f"client-{number}" for number in CLIENT_HASHES}, CONTROLLER_HASH: "controller"}
TOPIC_NAMES = {**{number: f"topic-{number}" for number in TOPIC_HASHES}, MOVED_TOPIC: "moved"}


class Marker(NamedTuple):
    """A phase, milliseconds after the model's beginning."""

    text: str
    at_ms: int


class TraceOptions(NamedTuple):
    """How it is written. `dropped`: every n-th request is lost by its lane; `sample_shift`: keep one of 2**n plain
    requests."""

    broker_id: int = 1
    boot_id: int = 0xB007
    delay_ms: int = 0
    dropped: int = 0
    sample_shift: int = 0
    segment_records: int = 1500
    markers: tuple[Marker, ...] = ()


def write_trace(directory: Path, outcome: Outcome, options: TraceOptions = TraceOptions()) -> list[Path]:
    """One lane per processor, several segments each; the files written."""
    directory.mkdir(parents=True, exist_ok=True)
    base_ns = BASE_NS + options.delay_ms * 1_000_000
    lanes: dict[int, list[record.TraceRecord]] = {}
    for one in outcome.records(base_ns):
        lanes.setdefault(one.proc_id, []).append(one)
    written = []
    for ring, records in sorted(lanes.items()):
        written += _write_lane(directory, ring, records, options)
    _write_names(directory, options, base_ns)
    return written


def _write_lane(directory: Path, ring: int, records: list[record.TraceRecord], options: TraceOptions) -> list[Path]:
    progress, first_seq, written = segment.Progress(), 0, []
    for start in range(0, len(records), options.segment_records):
        part = records[start : start + options.segment_records]
        kept, dropped, sampled_out = _choose(part, options)
        numbered = [one._replace(seq_lo=first_seq + n) for n, one in enumerate(kept)]
        present = progress._replace(
            finished=progress.base_finished + len(part),
            written=progress.base_written + len(kept),
            dropped=progress.base_dropped + dropped,
            sampled_out=progress.base_sampled_out + sampled_out,
        )
        written.append(_write_segment(directory, options, ring, first_seq, present, numbered))
        progress, first_seq = present.following(), first_seq + len(kept)
    return written


def _choose(records: list[record.TraceRecord], options: TraceOptions) -> tuple[list[record.TraceRecord], int, int]:
    """What is left of the records after loss and sampling; how many were lost, how many sampled out."""
    alive = [one for one in records if not options.dropped or one.corr_id % options.dropped]
    if not options.sample_shift:
        return alive, len(records) - len(alive), 0
    kept, chance = [], random.Random(options.boot_id)
    for one in alive:
        if one.error or one.plane:
            kept.append(one._replace(flags=one.flags | record.KEPT))
        elif chance.getrandbits(options.sample_shift) == 0:
            kept.append(one._replace(flags=one.flags | options.sample_shift << record.SAMPLE_SHIFT))
    return kept, len(records) - len(alive), len(alive) - len(kept)


def _clock(monotonic_ns: int) -> ClockSample:
    return ClockSample(monotonic_ns, monotonic_ns + EPOCH_OFFSET_NS, monotonic_ns, monotonic_ns, 150)


def _write_segment(
    directory: Path,
    options: TraceOptions,
    ring: int,
    first_seq: int,
    progress: segment.Progress,
    records: list[record.TraceRecord],
) -> Path:
    begin_ns = records[0].t0_ns if records else BASE_NS
    listeners = [
        {"name": "CLIENTS", "protocol": "PLAINTEXT", "control": False},
        {"name": "CONTROLLER", "protocol": "PLAINTEXT", "control": True},
    ]
    opened = segment.Opened(
        options.broker_id,
        options.boot_id,
        ring,
        first_seq,
        "event-model",
        0,
        _clock(begin_ns),
        {"version": "model", "listeners": listeners, "apis": APIS},
    )
    data = b"".join(one.pack() for one in records)
    tally = _native.TraceTally(first_seq)
    tally.add(data)
    page = bytearray(segment.pack_opened(opened))
    segment.PROGRESS.pack_into(page, segment.PROGRESS_OFFSET, *progress)
    closed = segment.pack_closed(segment_writer.closed(tally)._replace(clock=_clock(begin_ns + 1_000_000_000)))
    page[segment.CLOSE_OFFSET : segment.CLOSE_OFFSET + len(closed)] = closed
    path = directory / segment.file_name(options.broker_id, options.boot_id, ring, first_seq)
    path.write_bytes(bytes(page) + data)
    return path


def _write_names(directory: Path, options: TraceOptions, base_ns: int) -> None:
    rows: list[dict[str, object]] = [{"k": "boot", "broker": options.broker_id, "boot": f"{options.boot_id:016x}"}]
    rows += [{"k": "client", "hash": number, "name": name} for number, name in CLIENT_NAMES.items()]
    rows += [{"k": "topic", "hash": number, "name": name} for number, name in TOPIC_NAMES.items()]
    rows += [
        {"k": "marker", "n": number, "text": marker.text, "t0_ns": base_ns + marker.at_ms * 1_000_000}
        for number, marker in enumerate(options.markers)
    ]
    path = directory / f"dict-b{options.broker_id}-{options.boot_id & 0xFFFFFFFF:08x}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
