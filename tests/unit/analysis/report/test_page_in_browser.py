"""The page in a real browser, light and dark, wide and narrow: no error, every figure drawn, nothing sticks out."""

import pytest

from mpbroker.analysis.report import page, palette
from tests.harness import browser
from tests.unit.analysis.report.sample_results import sample_input, sample_meta, sample_results

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.find() is None, reason=f"no browser on PATH: looked for {', '.join(browser.NAMES)}"),
]

#: Every chart that plotly has drawn has marks of its series.
DRAWN = """[...document.querySelectorAll('.chart[data-spec]')].map(chart =>
    [chart.dataset.spec, chart.querySelectorAll(
        '.main-svg .trace path, .main-svg .trace image, .main-svg .hm image, .main-svg .point').length])"""
SHAPES = [(1440, False), (1440, True), (420, False), (420, True)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return page.write(tmp_path_factory.mktemp("report"), sample_results(), sample_input(3000), sample_meta())


@pytest.fixture(scope="module")
def tab():
    with browser.Browser(browser.find()) as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), SHAPES)
def test_every_figure_is_drawn_without_an_error(tab, path, width, dark):
    del tab.messages[:]
    tab.open(path, width=width, dark=dark)
    assert tab.messages == [] and tab.evaluate("document.documentElement.dataset.errors || ''") == ""
    assert tab.evaluate("document.documentElement.dataset.drawn") == "7/7"
    drawn = dict(tab.evaluate(DRAWN))
    assert len(drawn) == 7 and min(drawn.values()) > 0, drawn
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_figures_stand_on_the_ground_of_the_page(tab, path, dark):
    tab.open(path, dark=dark)
    paper = palette.SURFACE["paper"].dark if dark else palette.SURFACE["paper"].light
    queue = palette.STAGES["queue"][0].dark if dark else palette.STAGES["queue"][0].light
    for color, expression in (
        (paper, "document.querySelector('figure').querySelector('.chart')._fullLayout.paper_bgcolor"),
        (
            queue,
            "document.querySelector('#latency-stages-over-time .chart')._fullData.find(t => t.name === 'waiting in "
            "the request ring').fillcolor",
        ),
    ):
        assert tab.evaluate(expression) == color
    shown = tab.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor")
    assert shown == "rgb({}, {}, {})".format(*(int(paper[i : i + 2], 16) for i in (1, 3, 5)))


def test_names_do_nothing(tab, path):
    tab.open(path)
    assert tab.evaluate("document.title").startswith("Where requests spent their time")
    assert tab.evaluate("document.querySelectorAll('img, svg a').length") == 0
    assert "<script>document.title='owned'</script>" in tab.evaluate(
        "document.querySelector('#tail-clients .legend').textContent"
    )


def test_a_choice_changes_its_figure(tab, path):
    tab.open(path)
    tab.evaluate(
        "(() => { const menu = document.querySelector('select[data-of]'); menu.value = '1'; menu.dispatchEvent(new "
        "Event('change')); })()"
    )
    hidden = tab.evaluate(
        "document.querySelector('#latency-percentiles .chart').data.filter(trace => trace.visible === false).length"
    )
    assert hidden == 2


def test_a_zoom_in_time_is_one_of_all_figures_over_time(tab, path):
    tab.open(path)
    ranges = (
        "[...document.querySelectorAll('.chart[data-time]')].map(c => "
        "c.layout.xaxis.range.map(x => String(x).slice(11, 19)).join())"
    )
    assert len(tab.evaluate(ranges)) >= 3 and len(set(tab.evaluate(ranges))) == 1
    tab.evaluate(
        "(async () => { await Plotly.relayout(document.querySelector('.chart[data-time]'), "
        "{'xaxis.range[0]': '2026-09-21 13:46:10', 'xaxis.range[1]': '2026-09-21 13:46:20'}); })()"
    )
    for _ in range(50):
        if set(tab.evaluate(ranges)) == {"13:46:10,13:46:20"}:
            break
    assert set(tab.evaluate(ranges)) == {"13:46:10,13:46:20"} and tab.messages == []


def test_it_prints(tab, path):
    tab.open(path, dark=True)
    assert tab.pdf().startswith(b"%PDF") and tab.messages == []
