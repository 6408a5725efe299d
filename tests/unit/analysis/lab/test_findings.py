"""Tables, sentences and figures out of a client table with known numbers."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pytest

from mpbroker.analysis.lab import scenario
from mpbroker.analysis.lab.findings import duration, findings
from mpbroker.analysis.lab.generator_table import SCHEMA
from mpbroker.analysis.lab.latency_table import client_latency, percentile, where_it_waits

MS = 1_000_000
NO_LOAD = SCHEMA.empty_table()
TWO_VARIANTS = scenario.parse(
    "two",
    tomllib.loads("""
question = "Which is quicker?"
seconds = 2
measured = "light"
[[variant]]
name = "slow"
[[variant]]
name = "quick"
[[phase]]
name = "idle"
[[phase]]
name = "flood"
[[group]]
name = "light"
clients = 1
api = "api_versions"
rate_per_s = 100
"""),
)


def _rows(variant, phase, begin_ms, latencies_ms, **known):
    """Requests every 10 ms, sent at once; rx_wait 1/2, queue 1/4 of the latency, the rest of the broker 1/8."""
    for number, latency in enumerate(latencies_ms):
        intended = (begin_ms + 10 * number) * MS
        yield {
            "variant": variant,
            "repeat": 1,
            "phase": phase,
            "group": "light",
            "loop": "open",
            "connection": 0,
            "port": 1,
            "corr_id": number,
            "error": 0,
            "intended_ns": intended,
            "ready_ns": intended,
            "sent_ns": intended,
            "arrived_ns": intended + int(latency * MS),
            "done_ns": intended + int(latency * MS),
            "answered": True,
            "latency_ns": int(latency * MS),
            "net_ns": int(latency * MS),
            "rx_wait_ns": int(latency * MS) // 2,
            "queue_ns": int(latency * MS) // 4,
            "total_ns": int(latency * MS) // 4 + int(latency * MS) // 8,
        } | known


def _clients():
    rows = [
        *_rows("slow", "idle", 0, [1.0] * 100),
        *_rows("slow", "flood", 1000, [2.0] * 98 + [40.0, 80.0]),
        *_rows("quick", "idle", 0, [1.0] * 100),
        *_rows("quick", "flood", 1000, [1.0] * 98 + [4.0, 8.0]),
    ]
    return pa.Table.from_pylist(rows)


def test_percentiles_are_of_the_requests_themselves():
    assert percentile(np.array([3, 1, 2]), 0.5) == 2 and percentile(np.array([3, 1, 2]), 1.0) == 3
    assert percentile(np.arange(1, 101), 0.99) == 99 and np.isnan(percentile(np.array([]), 0.5))


def test_latency_per_variant_phase_and_group():
    rows = {(row["variant"], row["phase"]): row for row in client_latency(_clients()).to_pylist()}
    assert rows["slow", "flood"]["p50_us"] == 2000 and rows["slow", "flood"]["p99_us"] == 40_000
    assert rows["quick", "flood"]["max_us"] == 8000 and rows["quick", "flood"]["requests"] == 100


def test_what_was_never_answered_counts_with_its_time_until_the_end():
    never = list(
        _rows(
            "slow",
            "idle",
            0,
            [500.0],
            answered=False,
            done_ns=None,
            arrived_ns=None,
            total_ns=None,
            sent_ns=None,
            ready_ns=None,
        )
    )
    table = pa.Table.from_pylist([*_rows("slow", "idle", 0, [1.0] * 3), *never])
    (row,) = client_latency(table).to_pylist()
    assert (row["requests"], row["unsent"], row["unanswered"], row["max_us"]) == (4, 1, 0, 500_000)
    assert row["sent_p99_us"] == 1000
    assert {each["requests"] for each in where_it_waits(table).to_pylist() if each["which"] == "all"} == {3}


def test_a_late_generator_is_charged_and_shown():
    rows = list(_rows("slow", "idle", 0, [9.0]))
    rows[0] |= {"sent_ns": rows[0]["sent_ns"] + 8 * MS, "net_ns": MS}
    table = pa.Table.from_pylist(rows)
    (row,) = client_latency(table).to_pylist()
    assert (row["p99_us"], row["sent_p99_us"], row["net_p99_us"]) == (9000, 1000, 1000)
    assert where_it_waits(table).to_pylist()[0]["own_wait_us"] == 8000
    rows[0] |= {
        "ready_ns": rows[0]["sent_ns"],
        "net_ns": 9 * MS,
    }  # now it was the in-flight limit that held it back: the broker's doing
    table = pa.Table.from_pylist(rows)
    assert client_latency(table).to_pylist()[0]["net_p99_us"] == 9000
    assert where_it_waits(table).to_pylist()[0]["held_back_us"] == 8000


def test_where_a_request_waited_adds_up():
    for row in where_it_waits(_clients()).to_pylist():
        parts = sum(
            row[name] for name in ("held_back_us", "rx_wait_us", "queue_us", "rest_of_broker_us", "on_the_way_us")
        )
        assert parts == pytest.approx(row["net_us"])
        assert row["rx_wait_and_queue_share"] == pytest.approx(0.75)


def test_sentences_compare_variants_and_phases():
    result = findings(TWO_VARIANTS, _clients(), NO_LOAD)
    assert "4 ms (4 ms net) with “quick” and 40 ms (40 ms net) with “slow”; net, a ratio of 0.10." in result.verdicts[0]
    assert result.answer == [
        "“slow”: p99 of light is 1 ms alone (“idle”) and 40 ms under “flood”: 40 times.",
        "“quick”: p99 of light is 1 ms alone (“idle”) and 4 ms under “flood”: 4.0 times.",
        "It is lowest with “quick” (4 ms) and highest with “slow” (40 ms), 10 times as much. One run each describes, "
        "it does not prove: `--repeat 5`.",
    ]
    assert any(
        "net on average: 30 ms waiting in the socket, 15 ms waiting in the request ring" in words
        for words in result.verdicts
    )
    assert any("coordinated omission" in sentence for sentence in result.verdicts)


def test_a_generator_that_gave_out_is_told_in_the_answer_and_in_the_sentences():
    row = {"variant": "slow", "repeat": 1, "phase": "flood", "group": "light", "process": 0, "cpu_share": 0.93}
    row |= {"send_late_p99_us": 12_800.0, "late": True, "gave_out": True}
    load = pa.Table.from_pylist([row], SCHEMA)
    result, without = findings(TWO_VARIANTS, _clients(), load), findings(TWO_VARIANTS, _clients(), NO_LOAD)
    assert result.verdicts[1:] == without.verdicts and result.answer[:-1] == without.answer
    assert result.verdicts[0] == result.answer[-1]
    assert result.verdicts[0].startswith("The load generator gave out: “slow”, light, in “flood”; at worst")
    assert result.tables["generator_load"] is load


def test_colour_is_the_phase_and_dash_the_variant():
    """The same in every figure; bars go phase by phase."""
    figures = {figure.name: figure.spec["data"] for figure in findings(TWO_VARIANTS, _clients(), NO_LOAD).figures}
    for name in ("over_time", "percentiles"):
        assert {trace["name"]: (trace["meta"]["phase"], trace["meta"]["variant"]) for trace in figures[name]} == {
            "idle · slow": (0, 0),
            "idle · quick": (0, 1),
            "flood · slow": (1, 0),
            "flood · quick": (1, 1),
        }
    assert figures["where_it_waits"][0]["y"] == ["idle · slow", "idle · quick", "flood · slow", "flood · quick"]


def test_a_window_with_few_requests_has_no_p99():
    few = pa.Table.from_pylist([*_rows("slow", "idle", 0, [1.0] * 60), *_rows("slow", "flood", 1000, [1.0] * 250)])
    [over_time, *_] = findings(TWO_VARIANTS, few, NO_LOAD).figures
    [flood] = over_time.spec["data"]
    assert flood["name"] == "flood · slow" and flood["y"] == [1.0] and "at least 100 requests" in over_time.caption


def test_figures_are_plain_json():
    result = findings(TWO_VARIANTS, _clients(), NO_LOAD)
    assert [figure.name for figure in result.figures] == ["over_time", "percentiles", "where_it_waits"]
    for figure in result.figures:
        text = json.dumps(figure.spec, allow_nan=False)
        assert figure.spec["data"] and '"layout"' in text and figure.title and figure.caption


def test_times_read_well():
    assert [duration(us) for us in (-3.0, 40.0, 1500.0, 12_400.0)] == ["0 ns", "40 µs", "1.5 ms", "12 ms"]
