"""Where the demo's traces and report go."""

import pytest

from mpbroker.cli import demo_study


def test_an_earlier_demos_output_is_replaced(tmp_path):
    out = tmp_path / "out"
    for place in (out / "traces", out / "report"):
        place.mkdir(parents=True)
    (out / "traces" / "old").touch()
    assert demo_study.output_directory(str(out)) == str(out)
    assert demo_study.traces_directory(str(out)) == str(out / "traces")
    assert list(out.iterdir()) == []


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(demo_study.OutInUse, match="not an earlier demo's output"):
        demo_study.output_directory(str(tmp_path))


def test_the_default_is_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert demo_study.output_directory(None) == "mpbroker-demo"


def test_without_spark_it_says_how(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_study, "find_spec", lambda name: None)
    assert demo_study.study("T", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "mpbroker[spark]" in shown and "trace study latency throughput --in T" in shown
