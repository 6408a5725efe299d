"""`fairness`: shares and indices are those of a plain loop over the records."""

import random

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import fairness
from mpbroker.trace.record import STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

TICK_NS = 64
AT = {name: place for place, name in enumerate(STAGES)}


def _run(tmp_path, records):
    write_segment(tmp_path / "t", records)
    result = fairness.STUDY.run(choose_engine("local", open_input([tmp_path / "t"])), StudyParameters())
    return result, {row["by"]: row for row in result.tables["fairness"].to_pylist()}


def _records(count, gap_ns, greedy):
    chance = random.Random(1)
    return [
        request(1_000_000 + n * gap_ns, client_hash=7 if chance.random() < greedy else 8, conn_id=n % 5, proc_id=n % 2)
        for n in range(count)
    ]


def test_it_is_what_a_plain_loop_finds(tmp_path):
    records = _records(400, 700, 0.8)
    result, rows = _run(tmp_path, records)
    work, n = {}, {}
    for one in records:
        ticks = one.stage[AT["local_done"]] - one.stage[AT["dequeued"]]
        work[one.client_hash] = work.get(one.client_hash, 0) + ticks * TICK_NS
        n[one.client_hash] = n.get(one.client_hash, 0) + 1
    first, second = sorted(work.values(), reverse=True)
    assert rows["client"]["largest_share"] == first / (first + second)
    assert rows["client"]["jain_requests"] == sum(n.values()) ** 2 / (2 * sum(one * one for one in n.values()))
    assert rows["connection"]["members"] == 5 and rows["connection"]["jain_requests"] == 1.0
    members = [row for row in result.tables["fairness_members"].to_pylist() if row["by"] == "client"]
    waits = {(one.rx_wait + one.stage[AT["dequeued"]] - one.stage[AT["parsed"]]) * TICK_NS for one in records}
    assert [row["mean_wait_ns"] for row in members] == [*waits] * 2 and members[0]["n"] == max(n.values())


def test_one_who_takes_most_of_busy_handlers_is_named(tmp_path):
    long_queue = [one._replace(rx_wait=9000) for one in _records(400, 1500, 0.8)]
    result, _ = _run(tmp_path, long_queue)
    assert result.verdicts[0].startswith("“client 00000007” takes ") and "with a quota" in result.verdicts[0]


def test_idle_handlers_make_nobody_wait(tmp_path):
    result, _ = _run(tmp_path, [one._replace(rx_wait=9000) for one in _records(200, 9_000_000, 0.8)])
    assert "nobody waits for that client" in result.verdicts[0]


def test_a_greedy_client_leads_the_list(tmp_path):
    """At the price of its part of what the others waited."""
    records = []
    for one in _records(400, 1500, 0.3):
        more = {"dequeued": 9000 * (one.client_hash == 8), "local_done": 500 * (one.client_hash == 7)}
        later = [sum(ticks for name, ticks in more.items() if place >= AT[name]) for place in range(len(STAGES))]
        records.append(one._replace(stage=tuple(map(sum, zip(one.stage, later, strict=True)))))
    _, rows = _run(tmp_path, records)
    found = leading([tmp_path / "t"], fairness.STUDY)
    others = [one for one in records if one.client_hash == 8]
    waited = sum(one.rx_wait + one.stage[AT["dequeued"]] - one.stage[AT["parsed"]] for one in others) * TICK_NS
    assert (found[0].kind, found[0].subject) == ("greedy_client", "client 00000007")
    assert found[0].cost_s == pytest.approx(waited * rows["client"]["largest_share"] / 1e9)
