"""Where a trace has no data, its figures have none."""

from mpbroker.analysis.report.gaps import keep_gaps

TIMES = ["2026-09-21T13:00:00.000", "2026-09-21T13:00:01.000", "2026-09-21T13:00:09.000", "2026-09-21T13:00:10.000"]


def test_a_heat_map_gets_empty_columns():
    found = keep_gaps({"type": "heatmap", "x": TIMES, "z": [[1, 2, 3, 4]], "customdata": [[5, 6, 7, 8]], "y": [1]})
    assert found["z"] == [[1, 2, None, None, 3, 4]] and found["customdata"] == [[5, 6, None, None, 7, 8]]
    assert found["x"] == [*TIMES[:2], "2026-09-21T13:00:02.000", "2026-09-21T13:00:08.000", *TIMES[2:]]


def test_bands_fall_to_zero_at_the_same_places():
    found = keep_gaps({"type": "scatter", "stackgroup": "one", "x": [0, 1, 2, 4, 9], "y": [1, 1, 1, 1, 1]})
    assert found["x"] == [0, 1, 2, 3, 4, 5, 8, 9] and found["y"] == [1, 1, 1, 0, 1, 0, 0, 1]


def test_everything_else_stays():
    for trace in (
        {"type": "scatter", "mode": "lines", "x": [0, 1, 9], "y": [1, 1, 1]},
        {"type": "heatmap", "x": TIMES[:2], "z": [[1, 2]]},
        {"type": "heatmap", "x": ["a", "b", "c"], "z": [[1, 2, 3]]},
        {"type": "heatmap", "z": [[1, 2, 3]]},
        {"type": "heatmap", "x": [], "z": []},
        {"type": "scatter", "stackgroup": "one", "x": [3, 2, 1], "y": [1, 1, 1]},
    ):
        assert keep_gaps(trace) == trace
