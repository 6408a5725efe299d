"""Errors by API and code, over time: a table, a figure, sentences, a finding. Pure but for the engine."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.phases import Phase
from mpbroker.analysis.engine.running.study import Figure
from mpbroker.errors import ERRORS

MAX_SERIES = 12
MAX_NAMED = 3
ERRORS_TABLE = pa.schema(
    [
        ("window_ms", pa.int64()),
        ("api", pa.string()),
        ("error", pa.int64()),
        ("name", pa.string()),
        ("n", pa.int64()),
    ]
)


def table(engine: Engine, window_ms: int) -> pa.Table:
    """A row per window, API and error code that was answered; n requests (weighted)."""
    counted = engine.activity(window_ms, ("api", "error"))
    rows = counted.filter(pc.not_equal(counted["error"], 0)).select(["window_ms", "api", "error", "n"]).to_pylist()
    return pa.Table.from_pylist([row | {"name": error_name(row["error"])} for row in rows], ERRORS_TABLE)


def error_name(code: int) -> str:
    """`NOT_LEADER_OR_FOLLOWER`; a code that Kafka does not have by its number."""
    return ERRORS[code].name if code in ERRORS else f"error {code}"


def sentences(errors: pa.Table, requests: int) -> list[str]:
    """One sentence on how many requests failed, and with what; nothing when none did."""
    ranked = _ranked(errors)
    if not ranked:
        return []
    failed = sum(n for _, n in ranked)
    named = wording.listed([f"{label} {wording.count(n)} times" for label, n in ranked[:MAX_NAMED]])
    more = f", and {len(ranked) - MAX_NAMED} other kinds" if len(ranked) > MAX_NAMED else ""
    return [
        f"{wording.share(failed / max(1, requests))} of the requests ({wording.count(failed)}) ended with an error: "
        f"{named}{more}."
    ]


def findings(errors: pa.Table, requests: int, of_s: float) -> list[Finding]:
    """Failed requests, at the price of an average one: that time was spent for nothing."""
    said = sentences(errors, requests)
    if not said:
        return []
    failed = sum(n for _, n in _ranked(errors))
    return [Finding("errors", said[0], of_s * failed / max(1, requests), of_s)]


def figure(errors: pa.Table, window_ms: int, marks: Sequence[Phase]) -> Figure | None:
    """Bars, because a window without an error is empty; None without errors."""
    ranked = _ranked(errors)
    if not ranked:
        return None
    rows = errors.to_pylist()
    data = []
    for label, _ in ranked[:MAX_SERIES]:
        mine = [row for row in rows if _label(row["api"], row["name"]) == label]
        at = figure_specs.clocks(row["window_ms"] + window_ms // 2 for row in mine)
        data.append(
            {
                "type": "bar",
                "name": label,
                "x": at,
                "y": [round(row["n"] * 1000 / window_ms, 3) for row in mine],
                "width": window_ms,
            }
        )
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("errors/s", rangemode="tozero"),
        barmode="stack",
        **figure_specs.phase_marks(marks),
    )
    return Figure(
        "errors",
        "Errors over time",
        f"Requests that ended with an error, by API and code, in windows of {window_ms} ms.",
        {"data": data, "layout": layout},
    )


def _ranked(errors: pa.Table) -> list[tuple[str, int]]:
    """(API and error, requests), the most frequent first."""
    totals: dict[str, int] = {}
    for row in errors.to_pylist():
        label = _label(row["api"], row["name"])
        totals[label] = totals.get(label, 0) + row["n"]
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def _label(api: str, name: str) -> str:
    return f"{api}: {name}"
