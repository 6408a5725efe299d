"""The generator's own part: what it used, how late it was, when it gave out; and how it is spread."""

from pathlib import Path

import pyarrow as pa
import pytest

from mpbroker.analysis.lab import generator_table
from mpbroker.analysis.lab.generator import _schedule_of
from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.analysis.lab.scenario import Group, Variant
from mpbroker.analysis.lab.schedule import NS, spans
from mpbroker.analysis.lab.variant_run import VariantResult, process_count, spread

MS = 1_000_000
CALM = "calm"


def _rows(phase, late_ms, answer_ms, process=0, count=200, held_ms=0.0):
    for number in range(count):
        at = number * MS
        yield {
            "variant": "v",
            "repeat": 1,
            "phase": phase,
            "group": "g",
            "process": process,
            "intended_ns": at - int(held_ms * MS),
            "ready_ns": at,
            "sent_ns": at + int(late_ms * MS),
            "arrived_ns": at + int((late_ms + answer_ms) * MS),
            "done_ns": at + int((late_ms + answer_ms) * MS) + 5000,
        }


def _load(rows, cpu_ms=(0, 0), second=None):
    phases = [(CALM, 0, NS), ("busy", NS, 2 * NS)]
    summaries = [{"phase_cpu_us": [one * 1000 for one in each]} for each in (cpu_ms, second) if each]
    result = VariantResult(Variant("v", False, {}), Path(), {}, phases, {"g": summaries})
    return generator_table.generator_load(pa.Table.from_pylist(list(rows)), [result]).to_pylist()


def test_lateness_and_processor_time_of_each_process():
    rows = [*_rows(CALM, 0.1, 1.0), *_rows("busy", 0.5, 4.0), *_rows("busy", 0.2, 4.0, process=1)]
    load = {(row["phase"], row["process"]): row for row in _load(rows, (100, 700), (50, 300))}
    assert [load[key]["cpu_share"] for key in ((CALM, 0), ("busy", 0), ("busy", 1))] == [0.1, 0.7, 0.3]
    assert [load[key]["send_late_p99_us"] for key in ((CALM, 0), ("busy", 0), ("busy", 1))] == [100, 500, 200]
    assert {row["read_late_p99_us"] for row in load.values()} == {5.0}
    assert not any(row["gave_out"] for row in load.values())


@pytest.mark.parametrize(
    ("late_ms", "answer_ms", "cpu_ms", "gave_out"),
    [
        (0.1, 1, 900, True),
        (12.8, 6.4, 300, True),
        (0.9, 0.5, 300, False),
        (2.0, 40.0, 300, False),
        (0.1, 1, 849, False),
    ],
)
def test_a_generator_gives_out_by_its_core_or_by_its_lateness(late_ms, answer_ms, cpu_ms, gave_out):
    [row] = _load(_rows("busy", late_ms, answer_ms), (0, cpu_ms))
    assert row["gave_out"] is gave_out
    told = generator_table.sentences([row], "g")
    assert len(told) == gave_out and all("The load generator gave out: “v”, g, in “busy”" in each for each in told)


def test_the_sentence_says_share_and_lateness():
    [told] = generator_table.sentences(_load(_rows("busy", 12.8, 6.4), (0, 930)), "g")
    assert "used 93 % of a core and sent 1 % of its requests more than 13 ms late" in told
    assert "say nothing of its limit" in told
    [other] = generator_table.sentences(_load(_rows("busy", 12.8, 6.4), (0, 930)), "another group")
    assert "its load was not what was intended" in other


def test_many_are_one_sentence():
    """A page that begins with twenty caveats has no answer."""
    rows = [{**row, "variant": f"v{n}"} for n in range(6) for row in _load(_rows("busy", 12.8, 6.4), (0, 930 - n))] + [
        {**row, "group": "h", "gave_out": False, "late": True} for row in _load(_rows(CALM, 12.8, 6.4))
    ]
    gave_out, late = generator_table.sentences(rows, "g")
    assert gave_out.startswith("The load generator gave out in 6 of 7 places (run, phase, group), 6 of them g; for")
    assert "“v0”, g, in “busy”: its process used 93 % of a core" in gave_out and "what g saw there" in gave_out
    assert late.startswith("The load generator waited for a core in 1 more; at worst (“v”, h, in “calm”)")
    [others] = generator_table.sentences([row for row in rows if row["gave_out"]], "h")
    assert "0 of them h" in others and "not what was intended" in others


def test_rare_lateness_is_a_caveat():
    """Four in a hundred are late by 9 ms; the others are not, so answers took most of the time all the same."""
    rows = [*_rows("busy", 0.01, 1.0, count=192), *_rows("busy", 9.0, 1.0, count=8)]
    [row] = _load(rows, (0, 300))
    assert row["late"] and not row["gave_out"]
    [told] = generator_table.sentences([row], "g")
    assert told.startswith("The load generator waited for a core: “v”, g, in “busy”; at worst")
    assert "sent 1 % of its requests more than 9 ms late" in told


def test_what_the_broker_held_back_is_waiting_for_the_broker():
    """Behind a slow broker much queues up, and the little that a generator adds to each adds up: no cause to doubt."""
    rows = list(_rows("busy", 12.8, 6.4, held_ms=200.0))
    [row] = _load(rows, (0, 300))
    assert (row["answer_p99_us"], row["net_p99_us"], row["net_mean_us"]) == (6400, 206_400, 206_400)
    assert not row["late"] and not row["gave_out"] and not generator_table.sentences([row], "g")


def _plan(**more):
    values = {
        "group": "g", "client_id": "g", "host": "h", "port": 1, "clients": 7, "first_connection": 40, "api": "produce",
        "topic": "t", "partitions": 4, "value_bytes": 1, "records": 1, "acks": 1, "in_flight": 1, "loop": "open",
        "arrival": "poisson", "seed": 3, "nice": 0, "durations_s": [1.0], "rates": [20.0], "log": "/x/g.log",
    }  # fmt: skip
    return GeneratorPlan(**(values | more))


@pytest.mark.parametrize("arrival", ["poisson", "regular"])
def test_processes_share_a_group_and_change_no_time(arrival):
    whole, parts = _plan(arrival=arrival), spread(_plan(arrival=arrival), 3)
    assert [part.clients for part in parts] == [2, 2, 3] and len({part.log for part in parts}) == 3
    assert [part.first_connection for part in parts] == [40, 42, 44]
    assert _intended(whole) == [times for part in parts for times in _intended(part)]


def _intended(plan):
    phases = spans(0, plan.durations_s, plan.rates)
    return [_schedule_of(plan, plan.first_client + number, phases).rest(1000) for number in range(plan.clients)]


def test_another_seed_gives_other_arrivals():
    assert _intended(_plan()) == _intended(_plan()) != _intended(_plan(seed=4))


@pytest.mark.parametrize(
    ("clients", "rate", "processes", "cores", "wanted"),
    [(40, 600.0, 0, 8, 3), (40, 600.0, 0, 2, 2), (40, 12.5, 0, 8, 1), (1, 20_000.0, 0, 8, 1), (40, -1.0, 0, 8, 1),
     (40, 1.0, 5, 2, 5), (3, 1.0, 5, 2, 3)],
)  # fmt: skip
def test_as_many_processes_as_the_rate_asks_for(clients, rate, processes, cores, wanted):
    group = Group("g", clients, "data", "produce", "", "open", "poisson", 5, 100, 1, -1, 0, processes, (0.0, rate))
    assert process_count(group, cores) == wanted
