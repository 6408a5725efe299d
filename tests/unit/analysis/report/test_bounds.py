"""Large figures are thinned, say so, and keep what stands out."""

from mpbroker.analysis.report import bounds


def test_small_figures_stay_as_they_are():
    data = [{"type": "scatter", "x": [1, 2], "y": [3, None]}]
    assert bounds.bound(data) == (data, [])


def test_lines_keep_a_single_spike_and_their_lists_stay_together():
    count, spike = 300_000, 123_457
    y = [1.0] * count
    y[spike] = 99.0
    ((trace,), (note,)) = bounds.bound(
        [
            {
                "type": "scatter",
                "mode": "lines",
                "x": list(range(count)),
                "y": y,
                "text": [str(i) for i in range(count)],
                "marker": {"size": list(range(count)), "symbol": "circle"},
            }
        ]
    )
    place = trace["y"].index(99.0)
    assert trace["x"][place] == spike and trace["text"][place] == str(spike) and trace["marker"]["size"][place] == spike
    assert len(trace["x"]) == len(trace["y"]) <= bounds.MAX_POINTS_PER_FIGURE
    assert "300,000 points" in note and trace["marker"]["symbol"] == "circle"


def test_stacked_bands_stay_aligned():
    count = 30_000
    data = [
        {"type": "scatter", "stackgroup": "one", "x": list(range(count)), "y": [float(i % k) for i in range(count)]}
        for k in (2, 3)
    ]
    thinned, _ = bounds.bound(data)
    assert thinned[0]["x"] == thinned[1]["x"] and len(thinned[0]["x"]) < count


def test_heat_maps_keep_the_greatest_of_a_block():
    z = [[0] * 1000 for _ in range(500)]
    z[499][999] = 7
    ((trace,), (note,)) = bounds.bound(
        [{"type": "heatmap", "z": z, "x": list(range(1000)), "y": list(range(500)), "customdata": z}]
    )
    assert trace["z"][-1][-1] == 7 and len(trace["x"]) == len(trace["z"][0]) and len(trace["y"]) == len(trace["z"])
    assert (
        len(trace["z"]) * len(trace["z"][0]) <= bounds.MAX_CELLS_PER_HEATMAP
        and "customdata" not in trace
        and "3 × 3" in note
    )


def test_so_many_series_and_no_more():
    shown, (note,) = bounds.bound([{"type": "bar", "x": [1]}] * 200)
    assert len(shown) == bounds.MAX_TRACES_PER_FIGURE and "200 series" in note
