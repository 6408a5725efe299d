"""`mpbroker bench`: what it refuses before it starts anything."""

import pytest

from mpbroker.cli.main import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--workload", "W7"], "there is no workload 'W7'"),
        (["--pid", "1"], "--pid can only be used with --bootstrap"),
        (["--sweep", "--bootstrap", "h:1"], "cannot sweep"),
        (["--seconds", "0"], "--seconds 0"),
        (["--seconds", "90"], "at most 20"),
        (["--bootstrap", "nowhere:x"], "HOST:PORT"),
        (["--bootstrap-server", ":1"], "HOST:PORT"),
    ],
)
def test_wrong_usage_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.startswith("mpbroker: ") and error.count("\n") == 1
