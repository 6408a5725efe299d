"""One run of a variant: the seed of its turn is that of every generator."""

import tomllib
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mpbroker.analysis.lab import repeats, scenario, variant_run

TWO_GROUPS = scenario.parse(
    "two",
    tomllib.loads("""
question = "When do they come?"
seconds = 2
measured = "light"
[[variant]]
name = "v"
[[phase]]
name = "all"
[[group]]
name = "light"
clients = 1
api = "api_versions"
rate_per_s = 100
[[group]]
name = "heavy"
clients = 4
processes = 2
api = "produce"
rate_per_s = 100
"""),
)


class Planned(Exception):
    """With the plans that a run made, in place of the rest of it."""


def _plans_of(turn, folder, monkeypatch):
    def planned(_, plans):
        raise Planned(plans)

    broker = SimpleNamespace(addresses={"data": ("127.0.0.1", 1)})
    monkeypatch.setattr(variant_run, "BrokerProcess", lambda **_: nullcontext(broker))
    monkeypatch.setattr(variant_run, "_create_topics", planned)
    with pytest.raises(Planned) as found:
        variant_run.run_variant(TWO_GROUPS, turn, 2.0, folder / "out", folder / "scratch", print)
    return found.value.args[0]


def test_every_generator_has_the_seed_of_its_turn(tmp_path, monkeypatch):
    """Arrivals vary from repeat to repeat, and with the seed that the run was given."""
    turns = [*repeats.turns(TWO_GROUPS.variants, 3, 7), *repeats.turns(TWO_GROUPS.variants, 1, 8)]
    plans = [_plans_of(turn, tmp_path / str(turn.seed), monkeypatch) for turn in turns]
    assert [[plan.group for plan in each] for each in plans] == [["light", "heavy", "heavy"]] * 4
    assert [{plan.seed for plan in each} for each in plans] == [{turn.seed} for turn in turns]
    assert len({plan.seed for each in plans for plan in each}) == 4
