"""The study `fleet`, against a plain computation from single requests; and that a rollup table gives the same."""

import statistics
from math import ceil, log2

import pytest

from mpbroker.analysis.engine.engines.choose_engine import open_engine
from mpbroker.analysis.engine.engines.engine import EngineError
from mpbroker.analysis.engine.rollups import job, table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import fleet
from mpbroker.trace.record import NOT_REACHED
from mpbroker.trace.statistics import bucket_of
from tests.harness.leading_findings import leading
from tests.harness.naive_engine import durations
from tests.harness.record_trace import OFFSET_NS, Lane, clock, request, write_segment

HOUR_NS = fleet.HOUR_MS * 1_000_000
REQUESTS = 120
SLOW, FAILING, BUSY, SLOW_HOUR = 3, 4, 5, 1


def _requests(broker, hour):
    """Of a broker in an hour: Fetch and Produce in turns."""
    found = []
    for number in range(REQUESTS * (3 if broker == BUSY else 1)):
        one = request(1_000_000 + number * 1000, api_key=number % 2, step=100 + number % 7 + broker)
        late = 4 * (broker == SLOW and number % 2 == 0) + (hour == SLOW_HOUR)  # Produce at one broker, all in an hour
        stage = [at + 5000 * late * (place >= 3) for place, at in enumerate(one.stage)]  # in the request ring
        failed = 6 if broker == FAILING and number % 10 == 1 else 0
        found.append(one._replace(stage=tuple(stage), error=failed, rx_wait=NOT_REACHED if number % 3 else 7))
    return found


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Six brokers, four hours."""
    folder = tmp_path_factory.mktemp("fleet")
    begin_ns = OFFSET_NS // HOUR_NS * HOUR_NS
    for broker in range(1, 7):
        for hour in range(4):
            offset_ns = begin_ns + hour * HOUR_NS
            clocks = clock(0, offset_ns), clock(1_000_000_000, offset_ns)
            lane = Lane(broker, 100 * broker + hour)
            write_segment(folder / str(broker), _requests(broker, hour), lane, clocks=clocks)
    return folder


def _naive():
    """(what, subject, api, measure) of all that differs, with its value."""
    rows = [
        (broker, hour, ("Produce", "Fetch")[one.api_key], durations(one)[0]["active_total"], one.error != 0)
        for broker in range(1, 7)
        for hour in range(4)
        for one in _requests(broker, hour)
    ]
    found = {}
    for place, what in enumerate(("broker", "hour")):
        for api in ("Produce", "Fetch"):
            peers = {}
            for row in rows:
                if row[2] == api:
                    peers.setdefault(row[place], []).append(row)
            for measure, values in (
                ("p99", {key: log2(_p99([row[3] for row in mine])) for key, mine in peers.items()}),
                ("errors", {key: statistics.mean(row[4] for row in mine) for key, mine in peers.items()}),
                ("load", {key: log2(len(mine)) for key, mine in peers.items() if what == "broker"}),
            ):
                if values:
                    found |= {(what, key, api, measure): at for key, at in _outliers(measure, values).items()}
    return found


def _p99(times):
    bucket = sorted(bucket_of(ns) for ns in times)[ceil(0.99 * len(times)) - 1]
    return min(2 ** ((bucket + 0.5) / 32) - 1, max(times))


def _outliers(measure, values):
    least, floor = {"p99": (0.585, 0.1), "errors": (0.01, 0.002), "load": (1.0, 0.1)}[measure]
    middle = statistics.median(values.values())
    spread = max(floor, 1.4826 * statistics.median(abs(value - middle) for value in values.values()))
    apart = {key: value - middle for key, value in values.items()}
    far = max(least, 5 * spread)
    return {key: at / spread for key, at in apart.items() if at >= far or (measure == "load" and -at >= far)}


def _run(path, **rows):
    engine = open_engine("local", [path], rows)
    return runner.find_study("fleet").run(engine, StudyParameters())


def test_what_differs_is_what_a_plain_computation_finds(traces):
    result = _run(traces)
    rows = result.tables["differences"].to_pylist()
    hours = sorted(result.tables["hours"]["window_ms"].unique().to_pylist())
    found = {}
    for row in rows:
        subject = int(row["subject"]) if row["what"] == "broker" else hours.index(int(row["subject"]))
        found[row["what"], subject, row["api"], row["measure"]] = row["distance"]
    wanted = _naive()
    assert found == {key: pytest.approx(value, abs=0.001) for key, value in wanted.items()}
    different = {("broker", SLOW), ("broker", FAILING), ("broker", BUSY), ("hour", SLOW_HOUR)}
    assert {key[:2] for key in wanted} == different
    slow = next(row for row in rows if row["what"] == "broker" and row["measure"] == "p99")
    assert (slow["api"], slow["stage"]) == ("Produce", "queue") and slow["stage_us"] == pytest.approx(1280, rel=0.05)
    assert "waiting in the request ring" in result.verdicts[0]
    assert result.verdicts[-1].startswith("What to do: run `mpbroker trace study latency tail --api ")


@pytest.mark.slow
def test_a_broker_that_fails_costs_what_its_failed_requests_took(traces):
    [failing] = [one for one in _run(traces).findings if one.kind == "failing_broker"]
    fetches = [one for hour in range(4) for one in _requests(FAILING, hour) if one.api_key == 1]
    mean_ns = statistics.mean(durations(one)[0]["active_total"] for one in fetches)
    failed = sum(one.error != 0 for one in fetches)
    assert failing.subject == str(FAILING) and failing.cost_s == pytest.approx(failed * mean_ns / 1e9) and failed > 9


def test_a_rollup_table_gives_the_same(traces, tmp_path):
    found = table.open_or_create(LocalFiles(tmp_path / "rollups"))
    job.run([traces], found, job.LocalCounter())
    ours, theirs = _run(traces), _run(tmp_path / "rollups")
    assert ours.verdicts == theirs.verdicts
    assert {name: one.to_pylist() for name, one in ours.tables.items()} == {
        name: one.to_pylist() for name, one in theirs.tables.items()
    }
    for name in ("latency", "throughput", "fleet", "knee", "usl", "skew", "anomaly"):
        engines = [open_engine("local", [path], {}) for path in (traces, tmp_path / "rollups")]
        engines[0].least_window_ms = engines[1].least_window_ms  # or throughput would look closer
        both = [runner.find_study(name).run(engine, StudyParameters(window_ms=10_000)) for engine in engines]
        for one in set(both[0].tables) - {"utilisation", "saturation"}:  # which are of gauges
            assert both[0].tables[one].equals(both[1].tables[one]), (name, one)
        if name in ("fleet", "knee", "usl", "anomaly"):  # the others also ask what a table does not keep
            assert both[0].findings == both[1].findings, name
    with pytest.raises(EngineError, match="windows of 10000 ms"):
        runner.find_study("latency").run(open_engine("local", [tmp_path / "rollups"], {}), StudyParameters())
    with pytest.raises(runner.StudyError, match="the study tail follows single requests"):
        runner.run_studies(["tail"], open_engine("local", [tmp_path / "rollups"], {}), tmp_path / "out")


def test_a_slice_of_a_table_is_by_hours_and_brokers(traces, tmp_path):
    found = table.open_or_create(LocalFiles(tmp_path / "rollups"))
    job.run([traces], found, job.LocalCounter())
    begin_ns = OFFSET_NS // HOUR_NS * HOUR_NS
    limits = {"from_ns": begin_ns + HOUR_NS, "brokers": [1, 3], "apis": ["Fetch"]}
    engines = [open_engine("local", [path], limits) for path in (traces, tmp_path / "rollups")]
    for ask in ("rollup", "activity"):
        ours, theirs = (getattr(engine, ask)(0, ("broker", "api", "client")) for engine in engines)
        assert ours.num_rows and ours.equals(theirs)
    assert engines[1].input.files == 6
    with pytest.raises(EngineError, match="keeps no activity by api, handler"):
        engines[1].activity(0, ("handler",))
    with pytest.raises(table.RollupError, match="cut at whole hours"):
        open_engine("local", [tmp_path / "rollups"], {"to_ns": 5})


def test_too_few_to_compare_and_nothing_at_all(traces):
    verdicts = _run(traces, brokers=[1, 2]).verdicts
    assert any(one.startswith("Only 2 brokers with 100 requests") for one in verdicts)
    assert "nothing to say about fleet" in _run(traces, apis=["Heartbeat"]).verdicts[0]


def test_who_lies_apart_stands_in_the_list(traces):
    """The broker that is slow and the hour that is, at the price of what their requests took beyond the middle."""
    found = leading([traces], fleet.STUDY)
    causes = {(one.kind, one.subject): one for one in found}
    assert found[0].kind == "slow_broker" and found[0].subject == str(SLOW)
    [hour] = [one for kind, one in causes.items() if kind[0] == "slow_hours"]
    slower = 4 * 5000 * 64 * 4 * REQUESTS // 2  # ns: Produce at this broker
    assert found[0].cost_s == pytest.approx(slower / 1e9, rel=0.02)
    fetches = REQUESTS // 2 * 8  # one of six brokers has three times as many; the p99 of Produce is the slow broker's
    assert hour.cost_s == pytest.approx(5000 * 64 * fetches / 1e9, rel=0.02)
