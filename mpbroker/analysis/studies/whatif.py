"""What would the same requests have met with other handlers, another discipline, other costs? A replay tells.

Runs in a command's process, on single requests in their order; refuses sampled traces. The recorded requests go through
a simulated broker (engine/mathematics/broker_replay.py): once as it was, which must give what was measured, and then
with each change. Without options: fewer and more handlers, and every discipline with as many as there were.

    handlers=2,4        how many take data requests
    discipline=fair     fifo, plane, priority, fair, shortest, deadline; several of either: all combinations
    costs=Produce:0.5   handler time of an API, times a factor

What is not in it: handlers that share a core take longer the more of them there are; the services are those that were.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import broker_replay, disciplines, windows
from mpbroker.analysis.engine.mathematics.broker_replay import Replayed
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import handler_work, request_paths, request_time
from mpbroker.analysis.engine.measures.handler_work import HandlerWork
from mpbroker.analysis.engine.measures.request_paths import Measured
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, study_options, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REPLAYED = 200_000
MAX_CHANGES = 24
MIN_REQUESTS = 100  # for a p99
MIN_OF_CLIENT = 50
#: A replay of what was that is farther off than this is no ground for a prediction.
TRUSTED = 0.15
WORTH = 0.10
AS_IT_WAS = "as it was"
_QUANTILES = ((50, "p50_ns"), (99, "p99_ns"))
_TABLE = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("change", pa.string()),
        ("handlers", pa.int32()),
        ("discipline", pa.string()),
        ("n", pa.int64()),
        ("mean_ns", pa.float64()),
        ("p50_ns", pa.float64()),
        ("p99_ns", pa.float64()),
        ("wait_p50_ns", pa.float64()),
        ("wait_p99_ns", pa.float64()),
        ("median_client_p99_ns", pa.float64()),
        ("worst_client_p99_ns", pa.float64()),
    ]
)
_APIS = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("change", pa.string()),
        ("api", pa.string()),
        ("n", pa.int64()),
        ("mean_ns", pa.float64()),
        ("p50_ns", pa.float64()),
        ("p99_ns", pa.float64()),
    ]
)
MEASURED = "measured"


class Change(NamedTuple):
    """What is replayed. `reserved`: of all handlers, those for control requests."""

    name: str
    handlers: int
    discipline: str
    reserved: int
    costs: dict[str, float]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables whatif (run, broker, change; `measured` first) and whatif_apis (the same by API)."""
    asked = _asked(parameters)
    engine.input.require_unsampled("whatif")
    extent = windows.extent(engine.activity(0, ()))
    works, said = ([], []) if extent is None else handler_work.read(engine, extent, request_paths.COLUMNS, MAX_REPLAYED)
    if not works:
        return StudyResult(verdicts=[wording.nothing("whatif")])
    rows: list[dict[str, Any]] = []
    by_api: list[dict[str, Any]] = []
    verdicts: list[str] = []
    findings: list[Finding] = []
    time = request_time.of(engine, min(1.0, MAX_REPLAYED / extent.n) if extent else 1.0)
    for work in works:
        found = request_paths.of(work)
        mine = _rows(work, found, _changes(found, *asked), by_api)
        of = f" of broker {work.broker}" if len(works) > 1 else ""
        verdicts += _verdicts(mine, of, asked != ([], [], {}))
        findings += _findings(time, mine, of)
        rows += mine
    return StudyResult(
        {"whatif": pa.Table.from_pylist(rows, _TABLE), "whatif_apis": pa.Table.from_pylist(by_api, _APIS)},
        [*verdicts, *said, *wording.caveats(engine.input)],
        _figures(rows, works[0]),
        findings=findings,
    )


def _asked(parameters: StudyParameters) -> tuple[list[int], list[str], dict[str, float]]:
    options = parameters.options
    handlers = study_options.whole_numbers(options, "handlers", 1, 4096)
    names = study_options.words(options, "discipline", disciplines.NAMES)
    if max(1, len(handlers)) * max(1, len(names)) > MAX_CHANGES:
        raise study_options.BadStudyOption(f"at most {MAX_CHANGES} combinations of handlers and disciplines")
    return handlers, names, study_options.factors(options, "costs")


def _changes(found: Measured, handlers: list[int], names: list[str], costs: dict[str, float]) -> list[Change]:
    """As it was, then what was asked for; without a word, what one may want to know."""
    were, discipline = found.handlers - found.reserved, "plane" if found.reserved else "fifo"
    first = Change(AS_IT_WAS, were, discipline, found.reserved, {})
    if handlers or names or costs:
        wanted = list(product(handlers or [were], names or [discipline]))
    else:
        numbers = sorted({max(1, were // 2), were + 1, 2 * were} - {were})
        wanted = [(number, discipline) for number in numbers]
        wanted += [(were, name) for name in disciplines.NAMES if name != discipline]
    changes = [first]
    for number, name in wanted:
        reserved = max(1, found.reserved) if name == "plane" else 0
        words = wording.counted(number, "handler") + f", {name}"
        words += "".join(f", {api} × {factor:g}" for api, factor in costs.items())
        changes.append(Change(words, number, name, reserved, costs))
    return changes


def _rows(
    work: HandlerWork, found: Measured, changes: list[Change], by_api: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A row for what was measured and one for each change; `by_api` gets those of the APIs."""
    measured = Replayed(found.wait, found.total)
    were = Change(MEASURED, changes[0].handlers, changes[0].discipline, changes[0].reserved, {})
    rows = []
    for change, outcome in [(were, measured), *((change, _replayed(work, found, change)) for change in changes)]:
        took = np.maximum(outcome.total - found.asked, 0)
        where = {"run": work.run, "broker": work.broker, "change": change.name}
        rows.append(
            {
                **where,
                "handlers": change.handlers,
                "discipline": change.discipline,
                **_figures_of(took),
                **{f"wait_{name}": float(np.percentile(outcome.wait, q)) for q, name in _QUANTILES},
                **_of_clients(work, took),
            }
        )
        apis = work.table["api"].to_numpy(zero_copy_only=False).astype(str)
        by_api += [{**where, "api": str(api), **_figures_of(took[apis == api])} for api in np.unique(apis)]
    return rows


def _replayed(work: HandlerWork, found: Measured, change: Change) -> Replayed:
    paths = found.paths
    if change.name == AS_IT_WAS:
        paths = paths._replace(known=paths.known._replace(control=found.control_plane))
    if change.costs:
        apis = work.table["api"].to_numpy(zero_copy_only=False).astype(str)
        service = paths.service
        for api, factor in change.costs.items():
            service = np.where(apis == api, np.round(service * factor).astype(np.int64), service)
        paths = paths._replace(service=service)
    return broker_replay.replay(paths, change.handlers, change.discipline, change.reserved)


def _figures_of(took: Int64s) -> dict[str, Any]:
    return {
        "n": len(took),
        "mean_ns": float(took.mean()),
        **{name: float(np.percentile(took, q)) for q, name in _QUANTILES},
    }


def _of_clients(work: HandlerWork, took: Int64s) -> dict[str, float | None]:
    """The p99 of the client in the middle, and of the worst off: what a discipline gives to whom."""
    client = work.table["client_hash"].to_numpy()
    found = [took[client == one] for one in np.unique(client)]
    p99s = [float(np.percentile(each, 99)) for each in found if len(each) >= MIN_OF_CLIENT]
    return {
        "median_client_p99_ns": float(np.median(p99s)) if p99s else None,
        "worst_client_p99_ns": max(p99s, default=None),
    }


# Findings and verdicts


def _findings(time: RequestTime, rows: list[dict[str, Any]], of: str) -> list[Finding]:
    """The change that lowers p99 most, at the price of what it saves on average; other costs are nobody's setting."""
    measured, base, *others = rows
    best, gain = _best(base, others)
    if measured["n"] < MIN_REQUESTS or abs(_off(measured, base)) > TRUSTED or gain < WORTH:
        return []
    kind = "other_discipline" if best["discipline"] != base["discipline"] else "other_handlers"
    if kind == "other_handlers" and best["handlers"] == base["handlers"]:
        return []
    sentence = (
        f"Replayed with {best['change']}, the same requests{of} take {wording.duration(best['mean_ns'])} on average "
        f"instead of {wording.duration(base['mean_ns'])}, and {wording.duration(best['p99_ns'])} at p99 instead of "
        f"{wording.duration(base['p99_ns'])}."
    )
    saved = (base["mean_ns"] - best["mean_ns"]) * base["n"]
    return time.explained(kind, sentence, saved, of.removeprefix(" of "), ("queue", "queueing"))


def _off(measured: dict[str, Any], base: dict[str, Any]) -> float:
    """How far the replay of what was lies from what was measured, at p99."""
    return float(base["p99_ns"] / measured["p99_ns"] - 1) if measured["p99_ns"] else 0.0


def _best(base: dict[str, Any], others: list[dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """The change with the lowest p99, and by how much of it."""
    best = min(others, key=lambda row: float(row["p99_ns"]))
    return best, 1 - best["p99_ns"] / base["p99_ns"] if base["p99_ns"] else 0.0


def _verdicts(rows: list[dict[str, Any]], of: str, asked: bool) -> list[str]:
    measured, base, *others = rows
    if measured["n"] < MIN_REQUESTS:
        return [f"Too few requests went through the request rings{of} for a p99 ({measured['n']})."]
    off = _off(measured, base)
    check = (
        f"Replayed as it was, p99 is {wording.duration(base['p99_ns'])}; measured was "
        f"{wording.duration(measured['p99_ns'])} ({off * 100:+.0f} %, {wording.count(measured['n'])} requests)."
    )
    if abs(off) > TRUSTED:
        return [
            f"The replay does not give what was measured{of}, so its predictions do not count: something else than "
            "handlers made requests wait, see the studies waits and tail.",
            check,
        ]
    told = [_told(row, base) for row in (others if asked else sorted(others, key=lambda row: row["p99_ns"])[:2])]
    return [_advice(base, others, of), *told, check]


def _told(row: dict[str, Any], base: dict[str, Any]) -> str:
    words = (
        f"“{row['change']}”: p99 {wording.duration(row['p99_ns'])} instead of {wording.duration(base['p99_ns'])}, "
        f"p50 {wording.duration(row['p50_ns'])} instead of {wording.duration(base['p50_ns'])}"
    )
    if row["worst_client_p99_ns"] is None or row["worst_client_p99_ns"] == row["median_client_p99_ns"]:
        return words + "."
    return (
        f"{words}; p99 of the client in the middle {wording.duration(row['median_client_p99_ns'])} "
        f"({wording.duration(base['median_client_p99_ns'])}), of the worst off "
        f"{wording.duration(row['worst_client_p99_ns'])} ({wording.duration(base['worst_client_p99_ns'])})."
    )


def _advice(base: dict[str, Any], others: list[dict[str, Any]], of: str) -> str:
    """What to do: the change that lowers p99 most, if it is worth it."""
    best, gain = _best(base, others)
    if gain < WORTH:
        tried = "this change does not lower" if len(others) == 1 else f"none of {len(others)} changes lowers"
        return f"Change nothing{of}: {tried} p99 by {wording.share(WORTH)}."
    how = f"num.io.threads={best['handlers']}" if best["handlers"] != base["handlers"] else ""
    if best["discipline"] != base["discipline"]:
        how += (" and " if how else "") + f"the discipline {best['discipline']}"
    how = how or "what the change says"
    return (
        f"Of {wording.counted(len(others), 'change')}{of}, “{best['change']}” lowers p99 most, from "
        f"{wording.duration(base['p99_ns'])} to {wording.duration(best['p99_ns'])}: try {how}, as long as handlers do "
        "not have to share cores."
    )


# Figures


def _figures(rows: list[dict[str, Any]], first: HandlerWork) -> list[Figure]:
    """p50 and p99 of each change, of the first broker."""
    mine = [row for row in rows if (row["run"], row["broker"]) == (first.run, first.broker)]
    labels = [row["change"] for row in mine][::-1]
    data = [
        figure_specs.bars(name.removesuffix("_ns"), figure_specs.milliseconds(row[name] for row in mine)[::-1], labels)
        for _, name in _QUANTILES
    ]
    layout = figure_specs.layout(figure_specs.axis("whole request, ms"), figure_specs.axis("change"), barmode="group")
    caption = "Measured, replayed as it was, and replayed with each change. Without waiting that clients asked for."
    return [Figure("whatif", "What the same requests would have taken", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "whatif",
    "What would the same requests have taken with other handlers, another discipline or other costs?\n"
    "A replay: --handlers 2,4 --discipline fair,shortest --costs Produce:0.5.",
    "order",
    run,
)
