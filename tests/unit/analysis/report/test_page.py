"""The page without a browser: complete, closed to the network, every figure as plotly wants it, every name harmless."""

import re
from collections import Counter

import plotly.graph_objects as go
import pyarrow as pa
import pytest

from mpbroker.analysis.report import page
from mpbroker.analysis.report.markup import script_hash
from tests.unit.analysis.report.page_reader import PageReader
from tests.unit.analysis.report.sample_results import LINK, NASTY, sample_input, sample_meta, sample_results


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = page.write(tmp_path_factory.mktemp("report"), sample_results(), sample_input(dropped=3000), sample_meta())
    assert path.name == "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(source):
    return PageReader(source)


def test_it_loads_nothing(read):
    links = [
        value
        for _, attributes in read.elements
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "action")
    ]
    assert links and not [link for link in links if re.match(r"[a-z]+:|//", link)]
    assert not {"link", "iframe", "img", "object", "embed", "form", "base"} & {tag for tag, _ in read.elements}


def test_its_policy_allows_its_own_scripts_alone(read):
    policy = next(meta["content"] for meta in read.named("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    running = [text for attributes, text in read.scripts if attributes.get("type") != "application/json"]
    assert "default-src 'none'" in policy and len(running) == 2
    assert set(re.findall(r"'sha256-[^']+'", policy)) == set(map(script_hash, running))


def test_every_figure_is_what_plotly_takes(read):
    specs = read.specs()
    assert len(specs) == 7
    for spec in specs.values():
        figure = go.Figure(data=spec["data"], layout=spec["layout"])
        assert figure.data and not figure.layout.title.text


def test_names_stay_names(read, source):
    assert read.words.count(NASTY) >= 3 and "owned" not in re.findall(r"<title>(.*?)</title>", source)
    assert source.count("<script") - source.count("<script>") == 8 and "onerror" not in {
        name for _, attributes in read.elements for name in attributes
    }
    (points,) = [spec for name, spec in read.specs().items() if name == "tail-clients-spec"]
    assert "<" not in points["data"][0]["name"] and set(points["data"][1]["text"]) == {
        LINK.replace("<", "&lt;").replace(">", "&gt;")
    }


def test_findings_come_first_with_what_to_change(source, read):
    """The answer, then causes by the time they cost, each with its action; what costs next to nothing is left out."""
    places = [
        source.index(words)
        for words in (
            "What do quiet clients notice?",
            "<b>18 times</b>",
            "waits in the request ring 41 %",
            "raise num.io.threads",
            "Handler 0 had no core",
            "the machine has no free core",
            'id="trust"',
        )
    ]
    assert places == sorted(places) and "Too little to show" not in read.words
    assert "Explains <b>42 %</b> of all request time (<b>12 s</b>)." in source


def test_sentences_of_the_studies_follow_with_their_numbers(source):
    assert (
        source.index('id="findings"')
        < source.index('id="trust"')
        < source.index('id="sentences"')
        < source.index('id="study-latency"')
        < source.index('id="made-with"')
    )
    assert "Produce: p99 is <b>1.90 ms</b>; <b>61 %</b> of it" in source


def test_contents_lead_somewhere_and_ids_are_unique(read):
    ids = Counter(attributes["id"] for _, attributes in read.elements if "id" in attributes)
    assert max(ids.values()) == 1
    targets = {link["href"][1:] for link in read.named("a") if link["href"].startswith("#")}
    assert targets <= set(ids) and {"findings", "study-latency", "study-tail", "latency-heat"} <= targets


def test_a_screen_reader_finds_its_way(read):
    charts = [attributes for tag, attributes in read.elements if tag == "div" and attributes.get("role") == "img"]
    ids = {attributes.get("id") for _, attributes in read.elements}
    assert len(charts) == 7 and all({chart["aria-labelledby"], chart["aria-describedby"]} <= ids for chart in charts)
    assert all(head.get("scope") for head in read.named("th")) and len(read.named("h1")) == 1
    assert all(select["aria-label"] for select in read.named("select")) and read.named("html")[0]["lang"] == "en"


def test_tables_stand_beside_the_page(read):
    links = [link["href"] for link in read.named("a")]
    assert {"tables/latency.stage_percentiles.parquet", "tables/tail.exemplars.csv", "meta.json"} <= set(links)


def test_a_figure_without_data_is_left_out(read):
    """Also from the contents; a study without sentences says so."""
    assert "Requests that hung" not in read.words and "No finding." in read.words


def test_doubtful_traces_are_said_to_be_so_at_the_top(read):
    doubtful = page.page_html(sample_results(), sample_input(dropped=300_000), sample_meta())
    said = "Records lost: 19 % (more than 1 %: do not trust its percentiles)"
    assert doubtful.index(said) < doubtful.index("raise num.io.threads") and said not in read.words


def test_time_axes_show_the_same_time(read):
    specs = read.specs().values()
    ranges = [
        spec["layout"]["xaxis"].get("range") for spec in specs if spec["layout"].get("xaxis", {}).get("type") == "date"
    ]
    assert len(ranges) >= 3 and ranges[0] and all(one == ranges[0] for one in ranges)


def test_stages_have_plain_names(read):
    [spec] = [spec for name, spec in read.specs().items() if name.startswith("latency-stages")]
    names = [trace["name"] for trace in spec["data"]]
    assert "waiting in the socket" in names and not {"rx_wait", "queue", "io"} & set(names)
    bars = read.specs()["tail-attribution-spec"]["data"][0]
    assert "waiting in the request ring" in bars["y"]


def test_large_figures_are_bounded(read, source):
    assert len(read.specs()["tail-long-spec"]["data"][0]["x"]) <= 20_000 and "thinned" in read.words
    assert len(source) < 8_000_000


def test_a_page_of_nothing():
    read = PageReader(page.page_html([], sample_input(), {}))
    assert not read.specs() and "no study" in read.words


def test_the_first_screen_says_where_the_time_goes():
    """In words as well as in colours, the largest first; and nothing where a run says nothing of it."""
    shares = {"rx_wait": 0.07, "queue": 0.412, "io": 0.3, "purgatory": 0.001}
    written = page.page_html(sample_results(), sample_input(), {**sample_meta(), "stage_shares": shares})
    words = "<b>41 %</b> waiting in the request ring, <b>30 %</b> reading or writing the log"
    assert f"Of the time of all requests: {words} and <b>7 %</b> waiting in the socket." in written
    assert written.index("What costs most time") < written.index(words) < written.index("raise num.io.threads")
    assert re.findall(r'<span class="(c-\w+)" style="flex:([0-9.]+) 0 0"', written) == [
        ("c-rx_wait", "0.0700"),
        ("c-queue", "0.4120"),
        ("c-io", "0.3000"),
    ]
    assert "Of the time of all" not in page.page_html(sample_results(), sample_input(), sample_meta())


def test_variants_stand_beside_each_other_under_the_answer():
    results = sample_results()
    results[0].tables["side_by_side"] = pa.table({"variant": ["fifo", NASTY], "net p99, flood": ["9.5 ms", "2 ms"]})
    written = page.page_html(results, sample_input(), sample_meta())
    read = PageReader(written)
    assert (
        written.index("<b>18 times</b>") < written.index('class="scroll wrap beside"') < written.index('id="findings"')
    )
    assert "net p99, flood" in read.words and "<td><b>9.5 ms</b></td>" in written and read.words.count(NASTY) >= 4
