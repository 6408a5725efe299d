"""The tables of pages on repeated runs: medians with order statistics, ratios with intervals, between the page's
marks."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from perf.repeated_page import measured, read, renew, table
from perf.request_queue import BEGIN, END

P99 = {"fifo": [10.0, 11.0, 9.0, 10.5, 9.5], "fair": [5.0, 5.5, 4.5, 5.2, 4.8]}


def _left(place, variants):
    """What `mpbroker lab run --repeat 5` leaves of two phases of 2 s and 4 s."""
    rows = [
        {"variant": variant, "repeat": n, "phase": phase, "group": group, "requests": 100 * n, "net_p50_us": 1500.0}
        | {"net_p99_us": 1000.0 * P99[variant][n - 1] * (2 if phase == "mixed" else 1)}
        for variant in variants
        for n in range(1, 6)
        for phase in ("quiet", "mixed")
        for group in ("small", *(["greedy"] if phase == "mixed" else []))
    ]
    (place / "tables").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), place / "tables" / "clients.client_runs.parquet")
    phases = [("quiet", 0, 2_000_000_000), ("mixed", 2_000_000_000, 6_000_000_000)]
    meta = {
        "created": "2026-11-23T10:00:00",
        "repeat": 5,
        "seconds": 6.0,
        "seed": 1,
        "input_records": 1234,
        "dropped": 0,
    }
    meta["groups"] = [{"name": "small"}, {"name": "greedy"}]
    meta["variants"] = [{"name": variant, "repeat": n, "phases": phases} for variant in variants for n in range(1, 6)]
    (place / "meta.json").write_text(json.dumps(meta))
    return read(place)


def test_variants_of_a_phase_stand_beside_the_first(tmp_path):
    lines = table(_left(tmp_path, ("fifo", "fair")), "mixed").splitlines()
    assert lines[0].startswith("| clients | variant | requests a second |") and lines[0].endswith("p99 beside “fifo” |")
    assert lines[2] == "| small | fifo | 75 [25, 125] | 1.50 [1.50, 1.50] | 20.00 [18.00, 22.00] |  |  |"
    assert lines[3].startswith(
        "| small | fair | 75 [25, 125] | 1.50 [1.50, 1.50] | 10.00 [9.00, 11.00] | 1.00 [1.00, 1.00]"
    )
    assert " | 0.50 [0.4" in lines[3] and [line.split(" | ")[0] for line in lines[4:]] == ["| greedy", "| greedy"]


def test_phases_of_one_variant_are_compared_run_by_run(tmp_path):
    small, mixed, greedy = table(_left(tmp_path, ("fifo",))).splitlines()[2:]
    assert small.startswith("| small | quiet | 150 [50, 250] |") and small.endswith(" |  |  |")
    assert mixed.endswith("| 1.00 [1.00, 1.00] | 2.00 [2.00, 2.00] |"), "twice as much in every single run"
    assert greedy.endswith(" |  |  |"), "nothing to compare it with"


def test_only_what_is_between_the_marks_is_renewed(tmp_path):
    page, runs = tmp_path / "page", _left(tmp_path, ("fifo",))
    page.write_text(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n")
    renew(page, measured(runs))
    text = page.read_text()
    assert text.startswith(f"Before.\n{BEGIN}\nMeasured 2026-11-23 on ") and text.endswith(f"|\n{END}\nAfter.\n")
    assert "5 runs of 6 s for each variant, in turns (seed 1); 1,234 requests" in text and "old" not in text
