"""Every study over the trace of a real broker: a pipelined flood, a quiet client on the control plane, markers."""

import json
import threading
import time
from random import Random

import pytest

pytest.importorskip("pyarrow")

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.measures import load_kind
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, frame
from tests.harness.raw_records import RawProducer, batch, create_by_metadata, produce_request

TOPIC, PRODUCERS, IN_FLIGHT, ROUNDS, CONTROL_REQUESTS = "studied", 4, 10, 60, 120
ONE_BY_ONE = 3000  # more than the flood
OVERRIDES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
    "num.partitions": 1,
    "control.plane.listener.name": "CONTROL",
    "num.network.threads": 1,
    "num.io.threads": 2,
    "mpbroker.trace.gauge.interval.ms": 100,
}
LISTENERS = ["PLAINTEXT://127.0.0.1:0", "CONTROL://127.0.0.1:0"]
STUDIES = ["latency", "throughput", "priority", "tail", "little", "waits", "queue-model", "whatif", "compare"]
MORE = ["service", "fairness", "hol", "slowclient", "skew", "purgatory", "knee", "usl", "anomaly"]


def _flood(port):
    """Always IN_FLIGHT requests on one connection."""
    with RawConnection(port) as connection:
        values = batch([b"x" * 200])
        for sent in range(1, ROUNDS * IN_FLIGHT + 1):
            connection.send(produce_request(sent, TOPIC, 0, values, acks=1))
            if sent > IN_FLIGHT:
                assert connection.receive() is not None
        for _ in range(IN_FLIGHT):
            assert connection.receive() is not None


def _one_by_one(port):
    """The plainest closed loop: on a machine with much else to do the flood's may not be recognised, this one is. Where
    all answers took the same time nobody could see that the client waits for them: every few requests are large."""
    rng = Random(1)
    with RawConnection(port) as connection:
        small, large = batch([b"x" * 200]), batch([b"x" * 100_000])
        for number in range(ONE_BY_ONE):
            values = large if rng.random() < 0.3 else small
            assert connection.ask(produce_request(number, TOPIC, 0, values, acks=1)) is not None


def _control(port):
    """One request after the other, a little apart."""
    with RawConnection(port) as connection:
        for number in range(CONTROL_REQUESTS):
            assert connection.ask(frame(18, 0, number, client_id=b"controller")) is not None
            time.sleep(0.002)


def _load(broker):
    create_by_metadata("127.0.0.1", broker.port(0), TOPIC)
    first = RawProducer("127.0.0.1", broker.port(0), TOPIC)
    wait_until(lambda: (answer := first.produce(0, [b"first"])) and answer.error == 0, "the topic")
    first.close()
    _one_by_one(broker.port(0))
    threads = [threading.Thread(target=_flood, args=(broker.port(0),)) for _ in range(PRODUCERS)]
    threads.append(threading.Thread(target=_control, args=(broker.port(1),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("studied"), overrides=OVERRIDES, listeners=LISTENERS) as broker:
        _load(broker)
    return choose_engine("local", open_input([broker.data_dir / "traces"]))


@pytest.fixture(scope="module")
def compacted(engine, tmp_path_factory):
    place = tmp_path_factory.mktemp("compacted")
    compact(engine.input, place)
    return choose_engine("local", open_input([place]))


def test_the_trace_is_whole(engine):
    loss, [totals] = engine.input.loss, engine.activity(0).to_pylist()
    assert loss.records + loss.dropped + loss.sampled_out == loss.finished == totals["n"]
    assert totals["backwards"] == 0, "stages never go backwards"
    counts = {(row["api"], row["client"]): row["n"] for row in engine.activity(0, ("api", "client")).to_pylist()}
    assert counts["ApiVersions", "controller"] == CONTROL_REQUESTS
    assert counts["Produce", "raw"] >= PRODUCERS * ROUNDS * IN_FLIGHT


def test_every_study_runs_and_leaves_a_report(engine, tmp_path):
    outcome = runner.run_studies(STUDIES, engine, tmp_path, StudyParameters(window_ms=100, baseline=engine))
    assert outcome.report.exists() and [one.study for one in outcome.results] == STUDIES
    for result in outcome.results:
        assert result.verdicts and result.figures, result.study
        assert all(words.endswith((".", ":")) for words in result.verdicts), result.verdicts
        for name in result.tables:
            assert (tmp_path / "tables" / f"{result.study}.{name}.parquet").stat().st_size > 0
        for figure in result.figures:
            assert json.dumps(figure.spec, allow_nan=False)
    found = {result.study: result for result in outcome.results}
    assert any(words.startswith("Produce p99 is ") for words in found["latency"].verdicts)
    kind = load_kind.judge(engine, windows.extent(engine.activity(0, ("run", "api"))))
    assert any("closed-loop" in words for words in found["throughput"].verdicts), kind
    assert any("All processes used" in words for words in found["throughput"].verdicts)
    assert found["compare"].verdicts[0].startswith("Descriptive only (1 run against 1 run")


def test_control_requests_are_found(engine):
    result = runner.find_study("priority").run(engine, StudyParameters())
    [row] = result.tables["variant_compare"].to_pylist()
    clients = result.tables["control_requests"]["client"].to_pylist()
    assert clients.count("controller") == CONTROL_REQUESTS, "named by the dictionary"
    assert CONTROL_REQUESTS <= row["control_requests"] <= CONTROL_REQUESTS + 2, "the start asks once, too"
    assert row["data_requests"] >= PRODUCERS * ROUNDS * IN_FLIGHT


def test_little_finds_no_defect(engine):
    result = runner.find_study("little").run(engine, StudyParameters(window_ms=100))
    summary = {row["ring"]: row for row in result.tables["little_summary"].to_pylist()}
    data = summary["data request"]
    assert data["trace_defect"] == 0, result.verdicts
    assert abs(data["depth_found"] - data["depth_replayed"]) <= max(0.1 * data["depth_found"], 0.5)


@pytest.mark.parametrize("name", [*STUDIES[:-1], *MORE])
def test_a_compacted_trace_gives_the_same_tables(engine, compacted, name):
    parameters = StudyParameters(window_ms=100)
    raw, small = (runner.find_study(name).run(one, parameters) for one in (engine, compacted))
    assert all(words.endswith(".") for words in raw.verdicts) and raw.verdicts
    assert raw.tables.keys() == small.tables.keys() and raw.verdicts == small.verdicts
    for table in raw.tables:
        assert raw.tables[table].equals(small.tables[table]), table
