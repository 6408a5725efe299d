"""Builds in turns: each is really the build that it is called."""

import os
import signal

import pytest

from mpbroker import _native
from perf import in_turns
from perf.in_turns import Build, Run, figures, table


def test_a_broker_begins_without_what_would_make_all_builds_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nenv > {tmp_path}/said\npwd >> {tmp_path}/said\n")
    python.chmod(0o700)
    build = Build("now", str(python))
    with pytest.raises(SystemExit, match="now: the broker did not start"):
        build.start()
    said = (tmp_path / "said").read_text().splitlines()
    assert any(line.startswith("PATH=") for line in said) and not any(line.startswith("PYTHON") for line in said)
    assert os.path.isdir(said[-1]) and said[-1] != os.getcwd(), "an interpreter looks for modules where it is started"
    build.stop()
    assert not os.path.exists(said[-1])


def test_a_build_that_runs_another_ones_native_module_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "pid", os.getpid())
    mapped = os.path.realpath(_native.__file__)
    own = Build("own", f"{os.path.dirname(os.path.dirname(mapped))}/bin/python")
    own.check()
    with pytest.raises(SystemExit, match=f"other: it runs {mapped}"):
        Build("other", str(tmp_path / "bin" / "python")).check()
    monkeypatch.setattr(in_turns, "tree", lambda pid: [])
    with pytest.raises(SystemExit, match="own: it runs no native module"):
        own.check()


def test_figures_compare_with_the_first_build():
    builds = [Build("a", "/a/bin/python"), Build("b", "/b/bin/python")]
    idle = {name: {"start_ms": [9.0, 5.0, 6.0], "idle_pss_mib": [40.0]} for name in "ab"}
    produced = {"a": [Run(4.0, 10), Run(8.0, 30), Run(4.0, 20)], "b": [Run(2.0, 5), Run(8.0, 5), Run(6.0, 5)]}
    found = figures(builds, idle, produced)
    assert (found["a"]["ratio"], found["a"]["of_pairs"], found["a"]["requests_per_s"]) == (1, 1, 20)
    b = found["b"]
    assert (b["cpu_us"], b["ratio"], b["of_pairs"]) == (6, 1.5, 1)
    assert (b["start_ms"], b["start_ms_least"], b["idle_pss_mib"]) == (6, 5, 40)
    assert table(found).splitlines()[2].split() == ["b", "6.00", "1.500", "1.000", "5", "6.0", "5.0", "40.0"]


def test_a_broker_that_never_gets_ready_is_not_waited_for_without_end(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 15\n")
    python.chmod(0o700)
    monkeypatch.setattr(in_turns, "START_S", 0.05)
    build = Build("slow", str(python))
    try:
        with pytest.raises(SystemExit, match="slow: the broker did not start"):
            build.start()
        assert build._process.wait() == -signal.SIGKILL
    finally:
        build.stop()
