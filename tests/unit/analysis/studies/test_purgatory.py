"""`purgatory`: waits and timeouts by kind are those of a plain loop over the model's requests."""

from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import purgatory
from mpbroker.trace.record import PURGATORY_TIMEOUT
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, IN_PRODUCE_PURGATORY
from tests.harness.golden_trace import FLOOD, golden

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
