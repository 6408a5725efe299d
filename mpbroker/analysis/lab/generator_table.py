"""What the load generator itself did: its processor time and its lateness; and whether it gave out before the broker.

Pure: tables in, rows out. A generator process has one thread, so one core is all that it can use. It gave out where it
used that core up, or where a request spent more time waiting for the generator (before it was sent, itself or those
before it, and its answer before it was read) than for the broker (for its answer, and for those that held it back).
Less lateness than that is a caveat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.lab.latency_table import percentile
from mpbroker.analysis.lab.variant_run import VariantResult

Row = dict[str, Any]
MAX_CPU_SHARE = 0.85  # of a core; from there on requests wait for each other in the generator
MOST_SENTENCES = 4
MIN_LATE_US = 1000.0  # lateness that is less than this is every timer's
_KEYS = ("variant", "repeat", "phase", "group", "process")

SCHEMA = pa.schema(
    [
        ("variant", pa.string()),
        ("repeat", pa.int32()),
        ("phase", pa.string()),
        ("group", pa.string()),
        ("process", pa.int32()),
        ("requests", pa.int64()),
        ("cpu_share", pa.float64()),
        ("send_late_p50_us", pa.float64()),
        ("send_late_p99_us", pa.float64()),
        ("read_late_p99_us", pa.float64()),
        ("own_mean_us", pa.float64()),
        ("answer_mean_us", pa.float64()),
        ("answer_p99_us", pa.float64()),
        ("net_mean_us", pa.float64()),
        ("net_p99_us", pa.float64()),
        ("late", pa.bool_()),
        ("gave_out", pa.bool_()),
    ]
)


def generator_load(clients: pa.Table, results: Sequence[VariantResult]) -> pa.Table:
    """A row per run, phase, group and generator process. `send_late`: from when nothing else stood in the way until
    the request was sent; `read_late`: from an answer's arrival until it was read; `own`: both; `answer`: from sending a
    request until its answer arrived; `net`: that, and what the broker held it back before; `cpu_share`: of one core.
    `late`, `gave_out`: what is to be said about it."""
    shares = dict(_cpu_shares(results))
    rows = [_row(key, part, shares.get(tuple(key.values()), 0.0)) for key, part in _parts(clients)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _cpu_shares(results: Sequence[VariantResult]) -> Iterator[tuple[tuple[Any, ...], float]]:
    for result in results:
        for group, summaries in result.summaries.items():
            for process, summary in enumerate(summaries):
                for (phase, begin, end), cpu_us in zip(result.phases, summary["phase_cpu_us"], strict=False):
                    key = (result.variant.name, result.repeat, phase, group, process)
                    yield key, cpu_us * 1000 / max(1, end - begin)


def _parts(clients: pa.Table) -> Iterator[tuple[Row, pa.Table]]:
    for key in clients.select(_KEYS).group_by(list(_KEYS), use_threads=False).aggregate([]).to_pylist():
        mask = pc.equal(clients["variant"], key["variant"])
        for name in _KEYS[1:]:
            mask = pc.and_(mask, pc.equal(clients[name], key[name]))
        yield key, clients.filter(mask)


def _row(key: Row, rows: pa.Table, cpu_share: float) -> Row:
    sent = rows.filter(pc.is_valid(rows["sent_ns"]))
    read = rows.filter(pc.is_valid(rows["arrived_ns"]))
    send_late, read_late = _us(sent["sent_ns"], sent["ready_ns"]), _us(read["done_ns"], read["arrived_ns"])
    own, answer = _us(read["sent_ns"], read["ready_ns"]) + read_late, _us(read["arrived_ns"], read["sent_ns"])
    net = answer + _us(read["ready_ns"], read["intended_ns"])
    own_mean, answer_mean, net_mean = (float(each.mean()) if len(each) else 0.0 for each in (own, answer, net))
    return {
        **key,
        "requests": len(rows),
        "cpu_share": cpu_share,
        "send_late_p50_us": percentile(send_late, 0.5),
        "send_late_p99_us": percentile(send_late, 0.99),
        "read_late_p99_us": percentile(read_late, 0.99),
        "own_mean_us": own_mean,
        "answer_mean_us": answer_mean,
        "answer_p99_us": percentile(answer, 0.99),
        "net_mean_us": net_mean,
        "net_p99_us": percentile(net, 0.99),
        "late": bool(percentile(own, 0.99) >= max(MIN_LATE_US, percentile(net, 0.99))),
        "gave_out": bool(cpu_share >= MAX_CPU_SHARE or own_mean > max(MIN_LATE_US, net_mean)),
    }


def _us(later: pa.ChunkedArray, earlier: pa.ChunkedArray) -> np.ndarray:
    found: np.ndarray = (later.to_numpy() - earlier.to_numpy()) / 1000
    return found


def worst(generators: Sequence[Row], variant: str, phase: str, group: str) -> Row | None:
    """The process of a group that gave out in a phase (the busiest of them, should there be several); or None."""
    there = [
        row
        for row in generators
        if row["gave_out"] and (row["variant"], row["phase"], row["group"]) == (variant, phase, group)
    ]
    return max(there, key=lambda row: (row["cpu_share"], row["send_late_p99_us"]), default=None)


def told(row: Row) -> str:
    """`its process used 93 % of a core and sent 1 % of its requests more than 13 ms late`."""
    return f"its process used {wording.share(row['cpu_share'])} of a core and {_lateness(row)}"


def _lateness(row: Row) -> str:
    return f"sent 1 % of its requests more than {wording.duration(row['send_late_p99_us'] * 1000)} late"


def sentences(generators: Sequence[Row], measured: str) -> list[str]:
    """Where generators gave out, then where they were only late: a sentence per group and variant; one for all where
    there are many, for they bury what a reader came for."""
    found = _each(generators, measured)
    return found if len(found) <= MOST_SENTENCES else _together(generators, measured)


def _together(generators: Sequence[Row], measured: str) -> list[str]:
    """At most one sentence on those that gave out and one on those that were late; the table has every row."""
    found = []
    bad = [row for row in generators if row["gave_out"]]
    if bad:
        mine = [row for row in bad if row["group"] == measured]
        row = max(mine or bad, key=lambda one: (one["cpu_share"], one["send_late_p99_us"]))
        meaning = (
            f"what {measured} saw there is the generator's doing as much as the broker's"
            if mine
            else "these loads were not what was intended"
        )
        found.append(
            f"The load generator gave out in {len(bad)} of {len(generators)} places (run, phase, group), "
            f"{len(mine)} of them {measured}; for example “{row['variant']}”, {row['group']}, in “{row['phase']}”: "
            f"{told(row)}. So {meaning}."
        )
    late = [row for row in generators if row["late"] and not row["gave_out"]]
    if late:
        row = max(late, key=lambda one: float(one["send_late_p99_us"]))
        found.append(
            f"The load generator waited for a core in {len(late)} more; at worst (“{row['variant']}”, "
            f"{row['group']}, in “{row['phase']}”) it {_lateness(row)}. Net latency leaves that out, but requests came "
            "in other moments than intended."
        )
    return found


def _each(generators: Sequence[Row], measured: str) -> list[str]:
    found = []
    for where, rows in _by_group([row for row in generators if row["gave_out"]]):
        row = max(rows, key=lambda one: (one["cpu_share"], one["send_late_p99_us"]))
        meaning = (
            "latencies there are those of the generator as much as of the broker, and say nothing of its limit"
            if row["group"] == measured
            else "its load was not what was intended"
        )
        found.append(f"The load generator gave out: {where}; at worst (“{row['phase']}”) {told(row)}: {meaning}.")
    for where, rows in _by_group([row for row in generators if row["late"] and not row["gave_out"]]):
        row = max(rows, key=lambda one: float(one["send_late_p99_us"]))
        found.append(
            f"The load generator waited for a core: {where}; at worst (“{row['phase']}”) it {_lateness(row)}. Net "
            "latency leaves that out, but requests came in other moments than intended."
        )
    return found


def _by_group(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """(`“default”, producers, in “busy”`, its rows) of each variant and group."""
    for key in dict.fromkeys((row["variant"], row["group"]) for row in rows):
        mine = [row for row in rows if (row["variant"], row["group"]) == key]
        phases = wording.listed([f"“{phase}”" for phase in dict.fromkeys(row["phase"] for row in mine)])
        yield f"“{key[0]}”, {key[1]}, in {phases}", mine
