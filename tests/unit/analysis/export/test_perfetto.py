"""The export is what the trace-event format asks for, and says of the model's requests what the model did."""

import gzip
import itertools
import json
from collections import defaultdict

import pytest

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.export import perfetto
from mpbroker.analysis.export.perfetto_tracks import Busy, Span, Work
from tests.harness import gauges
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, Scenario
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
            event["ph"] in "beXCiMstf"
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
    for event in _slices(document):
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(spans))
    busy_us = sum(end - start for track in handlers for start, end in tracks[track])
    assert busy_us == pytest.approx(sum(outcome.busy_ticks) * 0.064, rel=0.02)


def _slices(document, category="process"):
    return [event for event in _by_phase(document)["X"] if event["cat"] == category]


def test_a_slice_says_for_which_request_it_was(exported):
    """Client, connection, correlation id, bytes and error."""
    _, document, outcome = exported
    known = {one.number: one for one in outcome.requests}
    alone = [event["args"] for event in _slices(document) if "requests" not in event["args"]]
    assert len(alone) > len(known)
    for arguments in alone:
        one = known[arguments["correlation_id"]]
        assert (arguments["client"], arguments["connection"]) == (f"client-{one.client}", one.client)
        assert arguments["request_bytes"] in (80, 1000) and arguments["time"].endswith(" UTC")
        assert arguments.get("error") == (f"{one.error} NOT_LEADER_OR_FOLLOWER" if one.error else None)


def test_a_slice_of_several_requests_says_how_many_and_which():
    """A processor that sends two answers at once, then one; and their arrows all lead there."""
    busy = Busy()
    for number, (begin, end) in enumerate([(1000, 5000), (2000, 6000), (6000, 7000)]):
        arguments = {"client": f"c{number}", "connection": 7, "correlation_id": number, "response_bytes": 10}
        busy.add(1, "receives", 0, Work(Span("Fetch", 10 + number * 10, 15 + number * 10), {}), number)
        busy.add(1, "sends", 0, Work(Span("Fetch", begin, end), arguments), number)
    events = list(busy.events(0))
    both, one = [event for event in events if event["ph"] == "X" and event["ts"] >= 1]
    assert (both["name"], both["ts"], both["dur"]) == ("Fetch × 2", 1.0, 5.0) and one["args"]["client"] == "c2"
    assert (
        both["args"]["requests"] == 2 and both["args"]["response_bytes"] == 20 and both["args"]["clients"] == "c0, c1"
    )
    assert both["args"]["first"] == "connection 7, correlation id 0; connection 7, correlation id 1"
    assert [(event["ph"], event["id"]) for event in events if event["ph"] in "stf"] == [
        (phase, number) for number in (1, 2, 3) for phase in "sf"
    ]


def test_arrows_lead_from_processor_to_handler_and_back(exported):
    """Each in order, each bound to a slice that is around it, on the tracks that had the request."""
    _, document, outcome = exported
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    around = defaultdict(list)
    for event in _slices(document):
        around[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    flows = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] in "stf":
            flows[event["id"]].append(event)
    assert len(flows) >= 0.95 * len(outcome.requests)
    for points in flows.values():
        assert "".join(event["ph"] for event in points) in ("stf", "sf")
        assert [event["ts"] for event in points] == sorted(event["ts"] for event in points)
        assert [event.get("bp") for event in points][-1] == "e"
        for event in points:
            spans = around[event["pid"], event["tid"]]
            assert any(begin <= event["ts"] <= end for begin, end in spans), event
    whole = [points for points in flows.values() if len(points) == 3]
    names = [[tracks[event["pid"], event["tid"]] for event in points] for points in whole]
    assert names and all(
        first.endswith("receives") and second.startswith("handler") and third.endswith("sends")
        for first, second, third in names
    )


def test_the_wall_clock_is_a_track(exported):
    _, document, _ = exported
    ticks = _slices(document, "clock")
    assert 10 <= len(ticks) <= 200 and ticks[0]["ts"] == 0
    zero = int(document["otherData"]["zero_epoch_ns"])
    for tick in ticks[1:]:
        assert int(tick["args"]["epoch_ns"]) == zero + round(tick["ts"] * 1000)
    assert {tick["name"][:11] for tick in ticks} == {"2023-11-14 "}


def test_rings_have_more_samples_than_the_gauges(exported):
    _, document, outcome = exported
    depths = [event for event in _by_phase(document)["C"] if event["name"] == "data ring, as requests found it"]
    assert len(depths) > 100 and max(event["args"]["requests"] for event in depths) == max(
        one.req_q for one in outcome.requests
    )


def test_the_slowest_alone(tmp_path):
    with golden(tmp_path / "traces", SCENARIO, OPTIONS) as (engine, outcome):
        written = perfetto.export(engine, tmp_path / "slice.json", slowest=7)
    document = _read(written.path)
    lengths = {event["args"]["correlation_id"]: event["ts"] for event in _by_phase(document)["b"] if event.get("args")}
    slowest = sorted(outcome.requests, key=lambda one: -_active(one))[:7]
    assert set(lengths) == {one.number for one in slowest} and written.requests == 7
    assert list(lengths.values()) == sorted(lengths.values())
    assert written.sentences[0].startswith(f"These are the 7 slowest of {len(outcome.requests)} requests")


def _active(one):
    asked = one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]] if one.purgatory == IN_FETCH_PURGATORY else 0
    return one.stage[-1] - one.arrival - asked


def test_groups_are_named_and_have_an_order(exported):
    _, document, _ = exported
    names = {event["args"]["name"] for event in _by_phase(document)["M"] if event["name"] == "process_name"}
    [clock] = names - {"broker 1: processors", "broker 1: handlers", "broker 1: requests"}
    assert clock.startswith("wall clock, from 2023-11-14 22:13:20.")


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
