"""What does a request cost a handler: by API, its bytes and its partitions.

Runs in a command's process, on single requests; sampled ones count by their weight. Handler time is from a request's
taking to the handler's letting go of it, without what it waited in a purgatory. A regression splits it into what every
request costs, what each kilobyte in and out costs, and each partition: that says whether larger batches would pay.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import moments, weighted, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import bounded_part, request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REQUESTS = 500_000
MIN_REQUESTS = 100
MIN_SHARE = 0.05  # of all handler time, for a sentence
CERTAIN = 2.0  # standard errors
#: Of the mean cost: what every request costs, from where larger ones are told to pay, and to where they would not.
MOSTLY, HARDLY = 0.7, 0.3
_SIZES = ("req_bytes", "resp_bytes", "nparts")
_STAGES = ("dispatch_ns", "io_ns", "local_ns", "resp_prep_ns", "purgatory_ns")
_TABLE = pa.schema(
    [
        ("api", pa.string()),
        ("n", pa.int64()),
        ("handler_ns", pa.int64()),
        ("share", pa.float64()),
        *((name, pa.int64()) for name in ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")),
        *((f"mean_{name}", pa.float64()) for name in _SIZES),
        *(
            (f"{name}{end}", pa.float64())
            for name in ("request_ns", "kib_in_ns", "kib_out_ns", "partition_ns")
            for end in ("", "_error")
        ),
        ("explained", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Table service: a row per API. `request_ns`: what any costs; `kib_in_ns` and so on: what each unit adds, null
    where it did not vary; `_error`: one standard error; `explained`: share of the variance that sizes explain."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("service")])
    where, said = bounded_part.where(extent, MAX_REQUESTS)
    table = engine.requests(["api", "weight", *_SIZES, *_STAGES], where)
    served = np.flatnonzero(moments.present(table, "local_ns") | moments.present(table, "io_ns"))
    if not len(served):
        return StudyResult(verdicts=[wording.nothing("service"), *said])
    time = request_time.of(engine, int(table["weight"].to_numpy().sum()) / extent.n)
    table = table.take(served)
    service, weights = _handler_ns(table), np.asarray(table["weight"].to_numpy(), np.int64)
    whole = int((service * weights).sum())
    rows = [_row(str(api), table, service, weights, at, whole) for (api,), at in moments.groups(table, ("api",))]
    rows.sort(key=lambda row: (-row["handler_ns"], row["api"]))
    return StudyResult(
        {"service": pa.Table.from_pylist(rows, _TABLE)},
        [*_verdicts(rows), *said, *wording.caveats(engine.input)],
        _figures(rows),
        findings=[one for row in rows for one in _findings(time, row)],
    )


def _handler_ns(table: pa.Table) -> Int64s:
    answering = np.where(moments.present(table, "purgatory_ns"), 0, moments.column(table, "resp_prep_ns"))
    found: Int64s = sum((moments.column(table, name) for name in _STAGES[:3]), answering)
    return found


def _row(api: str, table: pa.Table, service: Int64s, weights: Int64s, at: Int64s, whole: int) -> dict[str, Any]:
    took, weight = service[at], weights[at]
    sizes = {name: np.asarray(table[name].to_numpy(), np.int64)[at] for name in _SIZES}
    n, spent = int(weight.sum()), int((took * weight).sum())
    row: dict[str, Any] = {"api": api, "n": n, "handler_ns": spent, "share": spent / whole if whole else 0.0}
    row |= {"mean_ns": spent // n, "max_ns": int(took.max())}
    row |= {f"p{q}_ns": weighted.percentile(took, weight, q / 100) for q in (50, 90, 99)}
    row |= {f"mean_{name}": int((values * weight).sum()) / n for name, values in sizes.items()}
    if len(at) < MIN_REQUESTS:
        return row
    line = weighted.least_squares(list(sizes.values()), took, weight)
    units = (1, 1024, 1024, 1)
    for name, unit, slope, error in zip(
        ("request_ns", "kib_in_ns", "kib_out_ns", "partition_ns"), units, line.slopes, line.errors, strict=True
    ):
        row[name] = None if slope is None else slope * unit
        row[f"{name}_error"] = None if error is None else error * unit
    row["explained"] = line.explained
    return row


# Findings and verdicts


def _findings(time: RequestTime, row: dict[str, Any]) -> list[Finding]:
    """What requests of an API cost by being requests, or by their size, whichever is told to be changed."""
    if row["n"] < MIN_REQUESTS or row["share"] < MIN_SHARE or not _sizes_vary(row):
        return []
    fixed = _fixed(row) if _parts(row) else 1.0
    words = (
        f"{row['api']} requests take {wording.duration(row['mean_ns'])} of handler time each; "
        f"{wording.share(fixed)} of that is for any of them, whatever its size."
    )
    if fixed <= HARDLY:
        return time.explained("size_cost", words, row["handler_ns"] * (1 - fixed), row["api"], ("work",))
    return time.explained("fixed_cost", words, row["handler_ns"] * fixed, row["api"], ("work",))


def _sizes_vary(row: dict[str, Any]) -> bool:
    return not row["kib_in_ns"] is row["kib_out_ns"] is row["partition_ns"] is None


def _parts(row: dict[str, Any]) -> list[str]:
    """What sizes cost for certain."""
    return [
        f"{wording.duration(row[name])} for each {unit}"
        for name, unit in (("kib_in_ns", "KiB received"), ("kib_out_ns", "KiB sent"), ("partition_ns", "partition"))
        if row[name] is not None and row[name] > CERTAIN * row[f"{name}_error"]
    ]


def _fixed(row: dict[str, Any]) -> float:
    """Of the mean cost: what any request costs."""
    return min(1.0, max(0.0, row["request_ns"] / row["mean_ns"])) if row["mean_ns"] else 0.0


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    enough = [row for row in rows if row["n"] >= MIN_REQUESTS and row["share"] >= MIN_SHARE]
    if not enough:
        return [f"Too few requests of one kind were served to say what they cost ({sum(row['n'] for row in rows)})."]
    return [words for row in enough for words in (_cost(row), _advice(row))]


def _cost(row: dict[str, Any]) -> str:
    return (
        f"{row['api']} requests take {wording.share(row['share'])} of all handler time, "
        f"{wording.duration(row['mean_ns'])} each ({wording.duration(row['p50_ns'])} at the median, "
        f"{wording.duration(row['p99_ns'])} at p99; {wording.count(row['n'])} requests)."
    )


def _advice(row: dict[str, Any]) -> str:
    """What to do: whether fewer and larger requests pay."""
    parts = _parts(row)
    if not _sizes_vary(row):
        return "They all had one size: what bytes and partitions cost cannot be told from them."
    if not parts:
        return (
            f"Their size does not tell what they cost (it explains {wording.share(row['explained'] or 0.0)} of the "
            "difference), so fewer and larger ones cost less: larger batches (linger.ms and batch.size of producers, "
            "fetch.min.bytes of consumers)."
        )
    fixed = _fixed(row)
    words = (
        f"Of that {wording.duration(max(0.0, row['request_ns']))} is for any request, {wording.listed(parts)} "
        f"(sizes explain {wording.share(row['explained'] or 0.0)} of the difference): "
    )
    if fixed >= MOSTLY:
        return words + "make requests fewer and larger (linger.ms, batch.size, fetch.min.bytes)."
    if fixed <= HARDLY:
        return words + "it is the bytes and partitions that cost; larger batches would save little, compression may."
    return words + f"twice as large batches would save {wording.share(fixed / 2)} of it."


# Figures


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    shown = [row for row in rows if row["n"] >= MIN_REQUESTS][:12][::-1]
    if not shown:
        return []
    labels = [row["api"] for row in shown]
    data = [
        figure_specs.bars(name, figure_specs.milliseconds(row[f"{name}_ns"] for row in shown), labels)
        for name in ("p50", "p99")
    ]
    layout = figure_specs.layout(figure_specs.axis("handler time, ms"), figure_specs.axis("API"), barmode="group")
    caption = "From a handler's taking a request to its letting go of it, waiting in a purgatory apart."
    return [Figure("service", "What a request costs a handler", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "service",
    "What does a request cost a handler?\n"
    "Handler time by API, and what of it each request, kilobyte and partition costs.",
    "requests",
    run,
)
