"""No study falls over a trace that no broker should write: missing stages, one request, requests that never got
anywhere."""

import json
from functools import partial

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.reusing_engine import ReusingEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.output_folder import TABLES
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.trace.record import NOT_REACHED, STAGES
from tests.harness.record_trace import random_requests, request, write_segment

TRACES = {
    "one request": [request()],
    "one that got nowhere": [request(missing=STAGES, rx_wait=NOT_REACHED)],
    "never answered": [
        request(1_000_000 * n, missing=STAGES[4:], conn_id=n % 3, plane_prio=n % 2) for n in range(1, 300)
    ],
    "never taken": [request(1_000_000 * n, missing=STAGES[3:], rx_wait=NOT_REACHED) for n in range(1, 300)],
    "all at one moment": [request(1_000_000, corr_id=n) for n in range(300)],
    "no kernel times": [request(500_000 * n, rx_wait=NOT_REACHED, handler_id=n % 4) for n in range(1, 1000)],
    "random": partial(random_requests, 1000),  # not while tests are collected: every process of a run does that
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Of each trace; what one study read the next does not read again, as in a run of several."""
    known = {}

    def of(trace):
        if trace not in known:
            folder, records = tmp_path_factory.mktemp("odd"), TRACES[trace]
            write_segment(folder, records() if callable(records) else records)
            known[trace] = ReusingEngine(choose_engine("local", open_input([folder])))
        return known[trace]

    return of


@pytest.mark.parametrize("study", runner.study_names())
@pytest.mark.parametrize("trace", TRACES)
def test_it_says_something_that_can_be_written(tmp_path, engines, study, trace):
    engine = engines(trace)
    result = runner.find_study(study).run(engine, StudyParameters(baseline=engine))
    assert result.verdicts and all(words.strip() for words in result.verdicts)
    assert not any("nan" in words.split() or "None" in words for words in result.verdicts), result.verdicts
    (tmp_path / TABLES).mkdir()
    for name, table in result.tables.items():
        runner.write_table(tmp_path, f"{study}.{name}", table)
    for figure in result.figures:
        json.dumps(figure.spec, allow_nan=False)
