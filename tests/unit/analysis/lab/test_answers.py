"""A scenario's headline answers the question that it asks."""

import pytest

from mpbroker.analysis.lab import scenario
from mpbroker.analysis.lab.answers import answer
from mpbroker.analysis.lab.latency_table import PARTS
from mpbroker.analysis.lab.toml_fields import ScenarioError

MINE = {"group": "g", "requests": 1000}


def _scenario(how, phases=("alone", "middle", "heavy"), variants=("v",), **more):
    document = {
        "question": "What?",
        "seconds": 1,
        "measured": "g",
        "answer": {"how": how, **more} if how else {},
        "variant": [{"name": name} for name in variants],
        "phase": [{"name": name} for name in phases],
        "group": [{"name": "g", "clients": 1, "api": "produce", "rate_per_s": 1}],
    }
    return scenario.parse("s", document)


def _latency(variant="v", requests=1000, **ms):
    return [
        {
            "group": "g",
            "requests": requests,
            "variant": variant,
            "phase": phase,
            "net_p50_us": 100.0,
            "net_p99_us": value * 1000.0,
        }
        for phase, value in ms.items()
    ] + [{"group": "other", "requests": 3, "variant": variant, "phase": phase, "net_p99_us": 1.0} for phase in ms]


def _waits(phase, which="slowest 1 %", **parts):
    spent = dict.fromkeys(PARTS, 0.0) | parts
    return [{"group": "g", "variant": "v", "phase": phase, "which": which, "net_us": sum(spent.values()), **spent}]


def test_phases_name_the_worst_first_and_compare_variants():
    told = answer(
        _scenario("phases", variants=("a", "b"), alone="alone", under=["middle", "heavy"]),
        [*_latency("a", alone=0.5, middle=1.5, heavy=9.5), *_latency("b", alone=1, heavy=2, middle=3)],
        [],
    )
    assert told[0] == (
        "“a”: p99 of g is 500 µs alone (“alone”) and 9.5 ms under “heavy”: 19 times; 1.5 ms under “middle” (3.0 times)."
    )
    assert told[1].startswith("“b”: p99 of g is 1 ms alone (“alone”) and 3 ms under “middle”: 3.0 times")
    assert told[2].startswith("It is lowest with “b” (3 ms) and highest with “a” (9.5 ms), 3.2 times as much.")


def test_phases_of_one_variant_need_no_name():
    [told] = answer(_scenario("phases", alone="alone", under=["heavy"]), _latency(alone=1, middle=50, heavy=2), [])
    assert told == "p99 of g is 1 ms alone (“alone”) and 2 ms under “heavy”: 2.0 times."


def test_what_is_not_slower_is_said_to_be_so():
    [told] = answer(_scenario("phases", under=["heavy"]), _latency(alone=19, heavy=1.7), [])
    assert told.endswith("1.7 ms under “heavy”: not slower.")


def test_variants_that_hardly_differ_are_said_to():
    rows = [*_latency("a", alone=1, heavy=4), *_latency("b", alone=1, heavy=4.1)]
    assert "hardly differ" in answer(_scenario("phases", variants=("a", "b")), rows, [])[-1]


def test_growth_names_where_it_breaks_and_what_gives_out():
    waits = _waits("heavy", queue_us=700.0, rx_wait_us=300.0)
    told = answer(_scenario("growth"), _latency(alone=1, middle=4, heavy=45), waits)
    assert told == [
        "p99 of g holds up to “middle” (4 ms) and breaks at “heavy” (45 ms, 45 times that of “alone”).",
        "What gives out first there: 70 % of the time of its slowest 1 % is waiting in the request ring.",
    ]


def test_growth_that_does_not_break_says_so():
    [told] = answer(_scenario("growth"), _latency(alone=1, middle=2, heavy=3), [])
    assert told == (
        "p99 of g goes from 1 ms (“alone”) to at most 3 ms (“heavy”): 3.0 times; no load is too much for good."
    )


def test_growth_does_not_take_noise_for_the_limit():
    """A phase that is worse than heavier ones after it."""
    [told] = answer(_scenario("growth"), _latency(alone=1, middle=20, heavy=5), [])
    assert told.startswith("p99 of g goes from 1 ms (“alone”) to at most 20 ms (“middle”): 20 times")


def _generators(*phases):
    return [
        {
            "variant": "v",
            "phase": phase,
            "group": "g",
            "cpu_share": 0.93,
            "send_late_p99_us": 12_800.0,
            "gave_out": True,
            "late": True,
        }
        for phase in phases
    ]


def test_growth_does_not_take_the_generator_for_the_broker():
    """What breaks where the generator gave out is the generator."""
    rows, waits = _latency(alone=1, middle=4, heavy=45), _waits("heavy", queue_us=700.0)
    [told] = answer(_scenario("growth"), rows, waits, _generators("heavy"))
    assert told == (
        "p99 of g is 4 ms at “middle” (1 ms at “alone”); from “heavy” on the load generator gives out, not the broker "
        "(its process used 93 % of a core and sent 1 % of its requests more than 13 ms late): the broker's limit is "
        "not known."
    )
    [told] = answer(_scenario("growth"), rows, waits, _generators("alone", "middle", "heavy"))
    assert told.startswith("from “alone” on the load generator gives out")
    assert "breaks at “heavy”" in answer(_scenario("growth"), rows, waits, _generators("middle"))[0]


def test_other_answers_say_it_beside_their_numbers():
    told = answer(_scenario("phases", under=["heavy"]), _latency(alone=1, heavy=2), [], _generators("heavy", "middle"))
    assert len(told) == 2 and "The load generator gave out: “v”, g, in “heavy”; at worst" in told[1]


def test_level_says_what_a_request_costs_and_where():
    waits = _waits("heavy", "all", rest_of_broker_us=60.0, on_the_way_us=-20.0, queue_us=30.0, rx_wait_us=10.0)
    [told] = answer(_scenario("level", alone="heavy"), _latency(alone=1, heavy=0.9), waits)
    assert told == (
        "A request of g takes 100 µs (p50) and 900 µs (p99) in phase “heavy”; of the mean of 80 µs it spends 60 % in "
        "the "
        "rest of the broker, 30 % waiting in the request ring and 10 % waiting in the socket."
    )


def test_few_requests_are_said():
    told = answer(_scenario("phases"), _latency(requests=40, alone=1, middle=2, heavy=3), [])
    assert told[-1].startswith("A phase has only 40 requests: its p99 is next to its slowest one.")


def test_without_a_word_about_it_the_first_phase_is_beside_the_others():
    assert _scenario("").answer == ("phases", "alone", ("middle", "heavy"))
    assert _scenario("", phases=("only",)).answer == ("level", "only", ())


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"how": "guess"}, "how=guess"),
        ({"how": "phases", "alone": "nothing"}, "there is no phase 'nothing'"),
        ({"how": "phases", "under": ["x"]}, "there is no phase 'x'"),
        ({"how": "phases", "beside": "x"}, "there is no key 'beside'"),
    ],
)
def test_mistakes_are_told(more, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        _scenario(**more)


@pytest.mark.parametrize("name", scenario.names())
def test_the_scenarios_that_come_with_mpbroker_say_how_they_are_answered(name):
    found = scenario.load(name)
    others = {"steady": "level", "core-sweep": "level", "ramp-to-saturation": "growth", "load-sweep": "growth"}
    assert found.answer.how == others.get(name, "phases")
