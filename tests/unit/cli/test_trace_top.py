"""The screen of `trace top`, and what it says where there is nothing to show."""

import io

import pytest
from rich.console import Console

from mpbroker.cli import trace_top
from mpbroker.cli.main import main


def test_each_api_has_a_row_with_its_stages():
    pair = {"p50": 0.0123, "p99": 1234.0}
    stages = dict.fromkeys(trace_top.STAGES, pair) | {"remote": None}
    row = {"api": "Produce", "requests": 5, "per_s": 12345.6, "errors": 2, "stages_ms": stages}
    console = Console(file=io.StringIO(), width=140)
    console.print(trace_top.draw({"seconds": 59.7, "apis": [row]}))
    lines = console.file.getvalue().splitlines()
    assert lines[0].strip() == "the last 60 s; stages: p50 / p99 ms"
    assert lines[1].split()[:3] == ["API", "requests/s", "errors"]
    cells = lines[2].split()
    assert cells[:3] == ["Produce", "12,345.6", "2"] and cells.count("0.0123") == 5 and cells.count("-") == 1


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 2, "here is none: use --once or --json"),
        (["--json", "--data-dir", "nothing-here"], 3, "no broker runs"),
        (["--seconds", "0"], 2, "a whole number from 1 to 3600"),
    ],
)
def test_one_sentence_where_nothing_can_be_shown(capsys, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "top", *arguments]) == code
    assert words in capsys.readouterr().err
