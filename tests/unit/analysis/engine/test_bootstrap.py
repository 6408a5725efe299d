"""Intervals from few runs: they hold the truth about as often as they claim, and know which difference is real."""

import numpy as np

from mpbroker.analysis.engine.mathematics import bootstrap


def _side(random, mean, runs=5):
    """Runs that differ by 10 % from each other; each with the spread of its blocks."""
    levels = random.normal(mean, mean * 0.1, runs)
    return [random.normal(level, level * 0.03, bootstrap.BLOCK_RESAMPLES) for level in levels], levels.mean()


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        (ours, a), (theirs, b) = _side(random, 120.0), _side(random, 100.0)
        found = bootstrap.ratio(ours, theirs, a / b)
        held += found.low <= 1.2 <= found.high
        assert found.low < found.estimate < found.high
    assert held >= 54


def test_more_runs_make_it_narrower():
    random = np.random.default_rng(3)
    few = bootstrap.ratio(_side(random, 100.0, 5)[0], _side(random, 100.0, 5)[0], 1.0)
    many = bootstrap.ratio(_side(random, 100.0, 30)[0], _side(random, 100.0, 30)[0], 1.0)
    assert many.high - many.low < 0.7 * (few.high - few.low)
    assert bootstrap.expansion(5) > 1.5 > bootstrap.expansion(30) > 1.0 == bootstrap.expansion(1)


def test_blocks_are_resampled_whole():
    blocks = np.eye(10, dtype=np.int64) * 7
    sums = bootstrap.block_resamples(blocks, lambda totals: totals.sum(axis=1).astype(float))
    assert len(sums) == bootstrap.BLOCK_RESAMPLES and set(sums) == {70.0}
