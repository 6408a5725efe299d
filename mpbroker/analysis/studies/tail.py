"""What makes the slowest requests slow: which stage, and on which processor, handler, client and topic.

Runs in a command's process: means from a rollup, the tail itself as single requests. A stage's part in the tail is the
sum of (its time - its mean over all requests), over all requests of the tail, by the sum of the same for whole
requests: parts add up to 1, and a stage that is always slow explains nothing. A request's time is that without waiting
that its client asked for (durations.ASKED_WAIT).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask, Engine, Where
from mpbroker.analysis.engine.input.durations import ASKED_WAIT, PIPELINE
from mpbroker.analysis.engine.mathematics import moments, windows
from mpbroker.analysis.engine.mathematics.distribution import NOTHING, Distribution, distributions
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import time_costs
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MEASURED = "active_total"
QUANTILES = (0.99, 0.999)
MAX_APIS = 6
MIN_TAIL = 10  # requests; below, a tail is a handful of stories
MIN_EXCESS = 1.1  # of the mean; a tail nearer to it is none
MAX_TAIL = 500_000
MAX_BASELINE = 5_000_000  # requests whose topics are counted
#: When a companion is worth a sentence. High, because slow requests come in bursts: a burst's companions are no
#: coincidence, but neither a cause.
MIN_SCORE, MIN_LIFT, MIN_SHARE = 6.0, 2.0, 0.2
APIS_IN_VERDICTS = 4
COMPANIONS = ("processor", "handler", "client", "topic")
_KEYS = (
    "run",
    "broker",
    "epoch_ns",
    "corr_id",
    "conn_id",
    "client",
    "topic",
    "processor",
    "handler",
    "error",
    "weight",
    "req_q",
    "req_bytes",
    "nparts",
)


class Tail(NamedTuple):
    """The slowest requests of an API beyond a quantile. `weights`, `excess`: per request; `baseline`: mean ns per
    stage."""

    api: str
    q: float
    table: pa.Table
    weights: npt.NDArray[Any]
    whole: npt.NDArray[Any]
    mean_ns: float
    baseline: dict[str, float]

    @property
    def excess_ns(self) -> float:
        """What the tail took beyond the mean, in all."""
        return float((self.weights * (self.whole - self.mean_ns)).sum())

    def stage_excess_ns(self, stage: str) -> float:
        """The part of one stage in it."""
        spent = _spent(self.table, stage)
        return float((self.weights * (spent - self.baseline.get(stage, 0.0))).sum())


def _spent(table: pa.Table, stage: str) -> Int64s:
    """Of each request, in a stage; waiting that its client asked for is left out."""
    found = moments.column(table, f"{stage}_ns")
    return found - moments.column(table, f"{ASKED_WAIT}_ns") if stage == "purgatory" else found


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables tail_attribution, co_occurrence, exemplars."""
    activity = engine.activity(0, ("api",))
    extent = windows.extent(activity)
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("tail")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    over_time = engine.rollup(window_ms, ("api",))
    costs = time_costs.findings(engine, extent, over_time, window_ms)
    sizes = dict(zip(activity["api"].to_pylist(), activity["n"].to_pylist(), strict=True))
    parts = distributions(over_time, ("api", "stage"))
    tails: list[Tail] = []
    too_few: list[str] = []
    for api in sorted(sizes, key=lambda name: -sizes[name])[:MAX_APIS]:
        found = _tails(engine, api, parts)
        tails += found
        too_few += [] if found else [api]
    exemplars = _exemplars(engine, parameters.exemplars)
    if not tails:
        return StudyResult(
            {"exemplars": exemplars},
            [
                f"No API has the {MIN_TAIL * 100:,} requests that a p99 needs; the slowest ones are in the table "
                "exemplars.",
                *wording.caveats(engine.input),
            ],
        )
    attribution = pa.Table.from_pylist([row for tail in tails for row in _attribution(tail)])
    companions = pa.Table.from_pylist(_companions(engine, tails, sizes), _COMPANIONS)
    verdicts = [*_verdicts(tails, attribution, companions), *_few_verdict(too_few), *wording.caveats(engine.input)]
    return StudyResult(
        {"tail_attribution": attribution, "co_occurrence": companions, "exemplars": exemplars},
        verdicts,
        _figures(tails, attribution, exemplars),
        findings=[*costs, *_findings(tails, companions, costs[0].of_s if costs else 0.0)],
    )


def asks(engine: Engine, totals: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """What `run` asks for, single requests apart."""
    extent = windows.extent(totals)
    if extent is None:
        return []
    window_ms = windows.width_ms(parameters.window_ms, extent)
    return [
        Ask("rollup", window_ms, ("api",)),
        *(Ask("activity", 0, ("api", dimension)) for dimension in COMPANIONS[:3]),
    ]


def _tails(engine: Engine, api: str, parts: dict[tuple[Any, ...], Distribution]) -> list[Tail]:
    """One per quantile that has enough requests beyond it."""
    whole = parts.get((api, MEASURED), NOTHING)
    quantiles = [q for q in QUANTILES if whole.beyond(q) >= MIN_TAIL]
    if not quantiles:
        return []
    limit = min(MAX_TAIL, int(np.ceil(whole.beyond(quantiles[0]))))
    table = engine.requests(
        [*_KEYS, f"{MEASURED}_ns", f"{ASKED_WAIT}_ns", *(f"{stage}_ns" for stage in PIPELINE)],
        Where(apis=(api,), order=f"-{MEASURED}_ns", limit=limit),
    )
    spent = {stage: parts[api, stage].sum_ns for stage in PIPELINE if (api, stage) in parts}
    if asked := parts.get((api, ASKED_WAIT), NOTHING).sum_ns:
        spent["purgatory"] -= asked
    baseline = {stage: ns / max(1, whole.n) for stage, ns in spent.items()}
    weights = np.asarray(table["weight"].to_numpy(), np.int64)
    slow = moments.column(table, f"{MEASURED}_ns")
    upto = np.cumsum(weights)
    found = []
    for q in quantiles:
        rows = int(np.searchsorted(upto, np.ceil(whole.beyond(q)) + 1e-6, side="right")) or 1
        found.append(Tail(api, q, table.slice(0, rows), weights[:rows], slow[:rows], whole.mean_ns, baseline))
    return found


def _attribution(tail: Tail) -> list[dict[str, Any]]:
    """A row per stage, and one for the time between stages, largest part first."""
    excess = tail.excess_ns
    parts = {stage: tail.stage_excess_ns(stage) for stage in PIPELINE if stage in tail.baseline}
    parts["unattributed"] = excess - sum(parts.values())
    n = int(tail.weights.sum())
    rows = [
        {
            "api": tail.api,
            "percentile": wording.percentile_name(tail.q),
            "stage": stage,
            "requests": n,
            "mean_us": tail.baseline.get(stage, 0.0) / 1000,
            "tail_mean_us": tail.baseline.get(stage, 0.0) / 1000 + ns / n / 1000,
            "excess_us": ns / n / 1000,
            "excess_share": ns / excess if excess else 0.0,
        }
        for stage, ns in parts.items()
    ]
    return sorted(rows, key=lambda row: -row["excess_share"])


_COMPANIONS = pa.schema(
    [
        ("api", pa.string()),
        ("percentile", pa.string()),
        ("dimension", pa.string()),
        ("value", pa.string()),
        ("tail_requests", pa.int64()),
        ("tail_share", pa.float64()),
        ("overall_share", pa.float64()),
        ("lift", pa.float64()),
        ("score", pa.float64()),
    ]
)


def _companions(engine: Engine, tails: list[Tail], sizes: dict[str, int]) -> list[dict[str, Any]]:
    """Who is in the tail more often than among all requests. score: standard deviations above what chance gives."""
    overall: dict[tuple[str, str], dict[str, int]] = {}
    for dimension in COMPANIONS[:3]:
        table = engine.activity(0, ("api", dimension))
        for api, value, n in zip(
            table["api"].to_pylist(), table[dimension].to_pylist(), table["n"].to_pylist(), strict=True
        ):
            overall.setdefault((api, dimension), {})[str(value)] = n
    rows = []
    for tail in tails:
        if (tail.api, "topic") not in overall and sizes[tail.api] <= MAX_BASELINE:
            overall[tail.api, "topic"] = _counts(engine.requests(["topic", "weight"], Where(apis=(tail.api,))), "topic")
        for dimension in COMPANIONS:
            if (tail.api, dimension) in overall:
                rows += _lifts(tail, dimension, overall[tail.api, dimension])
    return rows


def _counts(table: pa.Table, dimension: str) -> dict[str, int]:
    summed = table.group_by(dimension).aggregate([("weight", "sum")])
    return {
        str(value): n for value, n in zip(summed[dimension].to_pylist(), summed["weight_sum"].to_pylist(), strict=True)
    }


def _lifts(tail: Tail, dimension: str, overall: dict[str, int]) -> list[dict[str, Any]]:
    n, everything = int(tail.weights.sum()), max(1, sum(overall.values()))
    rows: list[dict[str, Any]] = []
    for value, count in _counts(tail.table, dimension).items():
        expected = overall.get(value, count) / everything
        deviation = np.sqrt(n * expected * (1 - expected)) or 1.0
        rows.append(
            {
                "api": tail.api,
                "percentile": wording.percentile_name(tail.q),
                "dimension": dimension,
                "value": value,
                "tail_requests": count,
                "tail_share": count / n,
                "overall_share": expected,
                "lift": count / n / expected,
                "score": float((count - n * expected) / deviation),
            }
        )
    return sorted(rows, key=lambda row: -row["score"])[:20]


def _exemplars(engine: Engine, number: int) -> pa.Table:
    """The slowest requests of all APIs, with all their stages."""
    columns = ["api", *_KEYS, f"{MEASURED}_ns", f"{ASKED_WAIT}_ns", *(f"{stage}_ns" for stage in PIPELINE)]
    table = engine.requests(columns, Where(order=f"-{MEASURED}_ns", limit=number))
    spent = np.stack([_spent(table, stage) for stage in PIPELINE])
    slowest = [PIPELINE[place] for place in (spent.argmax(axis=0) if table.num_rows else [])]
    return table.append_column("slowest_stage", pa.array(slowest, pa.string()))


# Verdicts


def _verdicts(tails: list[Tail], attribution: pa.Table, companions: pa.Table) -> list[str]:
    rows = attribution.to_pylist()
    apis = list(dict.fromkeys(tail.api for tail in tails))[:APIS_IN_VERDICTS]
    found = [_tail_verdict([tail for tail in tails if tail.api == api], rows) for api in apis]
    return [*found, *(_companion_sentence(row) for row in _outstanding(companions))]


def _outstanding(companions: pa.Table) -> list[dict[str, Any]]:
    """The companions that are worth a sentence: the clearest of each API and dimension."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(companions.to_pylist(), key=lambda each: -each["score"]):
        if _stands_out(row):
            best.setdefault((row["api"], row["dimension"]), row)
    return list(best.values())


def _companion_sentence(row: dict[str, Any]) -> str:
    return (
        f"{row['dimension'].capitalize()} {row['value']} has {wording.share(row['tail_share'])} of the slow "
        f"{row['api']} requests ({row['percentile']}), but only {wording.share(row['overall_share'])} of all: "
        f"{row['lift']:.1f} times its share."
    )


def _findings(tails: list[Tail], companions: pa.Table, of_s: float) -> list[Finding]:
    """What slow requests took beyond the mean, by who has them."""
    found, firsts = [], {tail.api: tail for tail in reversed(tails)}
    for row in _outstanding(companions):
        tail = firsts[row["api"]]
        mine = np.array([str(value) == row["value"] for value in tail.table[row["dimension"]].to_pylist()], np.bool_)
        ns = float((tail.weights * (tail.whole - tail.mean_ns))[mine].sum())
        subject = f"{row['api']} {row['value']}"
        found.append(Finding(f"slow_{row['dimension']}", _companion_sentence(row), ns / 1e9, of_s, subject))
    return found


def _stands_out(row: dict[str, Any]) -> bool:
    return bool(
        row["lift"] >= MIN_LIFT
        and row["score"] >= MIN_SCORE
        and row["tail_share"] >= MIN_SHARE
        and row["tail_requests"] >= MIN_TAIL
    )


def _tail_verdict(tails: list[Tail], rows: list[dict[str, Any]]) -> str:
    """Of one API: what makes its p99; and its p99.9, where there is one."""
    first = tails[0]
    if float(first.whole.min()) < MIN_EXCESS * first.mean_ns:
        return (
            f"{first.api} has no tail to speak of: the slowest {wording.share(1 - first.q)} took "
            f"{wording.duration(float(first.whole.min()))} or more, the mean is {wording.duration(first.mean_ns)}."
        )
    words = (
        f"The slowest {wording.share(1 - first.q)} of {first.api} requests took "
        f"{wording.duration(float(first.whole.min()))} or more (the mean is {wording.duration(first.mean_ns)}): of "
        f"their "
        f"extra time {_causes(first, rows)}"
    )
    for tail in tails[1:]:
        words += (
            f"; of the slowest {wording.share(1 - tail.q)} ({wording.duration(float(tail.whole.min()))} or more) "
            f"{_causes(tail, rows)}"
        )
    few = int(tails[-1].weights.sum())
    return f"{words}." + (f" The last figure rests on {few} requests." if few < 5 * MIN_TAIL else "")


def _parts(tail: Tail, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["api"], row["percentile"]) == (tail.api, wording.percentile_name(tail.q))]


def _causes(tail: Tail, rows: list[dict[str, Any]]) -> str:
    """`80 % is …, 20 % …`."""
    first, second = _parts(tail, rows)[:2]
    part = wording.share(first["excess_share"]) if first["excess_share"] < 0.95 else "all"
    words = f"{part} is {wording.DOING[first['stage']]}"
    return words + (
        f", {wording.share(second['excess_share'])} {wording.DOING[second['stage']]}"
        if second["excess_share"] >= 0.15
        else ""
    )


def _few_verdict(apis: list[str]) -> list[str]:
    if not apis:
        return []
    return [f"Too few requests for a p99 of {wording.listed(apis)}: {MIN_TAIL} must lie beyond it."]


# Figures


def _figures(tails: list[Tail], attribution: pa.Table, exemplars: pa.Table) -> list[Figure]:
    return [_share_figure(tails, attribution), _waterfall_figure(tails[0], attribution), _exemplar_figure(exemplars)]


def _share_figure(tails: list[Tail], attribution: pa.Table) -> Figure:
    labels = [f"{tail.api} {wording.percentile_name(tail.q)}" for tail in tails]
    rows = {(f"{row['api']} {row['percentile']}", row["stage"]): row["excess_share"] for row in attribution.to_pylist()}
    data = [
        figure_specs.bars(stage, [round(rows.get((label, stage), 0.0) * 100, 3) for label in labels], labels)
        for stage in (*PIPELINE, "unattributed")
        if any(abs(rows.get((label, stage), 0.0)) > 0.002 for label in labels)
    ]
    layout = figure_specs.layout(
        figure_specs.axis("share of the excess over the mean, %"),
        {"autorange": "reversed", "automargin": True},
        barmode="relative",
    )
    return Figure(
        "tail_attribution",
        "What makes the tail",
        "What slow requests took beyond the mean, shared out among the stages.",
        {"data": data, "layout": layout},
    )


def _waterfall_figure(tail: Tail, attribution: pa.Table) -> Figure:
    """From the mean request to the mean request of the tail."""
    name = wording.percentile_name(tail.q)
    rows = {
        row["stage"]: row["excess_us"] / 1000
        for row in attribution.to_pylist()
        if (row["api"], row["percentile"]) == (tail.api, name)
    }
    stages = [stage for stage in (*PIPELINE, "unattributed") if abs(rows.get(stage, 0.0)) > 0.001 * sum(rows.values())]
    data = [
        {
            "type": "waterfall",
            "name": "mean time",
            "orientation": "v",
            "x": ["mean of all", *stages, f"mean beyond {name}"],
            "measure": ["absolute", *["relative"] * len(stages), "total"],
            "y": [round(tail.mean_ns / 1e6, 5), *(round(rows[stage], 5) for stage in stages), None],
        }
    ]
    layout = figure_specs.layout(figure_specs.axis("stage"), figure_specs.axis("time, ms"), showlegend=False)
    return Figure(
        "waterfall",
        f"From the mean {tail.api} request to the slow one",
        f"Each step is the mean time that a stage adds in requests beyond {name}.",
        {"data": data, "layout": layout},
    )


def _exemplar_figure(exemplars: pa.Table) -> Figure:
    """The slowest requests, stage after stage."""
    rows = exemplars.slice(0, 20).to_pylist()
    labels = [f"{place + 1}. {row['api']} {row['corr_id']}" for place, row in enumerate(rows)]
    spent = {stage: _spent(exemplars.slice(0, 20), stage).tolist() for stage in PIPELINE}
    data = [
        figure_specs.bars(stage, figure_specs.milliseconds(spent[stage]), labels)
        for stage in PIPELINE
        if any(spent[stage])
    ]
    layout = figure_specs.layout(
        figure_specs.axis("time, ms"), {"autorange": "reversed", "automargin": True}, barmode="stack"
    )
    return Figure(
        "exemplars",
        "The slowest requests",
        "By API and correlation id; all of them are in the table exemplars.",
        {"data": data, "layout": layout},
    )


STUDY = Study(
    "tail",
    "What makes the slowest requests slow: which stage, which processor, handler, client, topic?\n"
    "Attribution of what p99 and p99.9 take beyond the mean, a waterfall, and the fifty slowest requests.",
    "requests",
    run,
    asks,
)
