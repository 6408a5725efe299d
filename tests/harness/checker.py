"""Finds what a broker must never do in a history of writes and reads. O(n log n), no search.

The final reads are the truth about each partition's log. Every check has a name; test_checker.py plants each anomaly in
a clean history and sees that it is found under its name.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.harness.history import CORRUPT, FAILED, FINAL, OK, History, Read, Value, Write, by_session, final_log


class Anomaly(NamedTuple):
    """One violation: its name, where, and a sentence with the numbers."""

    name: str
    partition: int
    detail: str


def check(history: History, log_start: dict[int, int] | None = None, allow_duplicates: bool = False) -> list[Anomaly]:
    """Every anomaly of a history. `log_start`: first offset the log still has, 0 where not given."""
    logs = final_log(history.reads)
    found = list(_acknowledged(history.writes, logs, log_start or {}))
    found += _conflicts(history)
    found += _contents(history, allow_duplicates)
    found += _log_shape(logs)
    found += _real_time_order(history.writes)
    found += _producer_order(history.writes, logs)
    for reads in by_session(history.reads):
        found += _session(reads)
    found += _vanished(history.reads, logs, log_start or {})
    return found


def summary(anomalies: list[Anomaly], examples: int = 3) -> str:
    """Numbers by name, with the first few of each; one line when there are none."""
    if not anomalies:
        return "no anomaly"
    lines = []
    for name, count in Counter(one.name for one in anomalies).most_common():
        lines.append(f"{name}: {count}")
        lines += [f"  partition {one.partition}: {one.detail}" for one in anomalies if one.name == name][:examples]
    return "\n".join(lines)


def longest_gap_ms(writes: list[Write]) -> dict[int, float]:
    """Partition → longest time between two acknowledgements, in milliseconds."""
    ends: dict[int, list[int]] = {}
    for write in writes:
        if write.result == OK:
            ends.setdefault(write.partition, []).append(write.end_ns)
    return {
        partition: max((b - a for a, b in zip(sorted(times), sorted(times)[1:], strict=False)), default=0) / 1e6
        for partition, times in ends.items()
    }


def _acknowledged(
    writes: list[Write], logs: dict[int, list[tuple[int, Value]]], starts: dict[int, int]
) -> Iterator[Anomaly]:
    """lost, unseen, moved: an acknowledged write is found where its acknowledgement said."""
    at = {partition: dict(records) for partition, records in logs.items()}
    where = {(partition, value): offset for partition, records in logs.items() for offset, value in records}
    for write in writes:
        if write.result != OK or write.offset < starts.get(write.partition, 0):
            continue
        log = at.get(write.partition, {})
        if log.get(write.offset) == write.value:
            continue
        elsewhere = where.get((write.partition, write.value))
        if elsewhere is not None:
            yield Anomaly(
                "moved", write.partition, f"{write.value} acknowledged at {write.offset}, found at {elsewhere}"
            )
        elif write.offset > max(log, default=-1):
            yield Anomaly(
                "unseen", write.partition, f"{write.value} acknowledged at {write.offset}, the log ends before"
            )
        else:
            yield Anomaly("lost", write.partition, f"{write.value} acknowledged at {write.offset}, not in the log")


def _conflicts(history: History) -> Iterator[Anomaly]:
    """conflicting-acks, conflicting-reads: one offset, two values."""
    acknowledged: dict[tuple[int, int], Value] = {}
    for write in history.writes:
        if write.result == OK:
            first = acknowledged.setdefault((write.partition, write.offset), write.value)
            if first != write.value:
                yield Anomaly("conflicting-acks", write.partition, f"{first} and {write.value} both at {write.offset}")
    seen: dict[tuple[int, int], Value] = {}
    for read in history.reads:
        for offset, value in read.records:
            first = seen.setdefault((read.partition, offset), value)
            if first != value:
                yield Anomaly("conflicting-reads", read.partition, f"{first} and {value} both read at {offset}")
                seen[read.partition, offset] = value


def _contents(history: History, allow_duplicates: bool) -> Iterator[Anomaly]:
    """corrupt, phantom, aborted-read, wrong-partition, duplicated: what is read was sent there, once."""
    sent = {write.value: write for write in history.writes}
    places: dict[Value, set[tuple[int, int]]] = {}
    for read in history.reads:
        for offset, value in read.records:
            places.setdefault(value, set()).add((read.partition, offset))
    for value, found in places.items():
        partition, offset = min(found)
        write = sent.get(value)
        if value == CORRUPT:
            yield from (
                Anomaly("corrupt", bad, f"bytes at {at} are not what anybody sent") for bad, at in sorted(found)
            )
        elif write is None:
            yield Anomaly("phantom", partition, f"{value} at {offset} was never sent")
        elif write.result == FAILED:
            yield Anomaly("aborted-read", partition, f"{value} at {offset} was refused when it was sent")
        elif any(other != write.partition for other, _ in found):
            yield Anomaly("wrong-partition", partition, f"{value} was sent to {write.partition}")
        elif len(found) > 1 and not allow_duplicates:
            yield Anomaly("duplicated", partition, f"{value} at {sorted(offset for _, offset in found)}")


def _log_shape(logs: dict[int, list[tuple[int, Value]]]) -> Iterator[Anomaly]:
    """hole: offsets of a log without compaction and transactions follow each other."""
    for partition, records in logs.items():
        for (before, _), (offset, _) in itertools.pairwise(records):
            if offset > before + 1:
                yield Anomaly("hole", partition, f"offset {before} is followed by {offset}")


def _real_time_order(writes: list[Write]) -> Iterator[Anomaly]:
    """real-time-order: a write that began after another had been acknowledged has the higher offset."""
    partitions: dict[int, list[Write]] = {}
    for write in writes:
        if write.result == OK:
            partitions.setdefault(write.partition, []).append(write)
    for partition, acknowledged in partitions.items():
        by_end = sorted(acknowledged, key=lambda write: write.end_ns)
        place, highest = 0, None
        for write in sorted(acknowledged, key=lambda write: write.start_ns):
            while by_end[place].end_ns < write.start_ns:
                if highest is None or by_end[place].offset > highest.offset:
                    highest = by_end[place]
                place += 1
            if highest is not None and highest.offset >= write.offset:
                yield Anomaly(
                    "real-time-order",
                    partition,
                    f"{write.value} got {write.offset} after {highest.value} had been acknowledged at {highest.offset}",
                )


def _producer_order(writes: list[Write], logs: dict[int, list[tuple[int, Value]]]) -> Iterator[Anomaly]:
    """reordered: within a session, counters rise in the log."""
    session = {write.value: (write.client, write.session) for write in writes}
    for partition, records in logs.items():
        last: dict[tuple[str, str], int] = {}
        for offset, value in sorted(records):
            key = session.get(value)
            if key is not None:
                if value[1] < last.get(key, -1):
                    yield Anomaly("reordered", partition, f"{value} at {offset} stands after {last[key]}")
                last[key] = max(value[1], last.get(key, -1))


def _session(reads: list[Read]) -> Iterator[Anomaly]:
    """non-monotonic-poll, skipped, beyond-high-watermark, high-watermark-regress, leader-epoch-regress: one reader's
    view."""
    partition, next_offset, watermark, epoch = reads[0].partition, None, -1, -1
    for read in reads:
        for offset, _ in read.records:
            if next_offset is not None and offset < next_offset:
                yield Anomaly("non-monotonic-poll", partition, f"{read.session} got {offset} after {next_offset - 1}")
            elif next_offset is not None and offset > next_offset and read.session != FINAL:
                yield Anomaly("skipped", partition, f"{read.session} got {offset} where {next_offset} was due")
            if offset >= read.high_watermark:
                yield Anomaly(
                    "beyond-high-watermark", partition, f"{read.session} got {offset}, told {read.high_watermark}"
                )
            next_offset = offset + 1
        if read.high_watermark < watermark:
            yield Anomaly(
                "high-watermark-regress", partition, f"{read.session} was told {watermark}, then {read.high_watermark}"
            )
        if -1 < read.leader_epoch < epoch:
            yield Anomaly(
                "leader-epoch-regress", partition, f"{read.session} saw epoch {epoch}, then {read.leader_epoch}"
            )
        watermark, epoch = max(watermark, read.high_watermark), max(epoch, read.leader_epoch)


def _vanished(reads: list[Read], logs: dict[int, list[tuple[int, Value]]], starts: dict[int, int]) -> Iterator[Anomaly]:
    """vanished: what a reader saw is still there at the end."""
    at = {partition: {offset for offset, _ in records} for partition, records in logs.items()}
    told: set[tuple[int, int]] = set()
    for read in reads:
        for offset, value in read.records:
            kept = offset < starts.get(read.partition, 0) or offset in at.get(read.partition, ())
            if not kept and (read.partition, offset) not in told:
                told.add((read.partition, offset))
                yield Anomaly("vanished", read.partition, f"{value} was read at {offset}, which the log has no more")
