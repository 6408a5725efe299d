"""Pieces of figures: breaks in lines, marks of phases, menus."""

from mpbroker.analysis.engine.running import figure_specs
from mpbroker.analysis.engine.running.phases import ALL, BEFORE, Phase


def test_no_line_bridges_two_runs():
    at, rate = figure_specs.broken_lines(["t1", "t2", "t3", "t4"], ["a", "a", "b", "b"], [1, 2, 3, 4])
    assert at == ["t1", "t2", "t3", "t3", "t4"] and rate == [1, 2, None, 3, 4]
    assert figure_specs.broken_lines([], [], []) == [[], []]


def test_parts_begin_after_long_gaps():
    assert figure_specs.part_numbers([0, 100, 200, 900, 1000], 100) == [0, 0, 0, 1, 1]
    assert figure_specs.part_numbers([], 100) == []


def test_phases_are_marked_unless_there_is_but_one():
    assert figure_specs.phase_marks([Phase(ALL, 0, 9)]) == {}
    marks = figure_specs.phase_marks([Phase(BEFORE, 0, 5), Phase("x" * 80, 5 * 10**9, 9 * 10**9)])
    assert len(marks["shapes"]) == 1 and marks["shapes"][0]["x0"] == "1970-01-01T00:00:05.000"
    assert len(marks["annotations"][0]["text"]) == figure_specs.MARK_CHARS


def test_a_menu_shows_one_owner():
    menu = figure_specs.chooser(["a", "b"], ["a", "a", "b"], "b")["updatemenus"][0]
    assert menu["active"] == 1 and menu["buttons"][0]["args"] == [{"visible": [True, True, False]}]
    assert figure_specs.chooser(["a"], ["a"], "a") == {}
