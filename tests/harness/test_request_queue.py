"""The experiment on the request queue's shape and kind: every cell runs, and medians come with honest intervals."""

import tomllib

import pytest

from perf.request_queue import KINDS, QUEUES, SHAPES, build, interval, measure, table
from tests.harness.broker import wait_until


def test_intervals_are_order_statistics():
    assert interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)  # too few to leave any out
    assert interval([float(n) for n in range(15)]) == (7.0, 3.0, 11.0)  # 96.5 in a hundred
    assert interval([float(n) for n in range(24)]) == (11.5, 6.0, 17.0)


def all_worked(runs):
    """Workers without a core for the whole run answer nothing, and pass nothing on: then once more."""
    return all(
        found[0]["per_s"] > 0 and (cell.shape[1] != "s" or found[0]["passed_on"] > 0) for cell, found in runs.items()
    )


@pytest.mark.slow
def test_every_shape_and_kind_answers(tmp_path):
    program = build(tmp_path)
    for name, count in (("q1-shapes", len(SHAPES)), ("q5-kinds", len(KINDS))):
        plan = tomllib.loads((QUEUES / f"{name}.toml").read_text())
        plan |= {"repeats": 1, "milliseconds": 150, "spread": [1]}
        runs = wait_until(lambda plan=plan: all_worked(found := measure(program, plan, 1)) and found, "answers", 30)
        assert len(runs) == count
        assert not any(found[0]["passed_on"] for cell, found in runs.items() if cell.shape[1] != "s")
        assert table(runs, count == len(KINDS) and name == "q5-kinds").count("\n") == count + 1
