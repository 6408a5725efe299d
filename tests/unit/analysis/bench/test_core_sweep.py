"""What the sweep tries on a machine, and what it says it cannot show."""

import pytest

from mpbroker.analysis.bench import core_sweep


def test_two_cores():
    found = core_sweep.settings([0, 1])
    assert [(s.processors, s.handlers, s.broker_cores, s.load_cores) for s in found[:2]] == [
        (1, 1, (0,), (1,)),
        (1, 2, (0,), (1,)),
    ]
    assert all(s.broker_cores is None for s in found[2:]) and len(found) == 8
    assert any("2 cores" in sentence for sentence in core_sweep.limits([0, 1]))


def test_one_core_pins_nothing():
    assert {s.broker_cores for s in core_sweep.settings([3])} == {None}


@pytest.mark.parametrize("cores", [4, 8, 64])
def test_broker_and_load_never_share_a_pinned_core(cores):
    found = core_sweep.settings(list(range(cores)))
    assert len(found) <= core_sweep.RUNS_MAX
    pinned = [s for s in found if s.broker_cores is not None]
    assert pinned and all(not set(s.broker_cores) & set(s.load_cores) for s in pinned)
    assert {len(s.broker_cores) for s in pinned} >= {1, 2}
    assert not any(
        "4 cores" in sentence or "cannot be seen" in sentence for sentence in core_sweep.limits(list(range(cores)))
    )


def test_labels_tell_runs_apart():
    labels = [s.label for s in core_sweep.settings([0, 1])]
    assert len(set(labels)) == len(labels) and labels[0] == "1 × 1, on 1 pinned"
