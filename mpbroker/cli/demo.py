"""`mpbroker demo`: one broker, a real client, killed workers, nothing lost, and Spark on where the requests spent their
time."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from mpbroker.cli import demo_study
from mpbroker.cli.demo_clients import open_client
from mpbroker.errors import MpbrokerError
from mpbroker.testing import RunningBroker, broker

DESCRIPTION = """\
Start a broker on a free port, write records with a Kafka client, kill -9 a request handler and
a processor in the middle, read every record back, and show where the requests spent their time:
in a table, and in a report that Spark makes of the trace. Ends by itself; trace and report stay,
everything else is removed."""
EXAMPLES = (("mpbroker demo", "20,000 records"), ("mpbroker demo --records 100000", "a longer look"))

TOPIC, PARTITIONS = "demo", 4
SUCCESSOR_TIMEOUT_S = 10.0
VICTIMS = ("handler", "processor")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `demo`."""
    parser.add_argument("--records", type=int, default=20_000, help="how many records; default: %(default)s")
    parser.add_argument("--out", metavar="R", help="where trace and report stay; default: ./mpbroker-demo")


def run(arguments: argparse.Namespace) -> int:
    """The whole tour; 0 only if every record came back exactly once and in order, and the study went through."""
    out = demo_study.output_directory(arguments.out)
    traces = demo_study.traces_directory(out)
    with broker({"num.partitions": PARTITIONS, "mpbroker.trace.dir": os.path.abspath(traces)}) as running:
        lost = _tour(running, max(arguments.records, PARTITIONS))
    _say(_command("trace", "stats", "--in", traces))  # once the broker has stopped: every request is written
    code = demo_study.study(traces, out)
    return 1 if lost or code else 0


def _command(*words: str) -> str:
    """Output of another mpbroker command."""
    return subprocess.run(
        [sys.executable, "-m", "mpbroker", *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def _processes(running: RunningBroker) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_command("status", "--json", "--data-dir", str(running.data_dir)))[
        "processes"
    ]
    return rows


def _say(text: str) -> None:
    print(text, flush=True)


def _tour(running: RunningBroker, records: int) -> bool:
    """Returns whether anything was lost, doubled or out of order."""
    _say(f"broker on {running.bootstrap}, processes:")
    for row in _processes(running):
        _say(f"  {row['pid']:>8}  {row['role']} {row['index']}")
    client = open_client(running.bootstrap, TOPIC)
    _say(f"writing {records} records to {PARTITIONS} partitions with {client.name}, acks=all")
    started = time.monotonic()
    for number in range(records):
        client.send(number % PARTITIONS, b"%d" % number)
        if number in (records // 3, 2 * records // 3):
            _kill(running, VICTIMS[0 if number == records // 3 else 1])
    client.flush()
    _say(f"all acknowledged after {time.monotonic() - started:.2f} s; reading them back")
    return _check(client.read_all(PARTITIONS, records), records)


def _kill(running: RunningBroker, role: str) -> None:
    victim = next(row for row in _processes(running) if row["role"] == role)
    os.kill(victim["pid"], signal.SIGKILL)
    deadline = time.monotonic() + SUCCESSOR_TIMEOUT_S
    while time.monotonic() < deadline:
        row = next(row for row in _processes(running) if row["slot"] == victim["slot"])
        if row["state"] == "running" and row["pid"] != victim["pid"]:
            _say(f"kill -9 {victim['pid']} ({role} {victim['index']}): successor {row['pid']} works")
            return
        time.sleep(0.02)
    raise MpbrokerError(f"no successor for {role} {victim['index']}:\n{running.log()}")


def _check(found: dict[int, list[bytes]], records: int) -> bool:
    """Says what is missing, doubled or out of order; True if anything is."""
    problems = []
    for partition in range(PARTITIONS):
        wanted = [b"%d" % number for number in range(partition, records, PARTITIONS)]
        values = found.get(partition, [])
        missing, doubled = len(set(wanted) - set(values)), len(values) - len(set(values))
        if values != wanted:
            problems.append(
                f"partition {partition}: {missing} missing, {doubled} doubled, order "
                f"{'kept' if values == sorted(values, key=int) else 'broken'}"
            )
    _say(
        "\n".join(problems)
        if problems
        else f"{records} of {records} records read back, each once, in order: nothing was lost"
    )
    return bool(problems)
