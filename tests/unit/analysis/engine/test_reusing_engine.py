"""Tables that follow from others are not computed again, and are the same."""

import pytest

from mpbroker.analysis.engine.engines import reusing_engine
from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.reusing_engine import ReusingEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from tests.harness.record_trace import Lane, random_requests, write_segment


@pytest.fixture
def plain(tmp_path):
    for number in range(2):
        write_segment(tmp_path, random_requests(400, seed=number, sampled=True), Lane(broker=number))
    return choose_engine("local", open_input([tmp_path]))


@pytest.fixture
def asked(plain, monkeypatch):
    """What the engine inside was asked."""
    calls = []
    for name in ("rollup", "activity"):
        original = getattr(plain, name)
        monkeypatch.setattr(
            plain, name, lambda *given, name=name, original=original: calls.append((name, *given)) or original(*given)
        )
    return calls


@pytest.mark.parametrize("what", ["rollup", "activity"])
def test_coarser_tables_are_sums_of_finer_ones(plain, asked, what):
    engine = ReusingEngine(plain)
    ask, truth = getattr(engine, what), getattr(plain, what)
    ask(250, ("client", "api", "handler"))
    del asked[:]
    wanted = [
        (250, ("client", "api", "handler")),
        (1000, ("api", "client")),
        (250, ("handler",)),
        (0, ("client",)),
        (0, ()),
    ]
    found = [ask(*one) for one in wanted]
    assert asked == []
    assert all(table.equals(truth(*one)) for table, one in zip(found, wanted, strict=True))


def test_what_does_not_follow_is_computed(plain, asked):
    engine = ReusingEngine(plain)
    engine.activity(1000, ("api",))
    del asked[:]
    wanted = [(400, ("api",)), (1500, ()), (1000, ("broker",)), (2000, ("api", "broker"))]
    found = [engine.activity(*one) for one in wanted]
    assert asked == [("activity", *one) for one in wanted]
    assert all(table.equals(plain.activity(*one)) for table, one in zip(found, wanted, strict=True))


def test_a_single_window_is_no_part_of_others(plain, asked):
    engine = ReusingEngine(plain)
    engine.rollup(0, ("api",))
    assert engine.rollup(1000, ("api",)).equals(plain.rollup(1000, ("api",)))
    assert ("rollup", 1000, ("api",)) in asked


def test_large_tables_and_requests_are_not_kept(plain, asked, monkeypatch):
    monkeypatch.setattr(reusing_engine, "MAX_ROWS", 0)
    engine = ReusingEngine(plain)
    for _ in range(2):
        engine.rollup(1000)
    assert len(asked) == 2
    assert (
        engine.requests(["seq"], Where(limit=3)).num_rows == 3
        and engine.name == "local"
        and engine.input is plain.input
    )
    engine.close()
