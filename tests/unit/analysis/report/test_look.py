"""Studies give data and axes; the look adds colours, heights and bounds, and takes out what a page must not have."""

from mpbroker.analysis.report import palette
from mpbroker.analysis.report.look import dress, is_empty


def _dress(*data, **layout):
    return dress({"data": list(data), "layout": layout})[0]


def test_a_stage_has_its_colour_in_every_kind_of_figure():
    queue = palette.STAGES["queue"][0].light
    line, band, bar = _dress(
        {"type": "scatter", "mode": "lines", "name": "queue", "x": [1], "y": [1]},
        {"type": "scatter", "name": "queue", "stackgroup": "one", "x": [1], "y": [1]},
        {"type": "bar", "name": "queue", "x": [1], "y": [1]},
    )["data"]
    assert line["line"]["color"] == band["fillcolor"] == bar["marker"]["color"] == queue


def test_bars_along_stage_names_are_coloured_one_by_one():
    (bar,) = _dress({"type": "bar", "orientation": "h", "name": "excess", "y": ["queue", "io"], "x": [1, 2]})["data"]
    assert bar["marker"]["color"] == [palette.STAGES[name][0].light for name in ("queue", "io")]


def test_names_without_a_colour_get_different_ones_and_keep_them():
    data = _dress(*({"type": "scatter", "name": name, "x": [1], "y": [1]} for name in ("a", "b", "a")))["data"]
    assert data[0]["line"]["color"] == data[2]["line"]["color"] != data[1]["line"]["color"]


def test_when_colours_run_out_dashes_tell_series_apart():
    data = _dress(
        *({"type": "scatter", "mode": "lines+markers", "name": f"client {i}", "x": [1], "y": [1]} for i in range(20))
    )["data"]
    looks = {(trace["line"]["color"], trace["line"].get("dash"), trace["marker"].get("symbol")) for trace in data}
    assert len(looks) == 20


def test_a_category_never_has_the_colour_of_a_named_series():
    named, other = _dress(*({"type": "bar", "name": name, "x": [1], "y": [1]} for name in ("local", "something")))[
        "data"
    ]
    assert named["marker"]["color"] != other["marker"]["color"]


def test_a_study_may_choose_its_colour():
    assert (
        _dress({"type": "scatter", "name": "queue", "line": {"color": "#123456"}, "x": [1], "y": [1]})["data"][0][
            "line"
        ]["color"]
        == "#123456"
    )


def test_colour_is_the_phase_and_dash_the_variant():
    """The same pair looks the same whatever else is in the figure; points have symbols where lines have dashes."""

    def series(phase, variant, mode="lines"):
        return {
            "type": "scatter",
            "mode": mode,
            "name": f"{phase} {variant}",
            "x": [1],
            "y": [1],
            "meta": {"phase": phase, "variant": variant},
        }

    lines = _dress(*(series(phase, variant) for phase in range(3) for variant in range(2)))["data"]
    colors = [trace["line"]["color"] for trace in lines]
    assert colors[0::2] == colors[1::2] and len(set(colors)) == 3
    assert [trace["line"].get("dash") for trace in lines] == [None, "dash"] * 3
    (alone,) = _dress(series(2, 1, "markers"))["data"]
    assert alone["marker"]["color"] == colors[-1] and alone["marker"]["symbol"] == "diamond"
    (control,) = _dress({**series(0, 1), "meta": {"shade": "control", "variant": 1}})["data"]
    assert control["line"]["color"] == palette.NAMED["control"].light and control["line"]["dash"] == "dash"


def test_time_axes_have_the_range_of_the_page():
    figure = {
        "data": [{"type": "scatter", "x": ["2026-01-01T00:00:01"], "y": [1]}],
        "layout": {"xaxis": {"type": "date"}},
    }
    times = ["2026-01-01T00:00:00", "2026-01-01T00:01:00"]
    assert dress(figure, times)[0]["layout"]["xaxis"]["range"] == times
    assert "range" not in dress({**figure, "layout": {"xaxis": {"type": "log"}}}, times)[0]["layout"]["xaxis"]


def test_menus_become_choices_of_the_page():
    spec = _dress(
        {"type": "scatter", "x": [1], "y": [1]},
        updatemenus=[
            {
                "active": 1,
                "buttons": [
                    {"label": "all", "method": "restyle", "args": [{"visible": [True]}]},
                    {"label": "bad", "method": "animate", "args": []},
                ],
            }
        ],
    )
    assert "updatemenus" not in spec["layout"]
    assert spec["choices"] == [
        {"active": 1, "buttons": [{"label": "all", "method": "restyle", "args": [{"visible": [True]}]}]}
    ]


def test_pictures_templates_and_webgl_are_left_out():
    spec = _dress(
        {"type": "scattergl", "x": [1], "y": [1]},
        template={},
        images=[{"source": "https://example.com/x.png"}],
        title="twice",
    )
    assert spec["data"][0]["type"] == "scatter" and not {"template", "images", "title"} & set(spec["layout"])


def test_rows_of_names_have_room_and_a_grid_along_x():
    layout = _dress({"type": "bar", "orientation": "h", "y": [f"client {i}" for i in range(30)], "x": [1] * 30})[
        "layout"
    ]
    assert layout["height"] > 900 and layout["xaxis"]["showgrid"] and not layout["yaxis"]["showgrid"]


def test_one_label_for_all_lines_over_time():
    assert (
        _dress({"type": "scatter", "mode": "lines", "x": ["2026-09-21T13:46:00"], "y": [1]})["layout"]["hovermode"]
        == "x unified"
    )


def test_the_study_s_own_spec_is_not_touched():
    spec = {
        "data": [{"type": "scatter", "name": "queue", "x": [1], "y": [1]}],
        "layout": {"yaxis": {"type": "log", "title": {"text": "wait, ms"}}},
    }
    before = repr(spec)
    dress(spec)
    assert repr(spec) == before


def test_emptiness():
    assert (
        is_empty({"data": []})
        and is_empty({"data": [{"x": [], "y": [None]}]})
        and not is_empty({"data": [{"z": [[1]]}]})
    )


def _without_colour(trace):
    return (
        trace.get("marker", {}).get("pattern", {}).get("shape"),
        trace.get("line", {}).get("dash"),
        trace.get("fillpattern", {}).get("shape"),
    )


def test_series_are_told_apart_without_their_colours():
    """In print, and by who sees no difference: bars and areas are hatched, lines dashed."""
    bars = [{"type": "bar", "name": name, "x": [1], "y": ["a"], "orientation": "h"} for name in ("p50", "p99", "max")]
    lines = [{"type": "scatter", "mode": "lines", "name": name, "x": [1, 2], "y": [1, 2]} for name in "abcdef"]
    areas = [{**line, "stackgroup": "one"} for line in lines]
    for data in (bars, lines, areas):
        assert len({_without_colour(trace) for trace in _dress(*data)["data"]}) == len(data)
