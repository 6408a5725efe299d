"""The head of the page warns of what would make its figures wrong."""

from types import SimpleNamespace

from mpbroker.analysis.engine.input.clock_line import ClockQuality
from mpbroker.analysis.engine.input.losses import Gap, Loss
from mpbroker.analysis.report.health import health_html

CLOCK = SimpleNamespace(samples=3, max_uncertainty_ns=1500, steps=0)


def test_a_whole_trace_has_no_warning():
    html = health_html(Loss(10, 10), CLOCK, ())
    assert 'class="warn"' not in html and "±1.5 µs" in html and "10" in html


def test_more_than_one_per_cent_lost():
    html = health_html(Loss(1000, 900, 100), CLOCK, ())
    assert html.count('class="warn"') == 1 and "10 %" in html and "do not trust" in html


def test_gaps_and_damage():
    html = health_html(Loss(10, 10, gaps=(Gap("ab", 1, 0, 5, 3, 0),), damaged_files=2), CLOCK, ["b1.mpt: <cut>"])
    assert 'class="warn"' in html and "2 damaged files, 1 gap" in html and "&lt;cut&gt;" in html


def test_no_clock_and_a_stepping_clock():
    assert "unknown" in health_html(Loss(1, 1), SimpleNamespace(samples=0, max_uncertainty_ns=0, steps=0), ())
    assert 'class="warn"' in health_html(Loss(1, 1), SimpleNamespace(samples=2, max_uncertainty_ns=10, steps=1), ())


def test_the_engine_s_own_types_fit():
    assert "Clock" in health_html(Loss(), ClockQuality(*[0] * len(ClockQuality._fields)), ())


def test_sentences_are_bounded():
    assert "5 more stand in meta.json" in health_html(Loss(), CLOCK, ["x"] * 25)
