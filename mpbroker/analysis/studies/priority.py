"""What control requests wait for: where, behind whom, and what hung meanwhile; variants (runs, phases) side by side.

Runs in a command's process, on single requests in their order; refuses sampled traces. What a control request is and
how long it waits: engine/control_waits.py. `--set control_clients=a,b` names clients whose requests count as control,
too.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.measures import control_waits
from mpbroker.analysis.engine.measures.control_waits import WAITS, BrokerWaits
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.phases import ALL, BEFORE
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_ROWS = 50_000
TIMELINE_REQUESTS = 1500
CURVE_POINTS = 120
FEW_FOR_A_CURVE = 5
MAX_VARIANTS = 4  # with a sentence of their own

Row = dict[str, Any]
Durations = npt.NDArray[Any]


class Subject(NamedTuple):
    """How sentences and figures call what is looked at: control requests, or a client's where only such were named."""

    one: str
    many: str
    short: str
    others: str

    @classmethod
    def of(cls, brokers: list[BrokerWaits], names: Sequence[str]) -> "Subject":
        """Requests are control requests only where they are; those of a client that was named go by its name."""
        named, every = sum(one.named for one in brokers), sum(len(one.control) for one in brokers)
        who = wording.listed(list(names))
        if named == every:
            return cls(f"request of {who}", f"requests of {who}", who, "others")
        if named:
            return cls(f"control request (or one of {who})", f"control requests and those of {who}", "control", "data")
        return cls("control request", "control requests", "control", "data")


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables variant_compare, control_waits, control_requests, inversion_events, hung_requests."""
    engine.input.require_unsampled("priority")
    named = [name.strip() for name in parameters.options.get("control_clients", "").split(",") if name.strip()]
    brokers, left_out = control_waits.read(engine, named)
    control = [row for one in brokers for row in one.control]
    if not brokers:
        return StudyResult(verdicts=[wording.nothing("priority")])
    if not control:
        return StudyResult(
            verdicts=[
                "No control request in this trace: none came over a control plane's listener and none has an API of "
                "the controller; --set control_clients=NAME counts a client's requests as control."
            ]
        )
    subject = Subject.of(brokers, named)
    data = _data_waits(brokers)
    names = {name: phase.name for one in brokers for name, phase in zip(one.variants, one.phases, strict=True)}
    compared = _variant_compare(control, data, names)
    tables = {
        "variant_compare": pa.Table.from_pylist(compared),
        "control_waits": _stage_table(control),
        **_request_tables(brokers, control),
    }
    verdicts = [
        *_verdicts(compared, subject),
        *_hung_verdict(brokers, subject),
        *([left_out] if left_out else []),
        *_cut_verdict(control),
        *wording.caveats(engine.input),
    ]
    figures = _figures(brokers, compared, control, data, tables["control_waits"], subject)
    return StudyResult(tables, verdicts, figures, findings=_findings(engine, brokers, subject))


def _findings(engine: Engine, brokers: list[BrokerWaits], subject: Subject) -> list[Finding]:
    """Time that was spent behind data, and in vain for a leader."""
    whole = engine.rollup(0, ())
    of_s = sum(whole.filter(pc.equal(whole["stage"], "active_total"))["sum_ns"].to_pylist()) / 1e9
    behind = [row for one in brokers for row in one.control if row["served"]]
    waited_s = sum(row["wait_ns"] for row in behind) / 1e9
    hung = [row for one in brokers for row in one.hung]
    found = []
    if behind:
        sentence = (
            f"{wording.counted(len(behind), subject.one, subject.many)} waited while handlers served "
            f"{'data requests' if subject.others == 'data' else 'requests of others'}, "
            f"{wording.duration(waited_s * 1e9 / len(behind))} each."
        )
        kind = "control_behind_data" if subject.others == "data" else "named_behind_data"
        found.append(Finding(kind, sentence, waited_s, of_s))
    if hung:
        hung_s = sum(row["purgatory_ns"] for row in hung) / 1e9
        found.append(
            Finding("hung", f"{wording.counted(len(hung), 'produce request')} waited for a leader.", hung_s, of_s)
        )
    return found


def percentile(values: Sequence[int] | Durations, q: float) -> float:
    """A value that a share q does not exceed; 0 without values. Exact."""
    return float(np.quantile(values, q, method="inverted_cdf")) if len(values) else 0.0


def _data_waits(brokers: list[BrokerWaits]) -> dict[str, Durations]:
    """Variant → waits of its data requests."""
    found: dict[str, list[Durations]] = {}
    for one in brokers:
        names, waits = one.variant_at(one.data_epoch), one.data_wait
        for name in set(one.variants):
            found.setdefault(name, []).append(waits[names == name])
    return {name: np.concatenate(pieces) for name, pieces in found.items()}


def _by_variant(control: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(control, key=lambda each: each["epoch_ns"]):
        if row["variant"]:
            found.setdefault(row["variant"], []).append(row)
    return found


def _variant_compare(control: list[Row], data: dict[str, Durations], phase_names: dict[str, str]) -> list[Row]:
    """A row per variant, in the order of time; waits in microseconds. `phase_names`: variant → its phase."""
    rows = []
    for name, mine in _by_variant(control).items():
        waits, others = [row["wait_ns"] for row in mine], data.get(name, np.empty(0))
        spent = {stage: sum(row[f"{stage}_ns"] or 0 for row in mine) for stage in WAITS}
        main = max(spent, key=lambda stage: spent[stage])
        rows.append(
            {
                "variant": name,
                "phase": phase_names[name],
                "control_requests": len(mine),
                "wait_p50_us": percentile(waits, 0.5) / 1000,
                "wait_p90_us": percentile(waits, 0.9) / 1000,
                "wait_p99_us": percentile(waits, 0.99) / 1000,
                "wait_max_us": max(waits) / 1000,
                "mean_wait_us": float(np.mean(waits)) / 1000,
                "main_stage": main,
                "main_share": spent[main] / max(1, sum(spent.values())),
                "served": sum(row["served"] for row in mine),
                "served_handler_s": sum(row["served_handler_ns"] for row in mine) / 1e9,
                "overtook": sum(row["overtook"] for row in mine),
                "waited_behind_data": sum(row["served"] > 0 for row in mine),
                "hung": sum(row["hung"] for row in mine),
                "hung_s": sum(row["hung_ns"] for row in mine) / 1e9,
                "data_requests": len(others),
                "data_wait_p50_us": percentile(others, 0.5) / 1000,
                "data_wait_p99_us": percentile(others, 0.99) / 1000,
            }
        )
    return rows


def _stage_table(control: list[Row]) -> pa.Table:
    """Per variant and stage of the wait: mean, percentiles, greatest."""
    rows = []
    for name, mine in _by_variant(control).items():
        for stage in (*WAITS, "wait"):
            values = [row[f"{stage}_ns"] or 0 for row in mine]
            rows.append(
                {
                    "variant": name,
                    "stage": stage,
                    "n": len(values),
                    "mean_us": float(np.mean(values)) / 1000,
                    "p50_us": percentile(values, 0.5) / 1000,
                    "p99_us": percentile(values, 0.99) / 1000,
                    "max_us": max(values) / 1000,
                }
            )
    return pa.Table.from_pylist(rows)


_REQUEST = pa.schema(
    [(name, pa.string()) for name in ("variant", "run")]
    + [("broker", pa.int32()), ("epoch_ns", pa.int64())]
    + [(name, pa.string()) for name in ("client", "api", "plane")]
    + [("corr_id", pa.int32())]
    + [(f"{name}_ns", pa.int64()) for name in ("wait", *WAITS)]
    + [(name, pa.int64()) for name in ("served", "served_handler_ns", "overtook", "hung", "hung_ns")]
)
_HUNG = pa.schema(
    [
        ("variant", pa.string()),
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("epoch_ns", pa.int64()),
        ("client", pa.string()),
        ("topic", pa.string()),
        ("corr_id", pa.int32()),
        ("error", pa.int16()),
        ("purgatory_ns", pa.int64()),
        ("control_corr_id", pa.int32()),
    ]
)


def _request_tables(brokers: list[BrokerWaits], control: list[Row]) -> dict[str, pa.Table]:
    """Single requests: the longest waits first; inversions are those behind whose back data was served."""
    worst = sorted(control, key=lambda row: -row["wait_ns"])[:MAX_ROWS]
    hung = sorted((row for one in brokers for row in one.hung), key=lambda row: -row["purgatory_ns"])
    return {
        "control_requests": pa.Table.from_pylist(worst, _REQUEST),
        "inversion_events": pa.Table.from_pylist([row for row in worst if row["served"]], _REQUEST),
        "hung_requests": pa.Table.from_pylist(hung, _HUNG),
    }


# Verdicts


def _verdicts(compared: list[Row], subject: Subject) -> list[str]:
    rows = [row for row in compared if row["phase"] != BEFORE] or compared
    told = [_variant_verdict(row, subject) for row in sorted(rows, key=lambda row: -row["wait_p99_us"])[:MAX_VARIANTS]]
    return [*_runs_compared(rows, subject), *_phases_compared(rows, subject), *told]


def _runs_compared(rows: list[Row], subject: Subject) -> list[str]:
    """The phase that was worst anywhere, in the runs that have it: best against worst."""
    worst = max(rows, key=lambda row: row["wait_p99_us"])
    rivals = [row for row in rows if row["phase"] == worst["phase"]]
    if len(rivals) < 2:
        return []
    best = min(rivals, key=lambda row: row["wait_p99_us"])
    ratio = worst["wait_p99_us"] / max(best["wait_p99_us"], 0.064)
    if ratio < 1.2:
        return [
            f"{_capital(subject.many)} wait about equally long in all {len(rivals)} variants: p99 between "
            f"{wording.duration(best['wait_p99_us'] * 1000)} and {wording.duration(worst['wait_p99_us'] * 1000)}."
        ]
    return [
        f"The p99 of the wait of {subject.many} is {wording.duration(worst['wait_p99_us'] * 1000)} in "
        f"“{worst['variant']}” "
        f"and {wording.duration(best['wait_p99_us'] * 1000)} in “{best['variant']}”, "
        + (f"{ratio:.0f} times less" if ratio >= 1.95 else f"{ratio:.1f} times less")
        + "; one run each describes, it does not prove (see the study compare)."
    ]


def _phases_compared(rows: list[Row], subject: Subject) -> list[str]:
    """Phases of one run: the worst beside the first. Only where there are no other runs to compare with."""
    if len({row["phase"] for row in rows}) < len(rows) or len(rows) < 2:
        return []
    first, worst = rows[0], max(rows, key=lambda row: row["wait_p99_us"])
    if worst is first or worst["wait_p99_us"] < 1.2 * first["wait_p99_us"]:
        return []
    return [
        f"The p99 of the wait of {subject.many} goes from {wording.duration(first['wait_p99_us'] * 1000)} in "
        f"“{first['variant']}” to {wording.duration(worst['wait_p99_us'] * 1000)} in “{worst['variant']}”."
    ]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _variant_verdict(row: Row, subject: Subject) -> str:
    where = "" if row["variant"] == ALL else f"“{row['variant']}”: "
    words = (
        f"{where}{wording.counted(row['control_requests'], subject.one, subject.many)} waited for a handler "
        f"({_wait_words(row)}); "
        f"{wording.share(row['main_share'])} of that was {wording.DOING[row['main_stage']]}"
    )
    if row["data_requests"]:
        words += f"; {_others(subject)} beside them waited {wording.duration(row['data_wait_p99_us'] * 1000)} (p99)"
    if not row["served"]:
        return f"{words}. Meanwhile handlers served none of those."
    return (
        f"{words}. Meanwhile handlers served {wording.count(row['served'])} of those "
        f"({row['served_handler_s']:.3g} handler-seconds), {wording.count(row['overtook'])} of which had arrived later."
    )


def _others(subject: Subject) -> str:
    return "data requests" if subject.others == "data" else "requests of others"


def _wait_words(row: Row) -> str:
    longest, half = wording.duration(row["wait_max_us"] * 1000), wording.duration(row["wait_p50_us"] * 1000)
    if row["control_requests"] >= 100:
        return f"p99 {wording.duration(row['wait_p99_us'] * 1000)}, half at most {half}, the longest {longest}"
    if row["control_requests"] > 2:
        return f"half at most {half}, the longest {longest}; too few for percentiles"
    return f"{half} and {longest}" if row["control_requests"] == 2 else longest


def _hung_verdict(brokers: list[BrokerWaits], subject: Subject) -> list[str]:
    hung = [row for one in brokers for row in one.hung]
    left_out = sum(one.hung_left_out for one in brokers)
    if not hung:
        return ["No produce request hung for want of a leader."]
    caused = [row for row in hung if row["control_corr_id"] is not None]
    timed_out = sum(row["error"] == control_waits.TIMED_OUT for row in hung)
    return [
        f"{wording.counted(len(hung) + left_out, 'produce request')} hung for want of a leader, "
        f"{sum(row['purgatory_ns'] for row in hung) / 1e9:.3g} s in all"
        + (f" (of the first {len(hung):,})" if left_out else "")
        + f"; {wording.count(len(caused))} of them while a {subject.one} waited, "
        f"{wording.count(timed_out)} until their "
        "timeout."
    ]


def _cut_verdict(control: list[Row]) -> list[str]:
    if len(control) <= MAX_ROWS:
        return []
    return [f"The tables of single requests hold the {MAX_ROWS:,} longest waits of {len(control):,}."]


# Figures


def _figures(
    brokers: list[BrokerWaits],
    compared: list[Row],
    control: list[Row],
    data: dict[str, Durations],
    stages: pa.Table,
    subject: Subject,
) -> list[Figure]:
    shown = _phase_by_phase([row for row in compared if row["phase"] != BEFORE] or compared)
    found = [
        _waits_figure(shown, control, data, subject),
        _stages_figure(stages, [row["variant"] for row in shown], subject),
        _timeline_figure(brokers, subject),
        _over_time_figure(control, shown, subject),
    ]
    return [figure for figure in found if figure.spec["data"]]


def _run_of(row: Row) -> str:
    """The run's name within the name of a variant; empty where there is one run."""
    return str(row["variant"]).removesuffix(row["phase"]).removesuffix(", ")


def _phase_by_phase(rows: list[Row]) -> list[Row]:
    """Runs of one phase next to each other, in the order of time."""
    names, runs = (list(dict.fromkeys(map(key, rows))) for key in (lambda row: row["phase"], _run_of))
    return sorted(rows, key=lambda row: (names.index(row["phase"]), runs.index(_run_of(row))))


def _styles(rows: list[Row]) -> dict[str, tuple[int, int]]:
    """Variant → place of its phase and of its run: colour and dash."""
    names, runs = (list(dict.fromkeys(map(key, rows))) for key in (lambda row: row["phase"], _run_of))
    return {row["variant"]: (names.index(row["phase"]), runs.index(_run_of(row))) for row in rows}


def _waits_figure(shown: list[Row], control: list[Row], data: dict[str, Durations], subject: Subject) -> Figure:
    """All runs of one phase at a time, the worst phase first. A dash is a run."""
    by_variant, styles = _by_variant(control), _styles(shown)
    lines: list[dict[str, Any]] = []
    owners: list[str] = []
    names = list(dict.fromkeys(row["phase"] for row in shown))
    first = max(shown, key=lambda row: row["wait_p99_us"])["phase"]
    for row in shown:
        name, more = row["variant"], {"visible": row["phase"] == first}
        label = "" if len(shown) == len(names) else f": {_run_of(row)}"
        waits = np.array([each["wait_ns"] for each in by_variant[name]])
        if len(waits) < FEW_FOR_A_CURVE and len(shown) > 1:
            continue
        for who, shade, values in ((subject.short, "control", waits), (subject.others, "data", data.get(name, ()))):
            if len(values):
                width = {"line": {"width": 2.5 if shade == "control" else 1.5}}
                style = {"meta": {"shade": shade, "variant": styles[name][1]}}
                lines.append(_curve(f"{who}{label}", np.asarray(values), **width, **style, **more))
        owners += [row["phase"]] * (len(lines) - len(owners))
    layout = figure_specs.layout(
        figure_specs.axis("wait for a handler, ms", type="log"),
        figure_specs.axis("share of requests, %", range=[0, 101]),
        **figure_specs.chooser(names, owners, first),
    )
    return Figure(
        "wait_cdf",
        f"Waiting for a handler: {subject.short} beside {subject.others}",
        "Share of requests that waited at most so long, from arrival in the kernel to a handler's taking it. "
        f"Strong lines are {subject.many}, thin ones {_others(subject)} beside them; each run has its own dash.",
        {"data": lines, "layout": layout},
    )


def _curve(name: str, waits: Durations, **more: Any) -> dict[str, Any]:
    shares = np.unique(np.concatenate([np.linspace(0, 1, CURVE_POINTS), 1 - np.logspace(-4, -1, 30)]))
    values = np.quantile(waits, shares, method="inverted_cdf")
    return figure_specs.line(
        name, figure_specs.milliseconds(np.maximum(values, 1)), (shares * 100).round(4).tolist(), **more
    )


def _stages_figure(stages: pa.Table, names: list[str], subject: Subject) -> Figure:
    means = {(row["variant"], row["stage"]): row["mean_us"] / 1000 for row in stages.to_pylist()}
    bars = [figure_specs.bars(stage, [round(means[name, stage], 5) for name in names], names) for stage in WAITS]
    layout = figure_specs.layout(
        figure_specs.axis(f"mean wait of {subject.many}, ms"),
        {"autorange": "reversed", "automargin": True},
        barmode="stack",
    )
    return Figure(
        "where_control_waits",
        f"Where {subject.many} wait",
        "Mean time of each stage before a handler takes them.",
        {"data": bars, "layout": layout},
    )


def _timeline_figure(brokers: list[BrokerWaits], subject: Subject) -> Figure:
    """What the handlers of a broker did while the request that most others were served before waited."""
    one = max((each for each in brokers if each.control), key=lambda each: max(row["served"] for row in each.control))
    worst = max(one.control, key=lambda row: (row["served"], row["wait_ns"]))
    begin = worst["arrival"]
    chosen = np.flatnonzero((one.data.dequeued + one.data.busy > begin) & (one.data.dequeued < worst["local_done"]))
    shown = chosen[:TIMELINE_REQUESTS]
    start = figure_specs.milliseconds(one.data.dequeued[shown] - begin)
    length = figure_specs.milliseconds(one.data.busy[shown])
    handlers = [f"handler {handler}" if handler >= 0 else "no handler" for handler in one.data_handler[shown].tolist()]
    order = sorted(set(handlers), key=lambda name: (len(name), name))
    data = [
        figure_specs.bars(
            subject.others,
            length,
            handlers,
            base=start,
            opacity=0.75,
            meta={"shade": "data"},
            hovertemplate="%{y}: %{base} ms, for %{x} ms<extra></extra>",
        )
    ]
    waited = figure_specs.milliseconds([worst["wait_ns"]])
    data.append(figure_specs.bars(subject.short, waited, [subject.one], base=[0], meta={"shade": "control"}))
    layout = figure_specs.layout(
        figure_specs.axis("since it arrived, ms"),
        {"categoryorder": "array", "categoryarray": [*reversed(order), subject.one], "automargin": True},
        barmode="overlay",
        showlegend=True,
    )
    cut = f" Drawn are the first {TIMELINE_REQUESTS:,} of {len(chosen):,}." if len(chosen) > len(shown) else ""
    return Figure(
        "timeline",
        f"The {subject.one} with most {subject.others} served before it",
        f"{worst['api']} of {worst['client'] or 'an unnamed client'} in “{worst['variant']}”: it waited "
        f"{wording.duration(worst['wait_ns'])}; each bar on a handler is one of the {_others(subject)}.{cut}",
        {"data": data, "layout": layout},
    )


def _over_time_figure(control: list[Row], shown: list[Row], subject: Subject) -> Figure:
    by_variant, styles, data = _by_variant(control), _styles(shown), []
    for name in (row["variant"] for row in shown):
        series = figure_specs.points(
            name,
            [figure_specs.clock(row["epoch_ns"]) for row in by_variant[name]],
            figure_specs.milliseconds(max(1, row["wait_ns"]) for row in by_variant[name]),
            opacity=0.6,
        )
        data.append(figure_specs.styled(series, *styles[name]))
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("wait for a handler, ms", type="log")
    )
    return Figure(
        "waits_over_time",
        f"Waits of {subject.many} over time",
        "A point is a request.",
        {"data": data, "layout": layout},
    )


STUDY = Study(
    "priority",
    "What does each control request wait for, and which data requests are served before it?\n"
    "Waits by stage, inversions, hung produce requests; variants (runs and phases) side by side.",
    "order",
    run,
)
