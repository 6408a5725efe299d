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


def _damage(folder):
    """A bit of a record of its first segment."""
    path = min(folder.glob("*.mpt"))
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("words", [["--perfetto"], ["--request-log"], ["--otlp"], ["--otlp", "--histograms"]])
def test_a_damaged_file_is_named(traces, tmp_path, capsys, words):
    command = ["trace", "export", *words, "--in", str(traces), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert capsys.readouterr().err == ""
    path = _damage(traces)
    assert main(command) == 0
    said = f"mpbroker: {path}: its records are not those it was closed with; none of them is counted\n"
    assert capsys.readouterr().err == said


def test_compaction_names_a_damaged_file_and_so_does_what_reads_it(traces, tmp_path, capsys):
    path, small = _damage(traces), tmp_path / "small"
    said = f"mpbroker: {path}: its records are not those it was closed with; none of them is counted\n"
    assert main(["trace", "compact", str(traces), str(small)]) == 0
    out, err = capsys.readouterr()
    assert err == said and str(path) not in out and "note: " in out and "are missing in 1 gap" in out
    assert main(["trace", "export", "--request-log", "--in", str(small), "--out", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().err == said


def test_a_format_must_be_named(traces, capsys):
    assert main(["trace", "export", "--in", str(traces)]) == 2
    assert "--perfetto" in capsys.readouterr().err


def test_nowhere_to_write(traces, tmp_path, capsys):
    assert (
        main(["trace", "export", "--perfetto", "--in", str(traces), "--out", str(tmp_path / "no" / "slice.json")]) == 1
    )
    assert "No such file" in capsys.readouterr().err
