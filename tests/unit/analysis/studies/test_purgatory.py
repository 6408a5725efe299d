"""`purgatory`: waits and timeouts by kind are those of a plain loop over the model's requests."""

import pytest

from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import purgatory
from mpbroker.trace.record import PURGATORY_TIMEOUT
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, IN_PRODUCE_PURGATORY
from tests.harness.golden_trace import FLOOD, golden
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

TICK_NS = 64
SHORT = FLOOD._replace(produce_timeout_ms=100, elections_ms=(1500,), duration_ms=3000, burst_ms=(1000, 2000))


def test_it_is_what_a_plain_loop_finds(tmp_path):
    with golden(tmp_path, SHORT) as (engine, outcome):
        result = purgatory.STUDY.run(engine, StudyParameters())
    rows = {row["kind"]: row for row in result.tables["purgatory"].to_pylist()}
    for kind, number in (("fetch", IN_FETCH_PURGATORY), ("produce", IN_PRODUCE_PURGATORY)):
        mine = [one for one in outcome.requests if one.purgatory == number]
        waits = sorted((one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]]) * TICK_NS for one in mine)
        late = sum(1 for one in mine if one.flags & PURGATORY_TIMEOUT)
        row = rows[kind]
        assert (row["n"], row["wait_ns"], row["max_ns"], row["timed_out"]) == (len(mine), sum(waits), waits[-1], late)
        assert row["p50_ns"] == waits[next(n for n in range(len(waits)) if n + 1 >= 0.5 * len(waits))]
    assert rows["fetch"]["asked"] and not rows["produce"]["asked"] and rows["produce"]["timed_out"] > 20
    [said] = [words for words in result.verdicts if "Produce request" in words]
    assert "clients see as errors" in said
    assert any("they asked for that" in words for words in result.verdicts)


@pytest.mark.parametrize(("late", "kind"), [(PURGATORY_TIMEOUT, "purgatory_timeout"), (0, "purgatory")])
def test_waiting_that_nobody_asked_for_leads_the_list(tmp_path, late, kind):
    """In the place of “in purgatory”, which names nobody. Waiting that was asked for costs nothing, however long."""
    records = [_waiting(n, 9000, purg_kind=IN_PRODUCE_PURGATORY, flags=late) for n in range(30)]
    records += [_waiting(n, 90_000, purg_kind=IN_FETCH_PURGATORY, api_key=1) for n in range(30)]
    write_segment(tmp_path, records)
    found = leading([tmp_path], purgatory.STUDY)
    assert (found[0].kind, found[0].subject) == (kind, "produce, Produce")
    assert found[0].cost_s == 30 * 9010 * TICK_NS / 1e9
    assert {one.subject for one in found if one.kind.startswith("purgatory")} == {"produce, Produce"}


def _waiting(number, ticks, **fields):
    """A request that lay in a purgatory for so long."""
    one = request(1_000_000 * (number + 1), **fields)
    return one._replace(stage=tuple(at + ticks * (place >= AT["purg_leave"]) for place, at in enumerate(one.stage)))
