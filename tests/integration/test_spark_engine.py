"""Both engines give the same integers: for known traces, sampled ones, compacted ones, and one of a live broker."""

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.spark.engine import SparkEngine
from perf.load.produce_load import ProduceLoad
from tests.harness.broker import Broker
from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import TraceOptions, write_trace
from tests.harness.raw_records import create_by_metadata

BEGIN_NS = 1_700_000_000_000_000_000  # of the event model


@pytest.fixture(scope="module")
def model_trace(tmp_path_factory):
    """Two brokers, one of them sampled and with losses; control requests, errors, timeouts."""
    folder = tmp_path_factory.mktemp("model")
    write_trace(folder / "a", simulate(Scenario(elections_ms=(900,))), TraceOptions(boot_id=0xABCD_1234_FFFF))
    write_trace(
        folder / "b",
        simulate(Scenario(seed=2, discipline="plane", elections_ms=(700,))),
        TraceOptions(broker_id=2, boot_id=77, sample_shift=2, dropped=47),
    )
    return folder


@pytest.fixture(scope="module")
def engines(spark):
    """Makes both engines for an input; the Spark engine uses the session there is."""

    def make(*paths, **limits):
        source = open_input(paths, **limits)
        return LocalEngine(source), SparkEngine(source)

    return make


def test_rollup_of_a_sampled_trace_of_two_brokers(engines, model_trace):
    local, spark = engines(model_trace)
    assert local.input.is_sampled
    ours, theirs = local.rollup(1000, ("api", "client")), spark.rollup(1000, ("api", "client"))
    assert ours.num_rows > 1000 and theirs.equals(ours)


def test_a_damaged_segment_counts_in_neither_engine(engines, tmp_path):
    """One bit of one closed segment: both leave the file out, and the sentence names it."""
    write_trace(tmp_path, simulate(Scenario()), TraceOptions(segment_records=200))
    whole = engines(tmp_path)[0].activity(0)["n"][0].as_py()
    path = sorted(tmp_path.glob("*.mpt"))[1]
    data = bytearray(path.read_bytes())
    data[5000] ^= 4
    path.write_bytes(data)
    local, spark = engines(tmp_path)
    assert local.rollup(500, ("api",)).equals(spark.rollup(500, ("api",)))
    assert local.activity(0)["n"][0].as_py() == spark.activity(0)["n"][0].as_py() == whole - 200
    sentence = f"{path}: its records are not those it was closed with; none of them is counted"
    assert local.input.loss.sentences[0] == spark.input.loss.sentences[0] == sentence


def test_activity_by_what_may_be_null(engines, model_trace):
    local, spark = engines(model_trace)
    by = ("run", "handler", "error", "plane", "client")
    ours, theirs = local.activity(500, by), spark.activity(500, by)
    assert ours.num_rows > 50 and theirs.equals(ours)


def test_one_window_and_no_group(engines, model_trace):
    local, spark = engines(model_trace, apis=("Produce",), brokers=(2,))
    assert spark.rollup(0).equals(local.rollup(0))


def test_limits_of_the_input_hold_to_the_nanosecond(engines, model_trace):
    local, spark = engines(model_trace)
    times = np.sort(local.requests(["epoch_ns"]).column(0).to_numpy())
    from_ns, to_ns = int(times[100]), int(times[900])
    local, spark = engines(model_trace, from_ns=from_ns, to_ns=to_ns)
    ours, theirs = local.activity(0), spark.activity(0)
    assert theirs.equals(ours) and ours.column("first_epoch_ns")[0].as_py() == from_ns
    assert ours.column("last_epoch_ns")[0].as_py() < to_ns


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        (None, Where(order="-total_ns")),
        (["api", "ts", "true_total_ns"], Where(planes=("control",), order="seq", limit=5)),
        (["handler", "t0_ns"], Where(apis=("Produce", "Fetch"), min_total_ns=20_000_000, order="-handler", limit=50)),
        (["seq"], Where(from_ns=BEGIN_NS + 1_000_000_000, to_ns=BEGIN_NS + 2_000_000_000, order="client")),
    ],
)
def test_requests(engines, model_trace, columns, where):
    local, spark = engines(model_trace)
    ours, theirs = local.requests(columns, where), spark.requests(columns, where)
    assert ours.num_rows > 0 and theirs.schema.equals(ours.schema) and theirs.equals(ours)


def test_a_live_brokers_trace(engines, tmp_path):
    with Broker(tmp_path) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "load")
        load = ProduceLoad("127.0.0.1", broker.port(), "load", connections=3, in_flight=5, partitions=1)
        answered = 0
        while answered <= 100:
            answered += load.run(0.5).requests
        load.close()
    local, spark = engines(tmp_path)
    ours, theirs = local.rollup(250, ("api", "processor")), spark.rollup(250, ("api", "processor"))
    assert local.input.loss.records >= answered and theirs.equals(ours)
