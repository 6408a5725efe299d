# %% [markdown]
# # A trace, by hand
#
# What the studies do in one command, step by step and open to be changed. Every cell stands alone after the first two;
# run them in an editor that knows `# %%`, or the whole file: `python docs/notebooks/trace_notebook.py`.
#
# - `MPBROKER_TRACES`: a folder with traces, raw or compacted (default `mpbroker-data/traces`)
# - `MPBROKER_ENGINE`: `local`, `spark` or `auto` (default); the cells are the same
# - `MPBROKER_OUT`: where the figures go (default `trace-notebook.html`)

# %% Open a trace: nothing is read yet but headers
import os
from pathlib import Path

import plotly.graph_objects as go
import plotly.io

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.input.durations import PIPELINE
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.mathematics import histogram
from mpbroker.analysis.report.look import dress
from mpbroker.analysis.report.template import template

place = os.environ.get("MPBROKER_TRACES", "mpbroker-data/traces")
trace = open_input([place])
engine = choose_engine(os.environ.get("MPBROKER_ENGINE", "auto"), trace)
figures = []


def show(data, **layout):
    """One figure with the look of the reports. In a notebook: `show(...).show()`."""
    spec, _ = dress({"data": data, "layout": layout})
    figure = go.Figure(spec["data"], {**spec["layout"], "template": template("light")})
    figures.append(figure)
    return figure


# %% How much of the truth is in it?
print(
    f"{engine.name}: {trace.loss.records} of {trace.loss.finished} requests, {trace.loss.dropped} dropped, "
    f"{trace.loss.missing} missing; clock within {trace.clock.max_uncertainty_ns / 1000:.1f} µs"
)
for sentence in trace.loss.sentences:
    print("note:", sentence)

# %% A rollup: histograms that add up, small whatever the trace's size. Everything else comes from it
rollup = engine.rollup(1000, ("api",))
print(f"{rollup.num_rows} rows of {', '.join(rollup.column_names)}")

# %% Percentiles by API and stage: sum the buckets of all windows, then read the percentile off
counts: dict[tuple[str, str], list[tuple[int, int]]] = {}
for api, stage, bucket, n in zip(
    *(rollup.column(name).to_pylist() for name in ("api", "stage", "bucket", "n")), strict=True
):
    counts.setdefault((api, stage), []).append((bucket, n))
busiest = max({api for api, _ in counts}, key=lambda name: sum(n for _, n in counts[name, "total"]))
for stage in (*PIPELINE, "total"):
    if (busiest, stage) in counts:
        buckets, numbers = zip(*counts[busiest, stage], strict=True)
        p50, p99 = (histogram.percentile(buckets, numbers, q) / 1000 for q in (0.5, 0.99))
        print(f"{busiest:10} {stage:10} p50 {p50:10.1f} µs   p99 {p99:10.1f} µs")

# %% Where the mean request of the busiest API spends its time, window by window
windows = sorted(set(rollup.column("window_ms").to_pylist()))
spent: dict[tuple[str, int], int] = {}
requests: dict[int, int] = {}
for row in rollup.to_pylist():
    if row["api"] == busiest:
        key = (row["stage"], row["window_ms"])
        spent[key] = spent.get(key, 0) + row["sum_ns"]
        if row["stage"] == "total":
            requests[row["window_ms"]] = requests.get(row["window_ms"], 0) + row["n"]
show(
    [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "one",
            "name": stage,
            "x": [window / 1000 - windows[0] / 1000 for window in windows],
            "y": [spent.get((stage, window), 0) / max(1, requests.get(window, 0)) / 1000 for window in windows],
        }
        for stage in PIPELINE
        if any(name == stage for name, _ in spent)
    ],
    xaxis={"title": {"text": "seconds"}},
    yaxis={"title": {"text": f"mean {busiest} request, µs"}},
)

# %% The ten slowest requests, one by one
columns = [
    "epoch_ns",
    "api",
    "client",
    "topic",
    "handler",
    "conn_id",
    "corr_id",
    "total_ns",
    *(f"{stage}_ns" for stage in PIPELINE),
]
slowest = engine.requests(columns, Where(order="-total_ns", limit=10)).to_pylist()
for row in slowest:
    worst = max(PIPELINE, key=lambda stage: row[f"{stage}_ns"] or 0)
    print(
        f"{row['api']:10} {row['client'] or '?':20} connection {row['conn_id']:<6} {row['total_ns'] / 1e6:9.3f} ms, "
        f"of it {(row[f'{worst}_ns'] or 0) / 1e6:9.3f} ms {worst}"
    )

# %% Which client waits? The same rollup by another name
by_client = engine.rollup(0, ("client",)).to_pylist()
names = sorted({row["client"] or "?" for row in by_client})
waits = []
for name in names:
    mine = [row for row in by_client if (row["client"] or "?") == name and row["stage"] == "total"]
    waits.append(
        histogram.percentile([row["bucket"] for row in mine], [row["n"] for row in mine], 0.99) / 1e6 if mine else 0
    )
show(
    [{"type": "bar", "orientation": "h", "name": "p99", "y": names, "x": waits}],
    xaxis={"title": {"text": "p99 of the whole request, ms"}},
)

# %% The same in Spark, without an engine in between: records as rows of a table
if engine.name == "spark":
    from pyspark.sql import SparkSession

    from mpbroker.analysis.spark.frames import requests as request_frame

    frame = request_frame(SparkSession.active(), place, columns=["api", "req_bytes"])
    frame.groupBy("api").sum("req_bytes").show()

# %% Keep the figures: one page, no network
out = Path(os.environ.get("MPBROKER_OUT", "trace-notebook.html"))
out.write_text(
    "<!DOCTYPE html><meta charset='utf-8'>"
    + "".join(
        plotly.io.to_html(figure, full_html=False, include_plotlyjs=place == 0) for place, figure in enumerate(figures)
    ),
    encoding="utf-8",
)
engine.close()
print(f"{len(figures)} figures: {out}")
