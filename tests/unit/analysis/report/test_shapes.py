"""No two series of a figure look alike to who sees no colours: lines, points, bars and areas, with and without
variants."""

import itertools

import pytest

from mpbroker.analysis.report import palette, shapes
from mpbroker.analysis.report.look import dress


def _shape(trace):
    """What is left of a series without its colour."""
    marker, pattern = trace.get("marker", {}), trace.get("fillpattern") or trace.get("marker", {}).get("pattern") or {}
    symbol = marker.get("symbol") if "markers" in trace.get("mode", "lines") else None
    return trace.get("line", {}).get("dash", "solid"), symbol, tuple(sorted(pattern.items()))


def _shapes(*data):
    return [_shape(trace) for trace in dress({"data": list(data), "layout": {}})[0]["data"]]


def _line(name, **more):
    return {"type": "scatter", "mode": "lines", "name": name, "x": [1, 2], "y": [1, 2], **more}


@pytest.mark.parametrize("number", [2, 6, 20])
@pytest.mark.parametrize("mode", ["lines", "lines+markers"])
def test_lines_differ(number, mode):
    assert len(set(_shapes(*(_line(f"client {n}", mode=mode) for n in range(number))))) == number


def test_points_differ():
    assert len(set(_shapes(*(_line(f"{n}", mode="markers") for n in range(8))))) == 8


@pytest.mark.parametrize("fill", [{"stackgroup": "one"}, {"type": "bar"}])
def test_stages_differ_and_look_the_same_in_every_figure(fill):
    stages = [{**_line(name), **fill} for name in palette.STAGES]
    found = dict(zip(palette.STAGES, _shapes(*stages), strict=True))
    assert len(set(found.values())) == len(stages)
    for first, second in itertools.pairwise(stages):
        assert _shapes(first, second) == [found[first["name"]], found[second["name"]]]


def test_other_names_take_no_hatch_of_a_stage_beside_them():
    names = ["held back", "queue", "waiting in the socket", "on the way"]
    assert len(set(shapes.hatch_numbers(names).values())) == 4
    assert shapes.hatch_numbers(names)["queue"] == shapes.hatch_numbers(["queue"])["queue"]


def test_series_with_the_same_name_are_one():
    """An API a figure has a menu for: the lines of each have the same dashes."""
    names = ["p50", "p99", "max"]
    first, second = (_shapes(*(_line(name) for name in names * 2))[place : place + 3] for place in (0, 3))
    assert first == second and len(set(first)) == 3


@pytest.mark.parametrize("mode", ["lines", "markers"])
@pytest.mark.parametrize("variants", [1, 3])
@pytest.mark.parametrize("key", ["phase", "shade"])
def test_phases_and_variants_differ_in_shape(mode, variants, key):
    kinds = range(3) if key == "phase" else ("control", "data", "errors")
    series = [
        _line(f"{kind} {variant}", mode=mode, meta={key: kind, "variant": variant})
        for kind in kinds
        for variant in range(variants)
    ]
    assert len(set(_shapes(*series))) == len(series)


def test_a_phase_keeps_its_marker_and_a_variant_its_dash():
    six = _shapes(*(_line(f"{n}", meta={"phase": n % 3, "variant": n // 3}) for n in range(6)))
    two = _shapes(*(_line(f"{n}", meta={"phase": n % 3, "variant": n // 3}) for n in (2, 4)))
    assert [symbol for _, symbol, _ in six[:3]] == [symbol for _, symbol, _ in six[3:]]
    assert [dash for dash, *_ in six] == ["solid"] * 3 + ["dash"] * 3
    assert two == [six[2], six[4]]
