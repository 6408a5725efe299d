"""Which clients are slow to send their requests or to take their answers, and what does that hold?

Runs in a command's process, on single requests; sampled ones count by their weight. An answer that a socket does not
take stays in the broker's memory, and the connection's next request waits. From how long sending took and how large the
answers were follow a client's rate and how much memory it held on average: bytes times seconds, by the time.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import moments, weighted, windows
from mpbroker.analysis.engine.measures import bounded_part, request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REQUESTS = 2_000_000
CLIENTS = 200
#: An answer that took longer than this to send waited for its client.
SLOW_NS = 10_000_000
MANY = 0.01  # of a client's answers
_NUMBERS = ("n", "answers", "resp_bytes", "send_ns", "send_p99_ns", "slow", "slow_bytes", "slow_ns", "held_byte_s")
_TABLE = pa.schema(
    [
        ("client", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("bytes_s", pa.float64()),
        ("held_bytes", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Table slowclient: a row per client, those with the slowest answers first. `slow`: answers that took more than
    10 ms to send, their bytes and time; `bytes_s`: the rate of those; `held_bytes`: in memory on average while
    answers were being sent."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("slowclient")])
    where, said = bounded_part.where(extent, MAX_REQUESTS)
    columns = ["client", "client_hash", "weight", "resp_bytes", "send_wait_ns", "send_ns"]
    table = engine.requests(columns, where)
    seconds = max(extent.seconds * min(1.0, MAX_REQUESTS / extent.n), 1e-3)
    weight = np.asarray(table["weight"].to_numpy(), np.int64)
    sent = moments.present(table, "send_wait_ns")  # also of those whose connection ended before all of it was sent
    took = moments.column(table, "send_wait_ns") + moments.column(table, "send_ns")
    size = np.asarray(table["resp_bytes"].to_numpy(), np.int64)
    rows: list[dict[str, Any]] = []
    for (name, hashed), at in moments.groups(table, ("client", "client_hash")):
        mine = at[sent[at]]
        slow = mine[took[mine] > SLOW_NS]
        # bytes times microseconds: of whole nanoseconds the sum would not fit
        held = int((size[mine] * (took[mine] // 1000) * weight[mine]).sum()) // 1_000_000
        row: dict[str, Any] = {
            "client": name or f"client {hashed:08x}",
            "n": int(weight[at].sum()),
            "answers": int(weight[mine].sum()),
        }
        row |= {"resp_bytes": int((size * weight)[mine].sum()), "send_ns": int((took * weight)[mine].sum())}
        row |= {"send_p99_ns": weighted.percentile(took[mine], weight[mine], 0.99), "slow": int(weight[slow].sum())}
        row |= {"slow_bytes": int((size * weight)[slow].sum()), "slow_ns": int((took * weight)[slow].sum())}
        rows.append(row | {"held_byte_s": held, "held_bytes": held / seconds, "bytes_s": _rate(row)})
    rows.sort(key=lambda row: (-row["slow_ns"], row["client"]))
    return StudyResult(
        {"slowclient": pa.Table.from_pylist(rows[:CLIENTS], _TABLE)},
        [*_verdicts(rows), *said, *wording.caveats(engine.input)],
        _figures(rows),
        findings=_findings(request_time.of(engine, int(weight.sum()) / extent.n), rows),
    )


def _rate(row: dict[str, Any]) -> float | None:
    return row["slow_bytes"] * 1e9 / row["slow_ns"] if row["slow_ns"] else None


# Findings and verdicts


def _slow(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Clients of which one answer in a hundred was slow, or more."""
    return [row for row in rows if row["slow"] and row["slow"] >= MANY * row["answers"]]


def _findings(time: RequestTime, rows: list[dict[str, Any]]) -> list[Finding]:
    """The time that slow answers took to be sent."""
    slow = _slow(rows)
    if not slow:
        return []
    worst, spent = slow[0], sum(row["slow_ns"] for row in slow)
    sentence = (
        f"“{worst['client']}” takes its answers at {wording.megabytes(worst['bytes_s'] or 0.0)}: "
        f"{wording.count(worst['slow'])} of {wording.count(worst['answers'])} took more than "
        f"{wording.duration(SLOW_NS)} to send."
    )
    return time.explained("slow_reader", sentence, spent, worst["client"], ("send", "answer"))


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    answers = sum(row["answers"] for row in rows)
    slow = _slow(rows)
    if not slow:
        few = sum(row["slow"] for row in rows)
        return [
            f"No client is slow to take its answers: {wording.counted(few, 'answer')} of {wording.count(answers)} took "
            f"more than {wording.duration(SLOW_NS)} to send. Change nothing."
        ]
    worst = slow[0]
    held = sum(row["held_bytes"] for row in slow)
    return [
        f"“{worst['client']}” takes its answers at {wording.megabytes(worst['bytes_s'] or 0.0)}: "
        f"{wording.count(worst['slow'])} of {wording.count(worst['answers'])} took more than "
        f"{wording.duration(SLOW_NS)} to send (p99 {wording.duration(worst['send_p99_ns'])}). "
        f"{wording.counted(len(slow), 'such client')} held {held / 1e6:.2g} MB of answers on average: look at that "
        "client (its own work between two polls, its network), ask for less at a time (fetch.max.bytes), or raise "
        "socket.send.buffer.bytes."
    ]


# Figures


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    shown = [row for row in rows if row["answers"]][:12][::-1]
    if not shown:
        return []
    values = figure_specs.milliseconds(row["send_p99_ns"] for row in shown)
    data = [figure_specs.bars("p99", values, [row["client"] for row in shown])]
    layout = figure_specs.layout(figure_specs.axis("sending an answer, ms"), figure_specs.axis("client"))
    caption = "p99 of the time from an answer's turn until the socket had taken all of it."
    return [Figure("slowclient", "How long answers take to be sent", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "slowclient",
    "Which clients are slow to take their answers, and what does that hold?\n"
    "Rate, slow answers and memory held, by client.",
    "requests",
    run,
)
