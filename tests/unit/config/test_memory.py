"""Memory from the machine and from cgroup limits, on made-up cgroup files."""

import os

import pytest

from mpbroker.config.memory import _read_limit, available_memory_bytes

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(MiB, {file: text}, membership) → available MiB."""

    def memory(mib, files, membership="0::/\n"):
        sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": mib * 256}
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "self").write_text(membership)
        return available_memory_bytes(str(tmp_path / "cgroup"), str(tmp_path / "self")) // MIB

    return memory


def test_the_machine_alone(machine):
    assert machine(3000, {}) == 3000
    assert machine(3000, {"memory.max": "max\n"}) == 3000


def test_the_limit_of_a_container(machine):
    assert machine(3000, {"memory.max": f"{220 * MIB}\n"}) == 220


def test_the_least_limit_of_the_groups_above(machine):
    files = {"a/memory.max": f"{300 * MIB}\n", "a/b/memory.max": f"{500 * MIB}\n"}
    assert machine(3000, files, "0::/a/b\n") == 300


def test_version_1(machine):
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/a/memory.limit_in_bytes": f"{400 * MIB}\n",
        "cpu/a/memory.limit_in_bytes": f"{1 * MIB}\n",
    }
    assert machine(3000, {"memory/memory.limit_in_bytes": "9223372036854771712\n"}) == 3000
    assert machine(3000, files, "7:cpu:/a\n4:hugetlb,memory:/a/b\n") == 400
    elsewhere = {"cpu/c/memory.limit_in_bytes": f"{MIB}\n", "memory/c/memory.limit_in_bytes": f"{500 * MIB}\n"}
    assert machine(3000, elsewhere, "7:cpu:/c\n") == 3000, "what holds for another controller is no limit"
    assert machine(3000, elsewhere, "7:memory:/c\n") == 500


@pytest.mark.parametrize(
    ("text", "limit"),
    [("1\n", 1), ("0\n", None), ("max\n", None), ("", None), ("-5", None), ("x", None), ("2", 2), (" 7 \n", 7)],
)
def test_what_a_file_says_of_a_limit(tmp_path, text, limit):
    path = tmp_path / "memory.max"
    path.write_text(text)
    assert _read_limit(str(path)) == limit and _read_limit(str(tmp_path / "none")) is None
