"""LONG=1: `whatif` sees a broker with some handlers and says what another number does; a real run is beside it.

The figures stand in docs/studies/whatif.md. They are printed: on a machine that others work on, nothing can be
predicted.
"""

import os

import pytest

pytest.importorskip("pyarrow")

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.lab import scenario, scenario_run
from tests.harness import slow_disk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not os.environ.get("LONG"), reason="a minute and a half of load: LONG=1"),
]
HANDLERS, SYNC_MS, SECONDS, CLIENTS, RATE = (2, 4), 10, 30, 40, 3.6
DOCUMENT = {
    "question": "Does the other number do what was predicted?",
    "seconds": SECONDS,
    "studies": [],
    "measured": "p",
    "broker": {"log.flush.interval.messages": 1},
    "variant": [{"name": f"{number} handlers", "broker": {"num.io.threads": number}} for number in HANDLERS],
    "phase": [{"name": "all"}],
    "group": [{"name": "p", "clients": CLIENTS, "api": "produce", "rate_per_s": RATE, "acks": 1, "in_flight": 20}],
}


def test_a_prediction_beside_the_real_run(tmp_path, monkeypatch):
    for name, value in slow_disk.slow_env(slow_disk.build(tmp_path), "/p-", SYNC_MS, only=True).items():
        monkeypatch.setenv(name, value)
    scenario_run.run_scenario(scenario.parse("prediction", DOCUMENT), tmp_path / "R", SECONDS, "local", print)
    rows = {}
    for here, other in (HANDLERS, HANDLERS[::-1]):
        engine = choose_engine("local", open_input([tmp_path / "R" / "traces" / f"{here}-handlers"]))
        result = runner.find_study("whatif").run(engine, StudyParameters(options={"handlers": str(other)}))
        rows[here] = {row["change"]: row for row in result.tables["whatif"].to_pylist()}
    for here, other in (HANDLERS, HANDLERS[::-1]):
        mine, real = rows[here], rows[other]["measured"]
        predicted = mine[f"{other} handlers, fifo"]
        print(
            f"{here} handlers recorded, {other} asked for: p99 predicted {predicted['p99_ns'] / 1e6:.1f} ms, real "
            f"{real['p99_ns'] / 1e6:.1f} ms ({predicted['p99_ns'] / real['p99_ns'] - 1:+.0%})"
        )
        assert mine["as it was"]["p99_ns"] == pytest.approx(mine["measured"]["p99_ns"], rel=0.15)
        assert (predicted["p99_ns"] < mine["measured"]["p99_ns"]) == (other > here), "the direction at least"
