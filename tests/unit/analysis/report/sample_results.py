"""Results as studies give them, made by hand: every kind of figure once, with names that try to break out of the
page."""

import math
import random
from types import SimpleNamespace

import pyarrow as pa

from mpbroker.analysis.engine.input.clock_line import ClockQuality
from mpbroker.analysis.engine.input.losses import Loss
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, StudyResult

NASTY = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;\u2028"
LINK = "<a href='https://example.com/'>client</a>"
STAGES = ("rx_wait", "read", "parse", "ring_block", "queue", "dispatch", "io", "local", "purgatory", "resp_prep", "resp_queue",
          "send_wait", "send")


def sample_input(dropped: int = 0):
    """What a page needs of a TraceInput."""
    loss = Loss(1_284_500 + dropped, 1_284_500, dropped, sentences=(f"b1-{NASTY}.mpt: cut after 17 records",) if dropped else ())
    return SimpleNamespace(loss=loss, clock=ClockQuality(12, 830))


def sample_meta():
    """A meta.json."""
    return {"engine": "local", "question": "What do quiet clients notice?", "first_epoch_ns": 1789998360_000_000_000, "last_epoch_ns": 1789998420_500_000_000,
            "input": {"records": 1_284_500, "dropped": 0, "paths": ["traces", NASTY]}, "parameters": {"window_ms": 1000},
            "versions": {"mpbroker": "0.1.0", "python": "3.11", "nothing": None}}


def _times(count: int) -> list[str]:
    return [f"2026-09-21T13:{46 + second // 60:02d}:{second % 60:02d}Z" for second in range(count)]


def _latency() -> StudyResult:
    noise = random.Random(1)
    x, data = _times(60), []
    weight = dict(zip(STAGES, (40, 3, 2, 0.5, 130, 8, 55, 20, 5, 4, 12, 3, 18), strict=True))
    for stage in STAGES:
        y = [weight[stage] * (1 + 0.2 * noise.random() + (2.5 if stage in ("queue", "rx_wait") and 30 < i < 44 else 0)) for i in range(60)]
        data.append({"type": "scatter", "mode": "lines", "stackgroup": "one", "name": stage, "x": x, "y": y})
    area = Figure("stages_over_time", "Where the mean request spends its time", "Each band is one stage, in the order of the way; "
                  "its height is the mean time in it. A band that swells is where load goes first.",
                  {"data": data, "layout": {"xaxis": {"type": "date"}, "yaxis": {"title": {"text": "mean time (µs)"}}}})
    quantiles = {"p50": 210, "p90": 480, "p99": 1900, "p99.9": 8200, "p99.99": 31000}
    menu = [{"active": 0, "buttons": [{"method": "restyle", "label": f"{NASTY} {k}", "args": [{"visible": [True] * 5 if not k else [True, False] * 2 + [True]}]} for k in range(2)]}]
    lines = [{"type": "scatter", "mode": "lines", "name": name, "x": x, "y": [v * (1 + 0.3 * noise.random() + (3 if 30 < i < 44 else 0)) for i in range(60)]}
             for name, v in quantiles.items()]
    percentiles = Figure("percentiles", "Total time of Produce", "One line per percentile; the axis is logarithmic.",
                         {"data": lines, "layout": {"updatemenus": menu, "xaxis": {"type": "date"}, "yaxis": {"type": "log", "title": {"text": "total (µs)"}}}})
    edges = [10 * 2 ** (i / 4) for i in range(48)]
    z = [[round(900 * math.exp(-((row - 18 - (8 if 30 < col < 44 else 0)) ** 2) / 30) * noise.random()) or None for col in range(60)] for row in range(48)]
    heat = Figure("heat", "Every request, by time and latency", "Darker is more requests. Two bands mean two kinds of request.",
                  {"data": [{"type": "heatmap", "x": x, "y": edges, "z": z, "colorbar": {"title": {"text": "requests"}}}],
                   "layout": {"xaxis": {"type": "date"}, "yaxis": {"type": "log", "title": {"text": "total (µs)"}}}})
    table = pa.table({"api": ["Produce"] * 13 + ["Fetch"] * 13, "stage": list(STAGES) * 2, "n": [600_000 + i for i in range(26)],
                      **{f"{p}_us": [weight[s] * k for s in STAGES * 2] for p, k in (("p50", 1.0), ("p90", 2.2), ("p99", 9.1), ("p999", 44.0), ("max", 210.5))}})
    found = [Finding("queue", f"Client {NASTY} waits in the request ring 41 % of its time.", 12.5, 30.0),
             Finding("no_core", "Handler 0 had no core for 28 % of the time.", 3.0, 30.0), Finding("send", "Too little to show.", 0.1, 30.0)]
    return StudyResult({"stage_percentiles": table}, ["Produce: p99 is 1.90 ms; 61 % of it is waiting in the request queue (p99 1.18 ms).",
                                                      f"Client {NASTY} sent 12,400 requests (41 % of all) and saw p99.9 = 8.2 ms."],
                       [area, percentiles, heat], "latency", "Where each API's requests spend their time, stage by stage,\nand how it changes.",
                       found, ["p99 of quiet is 0.54 ms alone and 9.5 ms under “flood”: 18 times."])


def _tail() -> StudyResult:
    share = [2.0, 0.1, 0.1, 0.0, 61.0, 1.0, 22.0, 5.0, 0.0, 0.4, 3.0, 0.4, 5.0]
    bars = Figure("attribution", "Which stage makes the slowest 1 %", "Longer bars explain more of what a request above p99 waits beyond the mean.",
                  {"data": [{"type": "bar", "orientation": "h", "y": list(STAGES)[::-1], "x": share[::-1], "name": "excess"}],
                   "layout": {"xaxis": {"title": {"text": "share of the excess (%)"}}}})
    scatter = Figure("clients", "Clients", "Each point is a client.",
                     {"data": [{"type": "scatter", "mode": "markers", "name": name, "x": [i * 10.0 for i in range(30)],
                                "y": [float("nan") if i == 3 else 200.0 + i * k for i in range(30)], "text": [LINK] * 30, "hovertemplate": "%{text}<br>%{y:.0f} µs<extra></extra>"}
                               for k, name in ((9, NASTY), (4, LINK), (2, "quiet & small"))],
                      "layout": {"xaxis": {"title": {"text": "requests per second"}}, "yaxis": {"title": {"text": "p99 (µs)"}, "type": "log"}}})
    forest = Figure("forest", "Difference to the baseline", "Points right of zero are slower; bars are 95 % intervals over runs.",
                    {"data": [{"type": "scatter", "mode": "markers", "x": [4.0, -12.0, 0.5], "y": ["p50", "p99", "p99.9"], "name": "change",
                               "error_x": {"type": "data", "array": [2.0, 5.0, 9.0]}}],
                     "layout": {"xaxis": {"title": {"text": "change (%)"}}, "shapes": [{"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}]}})
    empty = Figure("hung", "Requests that hung", "One bar per request.", {"data": [{"type": "bar", "x": [], "y": []}], "layout": {}})
    long = Figure("long", "Two hundred thousand points", "A spike among many points stays visible.",
                  {"data": [{"type": "scattergl", "mode": "lines", "name": "depth", "x": list(range(200_000)),
                             "y": [500.0 if i == 77_777 else math.sin(i / 9000) * 20 + 40 for i in range(200_000)]}], "layout": {"yaxis": {"title": {"text": "requests in the ring"}}}})
    exemplars = pa.table({"conn_id": [4711 + i for i in range(40)], "client": [NASTY] * 40, "total_ms": [44.25 - i for i in range(40)], "slowest_stage": ["queue"] * 40,
                          "handler": [None] * 40})
    return StudyResult({"exemplars": exemplars}, [], [bars, scatter, forest, empty, long], "tail", "Which stage makes p99 and p99.9 what they are.")


def sample_results() -> list[StudyResult]:
    """Two studies."""
    return [_latency(), _tail()]
