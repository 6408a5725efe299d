"""Logarithmic axes of durations speak of µs, ms and s."""

import pytest

from mpbroker.analysis.report.duration_axis import duration_text, humane_axes


def _axis(title: str, values: list[float], **more) -> dict:
    layout = {"yaxis": {"type": "log", "title": {"text": title}, **more}}
    humane_axes([{"x": [1] * len(values), "y": values}], layout)
    return layout["yaxis"]


@pytest.mark.parametrize("title", ["wait (µs)", "wait, us", "wait [μs]", "wait µs"])
def test_decades_get_their_units(title):
    axis = _axis(title, [3.0, 0.0, None, 4_000_000.0])
    assert (
        axis["ticktext"] == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        and axis["tickvals"][0] == 1
    )
    assert axis["title"] == {"text": "wait"}


def test_little_spread_has_finer_ticks():
    assert {"200 µs", "500 µs"} <= set(_axis("wait, ms", [0.15, 0.9])["ticktext"])


def test_other_axes_are_left_alone():
    for axis in (_axis("requests per second", [1, 100]), _axis("wait, ms", [1, 100], tickvals=[1])):
        assert "ticktext" not in axis


def test_its_own_range_counts():
    assert _axis("wait, ms", [], range=[0, 3])["ticktext"] == ["1 ms", "10 ms", "100 ms", "1 s"]


def test_durations_in_words():
    assert [duration_text(value) for value in (640, 12_500, 1_000_000, 2.5e9)] == ["640 ns", "12.5 µs", "1 ms", "2.5 s"]
