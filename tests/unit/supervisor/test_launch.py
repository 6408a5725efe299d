"""A worker that is forked while the supervisor dies."""

import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mpbroker.supervisor.launch import EXIT_CLEAN, EXIT_FAILURE, Launch, launch


@pytest.mark.parametrize(
    ("parent_death", "runs"), [(signal.SIGKILL, False), (signal.SIGTERM, True)], ids=["killed with it", "outlives it"]
)
def test_who_cleans_up_after_the_supervisor_begins_even_where_it_is_gone(tmp_path, monkeypatch, parent_death, runs):
    """The tracer: without it, names would stay in /dev/shm."""
    stacks = SimpleNamespace(of_children=lambda count: nullcontext([2] * count), write_to=lambda descriptor: None)
    monkeypatch.setattr("mpbroker.supervisor.launch.stacks", stacks)  # they are a whole process's
    context = SimpleNamespace(supervisor_gone=lambda: True, serves_control_plane=False, install_signals=lambda: None)
    made = Launch(context, "test", lambda _: (tmp_path / "ran").touch(), (), parent_death)
    [(pid, pidfd)] = launch([made])
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (EXIT_CLEAN if runs else EXIT_FAILURE)
    assert (tmp_path / "ran").exists() is runs
