"""Variants beside each other: one row each, in words, with intervals where runs are enough; short answers for many."""

import pytest

from mpbroker.analysis.lab import scenario, side_by_side
from mpbroker.analysis.lab.answers import answer

FIFO, FAIR = [10.0, 11.0, 9.0, 10.5, 9.5], [5.0, 5.5, 4.5, 5.2, 4.8]


def _scenario(*variants, how="phases", phases=("alone", "flood", "after")):
    return scenario.parse(
        "s",
        {
            "question": "What?",
            "seconds": 10,
            "measured": "g",
            "answer": {"how": how, "alone": phases[0], "under": [phases[1]]},
            "variant": [{"name": name} for name in variants],
            "phase": [{"name": name} for name in phases],
            "group": [{"name": "g", "clients": 1, "api": "produce", "rate_per_s": 1}],
        },
    )


def _runs(**p99s_ms):
    return [
        {"variant": variant, "phase": phase, "group": "g", "repeat": number, "net_p99_us": value * 1000.0}
        for phase in ("alone", "flood")
        for variant, values in p99s_ms.items()
        for number, value in enumerate(values, 1)
    ]


def _latency(variants, phases=("alone", "flood", "after")):
    return [
        {"variant": v, "phase": p, "group": "g", "requests": 900, "net_p50_us": 1.0, "net_p99_us": 1000.0 * n}
        for n, (v, p) in enumerate([(v, p) for v in variants for p in phases], 1)
    ]


def test_a_row_for_each_variant_and_the_phases_that_are_asked_about():
    found = side_by_side.table(_scenario("fifo", "fair"), _latency(("fifo", "fair")), _runs(fifo=FIFO, fair=FAIR))
    first, second = found.to_pylist()
    assert first == {
        "variant": "fifo",
        "net p99, alone": "1 ms",
        "net p99, flood": "2 ms",
        "beside “fifo”, alone": "",
        "beside “fifo”, flood": "",
    }
    assert second["net p99, flood"] == "5 ms" and second["beside “fifo”, flood"].startswith("0.50 times (0.4")


@pytest.mark.parametrize(
    ("variants", "phases"), [(("fifo",), ("alone", "flood")), (("fifo", "fair"), tuple("abcdefgh"))]
)
def test_one_variant_or_too_many_phases_have_no_table(variants, phases):
    how = "growth" if len(phases) > 6 else "phases"
    assert side_by_side.table(_scenario(*variants, how=how, phases=phases), _latency(variants, phases)) is None


def test_few_runs_are_not_compared():
    few = [run for run in _runs(fifo=FIFO, fair=FAIR) if run["repeat"] < 5]
    _, second = side_by_side.table(_scenario("fifo", "fair"), _latency(("fifo", "fair")), few).to_pylist()
    assert second["beside “fifo”, flood"] == "" and side_by_side.judged(_scenario("fifo", "fair"), few) == []


def test_many_variants_are_one_sentence_a_phase():
    wanted, runs = _scenario("fifo", "fair", "slow"), _runs(fifo=FIFO, fair=FAIR, slow=[3 * one for one in FIFO])
    said = answer(wanted, _latency(("fifo", "fair", "slow")), [], (), runs)
    assert said[0] == "p99 of g in phase “flood”, beside “fifo”, 5 runs each: higher with “slow”; lower with “fair”."
    assert said[2].startswith("p99 of g is lowest with “fifo”") and len(said) == 3
    two = answer(_scenario("fifo", "fair"), _latency(("fifo", "fair")), [], (), runs)
    assert two[0].startswith("“fifo”: p99 of g is 1 ms alone"), "two are told one by one"


def test_many_variants_of_one_phase_are_told_by_the_ends():
    wanted = _scenario("1 handler", "2 handlers", "3 handlers", how="level")
    [said] = answer(wanted, _latency(("1 handler", "2 handlers", "3 handlers")), [])
    assert said.startswith("p99 of g is lowest with “1 handler” (1 ms) and highest with “3 handlers” (7 ms), 7.0 times")


def test_a_terminal_has_columns_under_each_other():
    found = side_by_side.table(_scenario("fifo", "fair"), _latency(("fifo", "fair")))
    assert side_by_side.lines(found) == [
        "variant  net p99, alone  net p99, flood",
        "fifo     1 ms            2 ms",
        "fair     4 ms            5 ms",
    ]
