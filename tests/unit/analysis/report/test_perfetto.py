"""The export is what the trace-event format asks for, and says of the model's requests what the model did."""

import gzip
import itertools
import json
from collections import defaultdict

import pytest

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.report import perfetto
from tests.harness import gauges
from tests.harness.event_model import Scenario
from tests.harness.event_trace import Marker, TraceOptions
from tests.harness.golden_trace import golden

SCENARIO = Scenario(duration_ms=1500, rate=120, handlers=2, service_ms=10)
OPTIONS = TraceOptions(markers=(Marker("<step> 1", 300), Marker("later", 90_000)))


def _read(path):
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return json.loads(text)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("perfetto")
    with golden(place / "traces", SCENARIO, OPTIONS) as (engine, outcome):
        engine.input.gauges = lambda: gauges.table(2, 0.5, 7, 500)
        written = perfetto.export(engine, place / "slice.json")
    return written, _read(place / "slice.json"), outcome


def _by_phase(document):
    found = defaultdict(list)
    for event in document["traceEvents"]:
        found[event["ph"]].append(event)
    return found


def test_every_event_has_what_its_phase_needs(exported):
    written, document, _ = exported
    assert (
        set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
        and len(document["traceEvents"]) == written.events
    )
    for event in document["traceEvents"]:
        assert (
            event["ph"] in "beXCiM"
            and isinstance(event["name"], str)
            and isinstance(event["pid"], int)
            and isinstance(event["tid"], int)
        )
        assert event["ph"] == "M" or event["ts"] >= 0
    phases = _by_phase(document)
    assert all(event["dur"] > 0 for event in phases["X"]) and all(event["s"] == "g" for event in phases["i"])
    assert all(all(isinstance(value, int | float) for value in event["args"].values()) for event in phases["C"])


def test_requests_are_nested_and_as_long_as_in_the_model(exported):
    written, document, outcome = exported
    lengths, stacks = [], defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "b":
            assert not stacks[event["id"]] or stacks[event["id"]][0]["ts"] <= event["ts"]
            stacks[event["id"]].append(event)
        elif event["ph"] == "e":
            begun = stacks[event["id"]].pop()
            assert begun["name"] == event["name"] and begun["ts"] <= event["ts"]
            if not stacks[event["id"]]:
                lengths.append(event["ts"] - begun["ts"])
    assert not any(stacks.values()) and len(lengths) == written.requests == len(outcome.requests)
    expected = sorted((one.stage[-1] - min(one.arrival, one.stage[0])) * 0.064 for one in outcome.requests)
    assert sum(lengths) == pytest.approx(sum(expected), rel=0.02)


def test_a_handler_does_one_thing_at_a_time_and_is_as_busy_as_in_the_model(exported):
    _, document, outcome = exported
    handlers = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name" and event["args"]["name"].startswith("handler")
    }
    assert sorted(handlers.values()) == ["handler 0", "handler 1"]
    tracks = defaultdict(list)
    for event in _by_phase(document)["X"]:
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(spans))
    busy_us = sum(end - start for track in handlers for start, end in tracks[track])
    assert busy_us == pytest.approx(sum(outcome.busy_ticks) * 0.064, rel=0.02)


def test_groups_are_named_and_have_an_order(exported):
    _, document, _ = exported
    names = {event["args"]["name"] for event in _by_phase(document)["M"] if event["name"] == "process_name"}
    assert names == {"broker 1: processors", "broker 1: handlers", "broker 1: requests"}


def test_markers_and_counters_of_its_time_alone(exported):
    _, document, _ = exported
    phases = _by_phase(document)
    assert [event["name"] for event in phases["i"]] == ["<step> 1"]
    depths = [event["args"]["requests"] for event in phases["C"] if event["name"] == "data ring"]
    shares = [event["args"]["% of a core"] for event in phases["C"] if event["name"] == "handler 0 busy"]
    assert depths and set(depths) == {7} and shares and set(shares) == {50.0}


def test_it_is_cut_and_says_so(tmp_path):
    with golden(tmp_path / "traces", SCENARIO, OPTIONS) as (engine, outcome):
        written = perfetto.export(engine, tmp_path / "slice.json.gz", most_events=1000)
    assert written.events <= 1000 and 0 < written.requests < len(outcome.requests)
    assert len(_read(written.path)["traceEvents"]) == written.events
    assert written.sentences[0].startswith(
        f"Cut after the first {written.requests} of {len(outcome.requests)} requests"
    )


def test_too_little_room_is_refused(tmp_path):
    with golden(tmp_path / "traces", SCENARIO) as (engine, _), pytest.raises(ValueError, match="too few"):
        perfetto.export(engine, tmp_path / "slice.json", most_events=50)


def test_an_empty_slice_is_a_file_all_the_same(tmp_path):
    with golden(tmp_path / "traces", SCENARIO) as (engine, _):
        written = perfetto.export(engine, tmp_path / "slice.json", Where(to_ns=1))
    assert written.requests == 0 and _read(written.path)["traceEvents"] == []


def test_samples_are_said_to_be_samples(tmp_path):
    with golden(tmp_path / "traces", SCENARIO, TraceOptions(sample_shift=1)) as (engine, _):
        assert any("sampled" in sentence for sentence in perfetto.export(engine, tmp_path / "slice.json").sentences)
