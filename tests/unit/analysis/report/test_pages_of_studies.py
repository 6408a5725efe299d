"""Every study's own figures: plotly takes them, a browser draws them, and the page holds what the run left."""

import json

import plotly.graph_objects as go
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.runner import run_studies, study_names
from mpbroker.analysis.engine.running.saved_report import write_again
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.report.look import is_empty
from tests.harness import browser, gauges
from tests.harness.event_model import simulate
from tests.harness.event_trace import Marker, TraceOptions, write_trace
from tests.harness.golden_trace import FLOOD
from tests.unit.analysis.report.page_reader import PageReader

SCENARIO = FLOOD._replace(duration_ms=3000)
BARE = """[...document.querySelectorAll('.chart[data-spec]')].filter(chart => !chart.querySelector(
    '.main-svg .trace path, .main-svg .hm image, .main-svg .point, .main-svg .bars path')
).map(chart => chart.dataset.spec)"""
MARKERS = (Marker("phase calm", 0), Marker("phase <b>flood</b>", 1000), Marker("end", 3000))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """All studies over two runs of a flood with phases, with gauges, and other runs to compare with."""
    place = tmp_path_factory.mktemp("studies")
    for side, seed in (("before", 1), ("before", 2), ("after", 3), ("after", 4)):
        model = simulate(SCENARIO._replace(seed=seed))
        write_trace(place / side / str(seed), model, TraceOptions(boot_id=0xB007 + seed, markers=MARKERS))
    source = open_input([place / "after"])
    source.gauges = lambda: gauges.table(3, 0.5, 450, 500)
    engine, baseline = choose_engine("local", source), choose_engine("local", open_input([place / "before"]))
    return run_studies(study_names(), engine, place / "out", StudyParameters(window_ms=250, baseline=baseline))


def test_every_study_has_a_figure_that_plotly_takes(outcome):
    read = PageReader(outcome.report.read_text(encoding="utf-8"))
    specs = read.specs()
    for result in outcome.results:
        assert [figure for figure in result.figures if not is_empty(figure.spec)], f"{result.study} shows nothing"
        assert all(figure.caption and figure.title for figure in result.figures)
    assert len(specs) == sum(1 for result in outcome.results for figure in result.figures if not is_empty(figure.spec))
    for spec in specs.values():
        go.Figure(spec["data"], spec["layout"])


def test_figures_are_plain_json(outcome):
    for result in outcome.results:
        for figure in result.figures:
            json.dumps(figure.spec, allow_nan=False)


def test_the_page_can_be_written_again(outcome):
    before = PageReader(outcome.report.read_text(encoding="utf-8")).specs()
    assert PageReader(write_again(outcome.report.parent).read_text(encoding="utf-8")).specs() == before


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason=f"no browser on PATH: looked for {', '.join(browser.NAMES)}")
def test_a_browser_draws_them_all(outcome):
    expected = len(PageReader(outcome.report.read_text(encoding="utf-8")).specs())
    with browser.Browser(browser.find()) as tab:
        for width, dark in ((1280, True), (420, False)):
            tab.open(outcome.report, width=width, dark=dark)
            assert (
                tab.messages == []
                and tab.evaluate("document.documentElement.dataset.drawn") == f"{expected}/{expected}"
            )
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            bare = tab.evaluate(BARE)
            assert bare == []
