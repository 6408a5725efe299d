"""Cores from affinity and cgroup quotas, on made-up cgroup files."""

import os

import pytest

from mpbroker.config.cores import available_cores


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(affinity, {file: text}, membership line) → available cores."""

    def cores(affinity, files, membership="0::/\n"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)))
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "self").write_text(membership)
        return available_cores(str(tmp_path / "cgroup"), str(tmp_path / "self"))

    return cores


def test_affinity_alone(machine):
    assert machine(3, {}) == 3


def test_quota_of_the_root_of_a_container(machine):
    assert machine(8, {"cpu.max": "200000 100000\n"}) == 2


def test_part_of_a_core_counts_as_one(machine):
    assert machine(8, {"cpu.max": "50000 100000\n"}) == 1
    assert machine(8, {"cpu.max": "150000 100000\n"}) == 2


def test_no_quota(machine):
    assert machine(4, {"cpu.max": "max 100000\n"}) == 4


def test_quota_of_a_group_above_ours(machine):
    files = {"a.slice/cpu.max": "100000 100000\n", "a.slice/b.service/cpu.max": "300000 100000\n"}
    assert machine(8, files, "0::/a.slice/b.service\n") == 1


def test_version_1(machine):
    files = {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert machine(8, files, "4:cpu:/x\n") == 3
    assert machine(8, {"cpu/cpu.cfs_quota_us": "-1\n"}, "4:cpu:/x\n") == 8


def test_nonsense_is_no_quota(machine):
    assert machine(2, {"cpu.max": "what 0\n"}) == 2
    assert machine(2, {"cpu.max": "1 0\n"}) == 2
