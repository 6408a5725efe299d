"""`mpbroker lab`: the list, and what is refused before anything starts."""

import pytest

from mpbroker.cli import extras
from mpbroker.cli.main import main


def test_the_scenarios_are_listed_with_their_questions(capsys):
    assert main(["lab", "ls"]) == 0
    shown = capsys.readouterr().out
    for name in ("steady", "ramp-to-saturation", "noisy-neighbour", "control-under-flood"):
        assert f"{name}\n" in shown
    assert shown.count("?") >= 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "nothing"], "there is no scenario 'nothing'"),
        (["run", "bad.toml"], "bad.toml: speed: there is no key"),
        (["run", "steady", "--seconds", "0"], "0 seconds"),
        (["run", "control-under-flood", "--seconds", "100"], "200 for all variants"),
        (["run", "steady", "--out", "full"], "not empty"),
    ],
)
def test_wrong_usage_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("speed = 3")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("")
    assert main(["lab", *words]) == 2
    error = capsys.readouterr().err
    assert sentence.replace("speed: ", "") in error and error.startswith("mpbroker: ") and error.count("\n") == 1
    assert (tmp_path / "full" / "precious").exists()


def test_what_only_the_report_needs_is_missed_before_the_load(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert main(["lab", "run", "steady", "--seconds", "1"]) == 2
    assert capsys.readouterr().err == "mpbroker: this needs the package plotly: pip install 'mpbroker[studies]'\n"
    assert list(tmp_path.iterdir()) == []
