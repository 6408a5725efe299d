"""`mpbroker trace export` writes a slice, says what it has, and needs a format."""

import json

import pytest

pytest.importorskip("pyarrow")

from mpbroker.cli.main import main
from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import write_trace


@pytest.fixture
def traces(tmp_path):
    write_trace(tmp_path / "traces", simulate(Scenario(duration_ms=500)))
    return tmp_path / "traces"


def test_a_slice_of_one_api(traces, tmp_path, capsys):
    assert (
        main(
            [
                "trace",
                "export",
                "--perfetto",
                "--in",
                str(traces),
                "--api",
                "Produce",
                "--out",
                str(tmp_path / "slice.json"),
            ]
        )
        == 0
    )
    names = {
        event["name"]
        for event in json.loads((tmp_path / "slice.json").read_text())["traceEvents"]
        if event["ph"] == "b"
    }
    assert "Produce" in names and not {"Fetch", "Metadata", "LeaderAndIsr"} & names
    assert f"requests: {tmp_path / 'slice.json'}" in capsys.readouterr().out


def test_a_format_must_be_named(traces, capsys):
    assert main(["trace", "export", "--in", str(traces)]) == 2
    assert "--perfetto" in capsys.readouterr().err


def test_nowhere_to_write(traces, tmp_path, capsys):
    assert (
        main(["trace", "export", "--perfetto", "--in", str(traces), "--out", str(tmp_path / "no" / "slice.json")]) == 1
    )
    assert "No such file" in capsys.readouterr().err
