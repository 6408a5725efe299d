"""A session's folder: private, gone when removed, and swept when its process was killed."""

import os
import subprocess
import sys
import tempfile

import pytest

from mpbroker.analysis.spark import scratch
from mpbroker.analysis.spark.scratch import Scratch

HOLDS = "from mpbroker.analysis.spark.scratch import Scratch; one = Scratch(); print(one.path, flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_private_and_goes(temporary):
    one = Scratch()
    (one.path / "file").write_text("x")
    assert one.path.parent == temporary and one.path.stat().st_mode & 0o777 == 0o700
    one.remove()
    one.remove()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_swept_when_it_has_settled(temporary):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    left = holder.stdout.readline().strip()
    os.utime(left, (1, 1))
    scratch.sweep(temporary)
    assert os.path.exists(left), "its process lives"
    holder.kill()
    holder.communicate()
    os.utime(left)
    scratch.sweep(temporary)
    assert os.path.exists(left), "too young"
    os.utime(left, (1, 1))
    Scratch().remove()
    assert list(temporary.iterdir()) == []


def test_other_folders_stay(temporary):
    other = temporary / f"{scratch.PREFIX}without-a-lock"
    other.mkdir()
    os.utime(other, (1, 1))
    scratch.sweep(temporary)
    assert other.exists()
