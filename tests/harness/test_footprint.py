"""What is deleted and still open is found, and only that; memory limits count and bind."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from tests.harness.footprint import deleted_bytes, pss_bytes
from tests.harness.memory_limit import NoGroup, memory_limit

MIB = 1 << 20


def me(data_dir):
    """This process, in a broker's place."""
    return SimpleNamespace(processes=lambda: {os.getpid(): "me"}, data_dir=data_dir)


def test_a_deleted_file_takes_room_as_long_as_it_is_open(tmp_path):
    names = [tmp_path / name for name in ("deleted", "kept")]
    with open(names[0], "wb", buffering=0) as deleted, open(names[1], "wb", buffering=0) as kept:
        for file in (deleted, kept):
            file.write(bytes(MIB))
        names[0].unlink()
        assert deleted_bytes(me(tmp_path)) == {f"{names[0]} (deleted)": MIB}
        assert deleted_bytes(me(tmp_path / "elsewhere")) == {}
    assert deleted_bytes(me(tmp_path)) == {}
    assert pss_bytes(me(tmp_path)) > MIB


def test_who_takes_more_than_the_limit_is_killed_and_counted():
    greedy = ["python3", "-c", "taken = bytearray(200 << 20)"]
    try:
        with memory_limit(100 * MIB) as group:
            assert subprocess.run([*group.prefix, "true"]).returncode == 0
            assert group.oom_kills() == 0
            assert subprocess.run([*group.prefix, *greedy]).returncode == -9
            assert group.oom_kills() == 1
    except NoGroup as error:
        pytest.skip(str(error))
    assert not group.path.exists()
