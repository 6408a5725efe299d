"""The controller with three brokers in one process, stepped from a seed: nothing acknowledged is lost, one leader an
epoch, everything comes to rest as the store has it; and every rule broken on purpose is noticed.

LONG=1: 100,000 schedules; SEEDS=first:last: these (a failure names its seed). Broker, network and store are models,
the controller's logic is the real one.
"""

import os

import pytest

from tests.simulation.broken_rules import RULES
from tests.simulation.schedule import run

LONG = bool(os.environ.get("LONG"))
FIRST, LAST = map(int, os.environ.get("SEEDS", "0:100000" if LONG else "0:150").split(":"))
TRIES = 400
pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600 if LONG or "SEEDS" in os.environ else 120)]


def test_schedules():
    failures = [failure for failure in map(run, range(FIRST, LAST)) if failure]
    assert not failures, "\n".join(f"seed {f.seed}: {f.sentence}; {f.trail}" for f in failures[:3])


def test_a_seed_does_the_same_again():
    with RULES[0].broken():
        first, second = ([run(seed) for seed in range(RULES[0].seed, RULES[0].seed + 3)] for _ in range(2))
    assert first == second and any(first)


@pytest.mark.parametrize("rule", RULES, ids=[rule.sentence for rule in RULES])
def test_a_broken_rule_is_noticed(rule):
    with rule.broken():
        seeds = [*range(rule.seed, TRIES), *range(rule.seed)]
        assert any(run(seed) for seed in seeds), f"nobody noticed in {TRIES} schedules: {rule.sentence}"
    assert run(rule.seed) is None
