"""Limits that are set before the first fork: open files as many as allowed, and who is killed when memory runs out."""

import resource

import pytest

from mpbroker.supervisor import process_limits
from mpbroker.supervisor.process_limits import HIGHEST, LOWERED, MAX_DESCRIPTORS, RAISED

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, 4096),
        (1024, MAX_DESCRIPTORS + 5, MAX_DESCRIPTORS),
        (1024, INFINITE, MAX_DESCRIPTORS),
        (MAX_DESCRIPTORS, INFINITE, None),
        (4096, 4096, None),
        (INFINITE, INFINITE, None),
    ],
)
@pytest.mark.parametrize("forbidden", [False, True])
def test_the_soft_limit_of_files_is_raised_as_far_as_it_goes(monkeypatch, soft, hard, wanted, forbidden):
    limits, asked = [soft], []

    def set_limit(_what, both):
        asked.append(both)
        if forbidden:
            raise ValueError("a sandbox")
        limits[0] = both[0]

    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits[0], hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    in_force = process_limits.raise_descriptor_limit()
    assert asked == ([] if wanted is None else [(wanted, hard)])
    assert in_force == (soft if wanted is None or forbidden else wanted)


@pytest.mark.parametrize(
    ("score", "by", "written"),
    [(0, LOWERED, LOWERED), (-900, -LOWERED, -HIGHEST), (900, RAISED + 1, HIGHEST), (100, -LOWERED, 100 - LOWERED)],
)
def test_a_score_moves_within_its_bounds(monkeypatch, score, by, written):
    done = []
    monkeypatch.setattr(process_limits.os, "open", lambda path, flags: done.append(path) or 99)
    monkeypatch.setattr(process_limits.os, "pread", lambda fd, count, at: (b"%d\n" % score)[at : at + count])
    monkeypatch.setattr(process_limits.os, "pwrite", lambda fd, data, at: done.append((fd, data, at)))
    monkeypatch.setattr(process_limits.os, "close", done.append)
    process_limits.step_forward(17, by)
    assert done == ["/proc/17/oom_score_adj", (99, b"%d" % written, 0), 99]


@pytest.mark.parametrize("allowed", [True, False])
def test_workers_stand_before_their_supervisor(monkeypatch, allowed):
    moved = []

    def move(process, by):
        moved.append((process, by))
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(process_limits, "_move_score", move)
    assert process_limits.outlive_workers() == (LOWERED if allowed else RAISED)
    assert moved == [("self", -LOWERED)]


def test_bounds_of_the_system_and_of_who_closes_descriptors():
    """A child closes what it does not keep up to 2^20 (launch.py): more than that nobody may open. The kernel's scores
    end at 1000; a worker stands before its supervisor also where that one could not step back."""
    assert MAX_DESCRIPTORS == 1 << 20 and HIGHEST == 1000 and 0 < RAISED < LOWERED < HIGHEST
