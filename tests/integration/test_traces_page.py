"""docs/traces.md: each of its commands runs on a real trace, and prints the kind of lines that the page shows."""

import os
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow")

from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.report.palette import STAGES
from tests.harness.broker import Broker
from tests.harness.busy_clients import record
from tests.tidy.source_tree import ROOT

PAGE = ROOT / "docs" / "traces.md"
#: These need the broker; the others read files.
LIVE = ("status", "trace mark")


class Shown(NamedTuple):
    """A command of the page, and the lines under it."""

    words: list[str]
    lines: list[str]


def shown() -> list[Shown]:
    """What stands in the page's console blocks."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ mpbroker ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            found.append(Shown(shlex.split(command), [line for line in lines if line.strip() and line.strip() != "…"]))
    return found


def run(words, place):
    return subprocess.run(
        [sys.executable, "-m", "mpbroker", *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Command → what it printed, on a broker that had a short version of the page's load."""
    place, found = tmp_path_factory.mktemp("page"), {}
    with Broker(place) as broker:
        (place / "mpbroker-data").symlink_to("data")
        record(broker.bootstrap, calm_s=1.5, flood_s=2)
        time.sleep(1.2)  # a sample of the gauges after the last request
        for one in shown():
            if " ".join(one.words).startswith(LIVE):
                found[" ".join(one.words)] = run(one.words, place)
    begun = open_input([place / "mpbroker-data" / "traces"]).segments[0].opened.clock.realtime_ns // 1_000_000_000
    for one in shown():
        words = [
            _moment(begun + (60 if before == "--to" else 0)) if before in ("--from", "--to") else word
            for before, word in zip(["", *one.words], one.words, strict=False)
        ]
        if " ".join(one.words) not in found:
            found[" ".join(one.words)] = run(words, place)
    return place, found


def _moment(epoch_s):
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _kinds(lines):
    return {re.sub(r"[\d,.]+", "#", line.split()[0]) for line in lines if line.strip()}


def test_six_steps_lead_to_the_cause():
    steps = re.findall(r"^## (\d)\. ", PAGE.read_text(), re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5", "6"] and len(shown()) == 7


@pytest.mark.parametrize("number", range(7))
def test_a_command_runs_and_prints_what_the_page_shows(outputs, number):
    _, found = outputs
    one = shown()[number]
    result = found[" ".join(one.words)]
    assert result.returncode == 0, result.stderr
    real = result.stdout.splitlines()
    assert _kinds(one.lines) <= _kinds(real), result.stdout
    heads = {" ".join(line.split()) for line in one.lines if line.startswith(("api ", "slot ", "ring "))}
    assert heads <= {" ".join(line.split()) for line in real}


def test_reports_and_slice_are_there(outputs):
    place, _ = outputs
    for name in (
        "report/report.html",
        "report/meta.json",
        "report/tables/latency.stage_percentiles.csv",
        "report-tail/tables/tail.exemplars.parquet",
        "slice.json.gz",
    ):
        assert (place / name).stat().st_size > 0, name


def test_the_clients_of_the_page_are_found(outputs):
    place, _ = outputs
    assert {"shop", "nightly-export"} <= set(
        re.findall(r"shop|nightly-export", (place / "report/tables/latency.by_client.csv").read_text())
    )


def test_every_stage_is_explained():
    section = PAGE.read_text().partition("\n## The stages\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    assert rows == {name: meaning for name, (_, meaning) in STAGES.items()}


def test_the_notebook_runs_from_top_to_bottom(outputs):
    place, _ = outputs
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs/notebooks/trace_notebook.py")],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPBROKER_ENGINE": "local"},
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"local: \d+ of \d+ requests", result.stdout) and "2 figures: trace-notebook.html" in result.stdout
    assert (place / "trace-notebook.html").stat().st_size > 1_000_000
