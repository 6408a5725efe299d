"""Repeats: seeded order and arrivals, and what several runs of each variant let the laboratory say."""

import pyarrow as pa
import pytest

from mpbroker.analysis.lab import repeats, scenario
from mpbroker.analysis.lab.answers import answer
from mpbroker.analysis.lab.scenario import Variant
from mpbroker.analysis.lab.toml_fields import ScenarioError

A, B, C = (Variant(name, False, {}) for name in "abc")


def test_every_repeat_has_every_variant_in_an_order_of_its_own():
    found = repeats.turns([A, B, C], 8, 7)
    rounds = [found[place : place + 3] for place in range(0, 24, 3)]
    assert all({turn.variant.name for turn in each} == set("abc") for each in rounds)
    assert all({turn.repeat for turn in each} == {number} for number, each in enumerate(rounds, 1))
    assert len({tuple(turn.variant.name for turn in each) for each in rounds}) > 2, "interleaved, not always a, b, c"
    assert {turn.place.as_posix() for turn in found} == {f"{name}/run-{n:02d}" for name in "abc" for n in range(1, 9)}


def test_variants_of_a_repeat_get_the_same_arrivals():
    found = repeats.turns([A, B], 5, 7)
    seeds = {turn.repeat: {one.seed for one in found if one.repeat == turn.repeat} for turn in found}
    assert all(len(each) == 1 for each in seeds.values()) and len(set.union(*seeds.values())) == 5


def test_the_seed_decides_everything():
    assert repeats.turns([A, B], 9, 7) == repeats.turns([A, B], 9, 7) != repeats.turns([A, B], 9, 8)


def test_one_run_of_each_is_in_the_order_of_the_file():
    assert [(turn.variant, turn.place.as_posix()) for turn in repeats.turns([C, A, B], 1, 7)] == [
        (C, "c"),
        (A, "a"),
        (B, "b"),
    ]


def _scenario(*variants):
    return scenario.parse(
        "s",
        {
            "question": "What?",
            "seconds": 10,
            "measured": "g",
            "variant": [{"name": name} for name in variants],
            "phase": [{"name": "alone"}, {"name": "flood"}],
            "group": [{"name": "g", "clients": 1, "api": "produce", "rate_per_s": 1}],
        },
    )


def _runs(**p99s_ms):
    return [
        {
            "variant": variant,
            "phase": "flood",
            "group": "g",
            "repeat": number,
            "net_p50_us": 80.0,
            "net_p99_us": value * 1000.0,
        }
        for variant, values in p99s_ms.items()
        for number, value in enumerate(values, 1)
    ]


def test_five_runs_of_each_are_judged():
    runs = _runs(a=[10.0, 11.0, 9.0, 10.5, 9.5], b=[5.0, 5.5, 4.5, 5.2, 4.8], c=[10.1, 10.9, 9.2, 10.4, 9.4])
    lower, same = repeats.sentences(_scenario("a", "b", "c"), runs)
    assert lower.startswith(
        "Phase “flood”: net p99 of g is 5 ms with “b” and 10 ms with “a”, 0.50 times (95 % interval"
    )
    assert lower.endswith("5 runs each): lower.") and same.endswith("5 runs each): no difference found.")


def test_few_runs_and_one_variant_are_described():
    [few] = repeats.sentences(_scenario("a", "b"), _runs(a=[10.0, 11.0], b=[5.0, 5.5]))
    assert few.endswith("(2 runs each: 5 are needed to say whether that is chance).")
    [spread] = repeats.sentences(_scenario("a"), _runs(a=[10.0, 11.0, 4.0]))
    assert spread == "Phase “flood”: net p99 of g is 4 ms to 11 ms in 3 runs."


def test_phases_of_one_variant_are_compared_run_by_run():
    """What runs differ in falls out: the flood costs twice as much in each of them."""
    alone = [10.0, 40.0, 5.0, 22.0, 80.0]
    runs = _runs(a=[2.1 * alone[0], 2.0 * alone[1], 1.9 * alone[2], 2.0 * alone[3], 2.0 * alone[4]])
    runs += [{**row, "phase": "alone", "net_p99_us": value * 1000} for row, value in zip(runs, alone, strict=True)]
    first, *_ = repeats.sentences(_scenario("a"), runs)
    assert first.startswith(
        "Under “flood”, beside “alone” (5 runs), g has a net p50 1.00 times (95 % interval 1.00 to 1.00)"
    )
    assert ": no difference found, and a net p99 2.00 times (95 % interval 1.9" in first and first.endswith(
        "): higher."
    )
    few = [row for row in runs if row["repeat"] < 4]
    [said, *_] = repeats.sentences(_scenario("a"), few)
    assert said.endswith("g has a net p50 1.00 times, and a net p99 2.00 times; 5 runs are needed to judge that.")


def test_the_headline_ends_with_the_comparison():
    latency = [
        {"group": "g", "requests": 1000, "variant": v, "phase": p, "net_p50_us": 1.0, "net_p99_us": 1000.0 * n}
        for n, (v, p) in enumerate([(v, p) for v in "ab" for p in ("alone", "flood")], 1)
    ]
    once = answer(_scenario("a", "b"), latency, [])
    often = answer(_scenario("a", "b"), latency, [], (), _runs(a=[1, 2, 3, 4, 5], b=[1, 2, 3, 4, 5]))
    assert "does not prove: `--repeat 5`." in once[-1]
    assert "does not prove" not in " ".join(often) and often[-1].endswith("no difference found.")


def test_each_run_has_a_row():
    row = {"variant": "a", "phase": "p", "group": "g", "loop": "open", "error": 0, "answered": True, "sent_ns": 0}
    rows = [
        row | {"repeat": repeat, "done_ns": repeat * 1000, "latency_ns": repeat * 1000, "net_ns": repeat * 1000}
        for repeat in (2, 1, 2)
    ]
    found = repeats.runs_table(pa.Table.from_pylist(rows)).to_pylist()
    assert [(one["repeat"], one["requests"], one["net_p99_us"]) for one in found] == [(1, 1, 1.0), (2, 2, 2.0)]


def test_hours_of_load_are_refused():
    repeats.check(_scenario("a", "b"), 10, 100)
    with pytest.raises(ScenarioError, match="2 variants with 40 seconds each are 8000 seconds of load: at most 3600"):
        repeats.check(_scenario("a", "b"), 40, 100)
