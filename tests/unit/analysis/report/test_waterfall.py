"""Waterfalls keep their sums and get their stages' colours."""

from mpbroker.analysis.report import palette
from mpbroker.analysis.report.look import dress
from mpbroker.analysis.report.waterfall import as_bars

WATERFALL = {
    "type": "waterfall",
    "x": ["mean", "queue", "io", "tail"],
    "y": [10.0, 30.0, -5.0, None],
    "measure": ["absolute", "relative", "relative", "total"],
}


def test_steps_float_where_the_last_one_ended():
    bars = as_bars(WATERFALL)
    assert bars["base"] == [0, 10.0, 40.0, 0] and bars["y"] == [10.0, 30.0, -5.0, 35.0]
    assert bars["marker"]["color"][1:3] == [palette.STAGES["queue"][0].light, palette.STAGES["io"][0].light]


def test_the_page_draws_bars():
    (bar,) = dress({"data": [WATERFALL], "layout": {}})[0]["data"]
    assert bar["type"] == "bar" and len(bar["marker"]["color"]) == 4


def test_others_are_left_alone():
    assert (
        as_bars({"type": "bar", "x": [1], "y": [1]})["type"] == "bar"
        and as_bars({"type": "waterfall", "y": [1]})["type"] == "waterfall"
    )
