"""`mpbroker demo`: one broker, a real client, killed workers, nothing lost, and Spark on where the requests spent their
time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mpbroker.cli import demo_study
from mpbroker.cli.demo_clients import open_client
from mpbroker.errors import MpbrokerError

DESCRIPTION = """\
Start a broker on a free port, write records with a Kafka client, kill -9 a request handler and
a processor in the middle, read every record back, and show where the requests spent their time:
in a table, and in a report that Spark makes of the trace. Ends by itself; trace and report stay,
everything else is removed."""
EXAMPLES = (("mpbroker demo", "20,000 records"), ("mpbroker demo --records 100000", "a longer look"))

TOPIC, PARTITIONS = "demo", 4
START_TIMEOUT_S, STOP_TIMEOUT_S, SUCCESSOR_TIMEOUT_S = 30.0, 15.0, 10.0
VICTIMS = ("handler", "processor")


def define(parser) -> None:
    """The arguments of `demo`."""
    parser.add_argument("--records", type=int, default=20_000, help="how many records; default: %(default)s")
    parser.add_argument("--out", metavar="R", help="where trace and report stay; default: ./mpbroker-demo")


def run(arguments) -> int:
    """The whole tour; 0 only if every record came back exactly once and in order, and the study went through."""
    out = demo_study.output_directory(arguments.out)
    directory = tempfile.mkdtemp(prefix="mpbroker-demo-")
    try:
        with DemoBroker(directory) as broker:
            lost = _tour(broker, max(arguments.records, PARTITIONS))
        code = demo_study.study(demo_study.keep_traces(broker.data_dir, out), out)
        return 1 if lost or code else 0
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class DemoBroker:
    """A broker of our own as a child process; leaving the block stops it cleanly."""

    def __init__(self, directory: str) -> None:
        self.data_dir = os.path.join(directory, "data")
        self._ready_file = os.path.join(directory, "ready.json")
        self._log = os.path.join(directory, "broker.log")
        self.bootstrap = ""

    def __enter__(self) -> DemoBroker:
        command = [
            sys.executable,
            "-m",
            "mpbroker",
            "start",
            "--data-dir",
            self.data_dir,
            "--listener",
            "PLAINTEXT://127.0.0.1:0",
            "--ready-file",
            self._ready_file,
            "--override",
            f"num.partitions={PARTITIONS}",
        ]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not os.path.exists(self._ready_file):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise MpbrokerError(f"the broker did not start:\n{self.log_text()}")
            time.sleep(0.01)
        with open(self._ready_file) as file:
            listener = json.load(file)["listeners"][0]
        self.bootstrap = f"{listener['host']}:{listener['port']}"
        return self

    def log_text(self) -> str:
        with open(self._log, errors="replace") as file:
            return file.read()

    def command(self, *words: str) -> str:
        """Output of another mpbroker command on this data directory."""
        return subprocess.run(
            [sys.executable, "-m", "mpbroker", *words, "--data-dir", self.data_dir],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    def processes(self) -> list[dict]:
        return json.loads(self.command("status", "--json"))["processes"]

    def __exit__(self, *_exc) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _say(text: str) -> None:
    print(text, flush=True)


def _tour(broker: DemoBroker, records: int) -> bool:
    """Returns whether anything was lost, doubled or out of order."""
    _say(f"broker on {broker.bootstrap}, processes:")
    for row in broker.processes():
        _say(f"  {row['pid']:>8}  {row['role']} {row['index']}")
    client = open_client(broker.bootstrap, TOPIC)
    _say(f"writing {records} records to {PARTITIONS} partitions with {client.name}, acks=all")
    started = time.monotonic()
    for number in range(records):
        client.send(number % PARTITIONS, b"%d" % number)
        if number in (records // 3, 2 * records // 3):
            _kill(broker, VICTIMS[0 if number == records // 3 else 1])
    client.flush()
    _say(f"all acknowledged after {time.monotonic() - started:.2f} s; reading them back")
    lost = _check(client.read_all(PARTITIONS, records), records)
    _say(broker.command("trace", "stats"))
    return lost


def _kill(broker: DemoBroker, role: str) -> None:
    victim = next(row for row in broker.processes() if row["role"] == role)
    os.kill(victim["pid"], signal.SIGKILL)
    deadline = time.monotonic() + SUCCESSOR_TIMEOUT_S
    while time.monotonic() < deadline:
        row = next(row for row in broker.processes() if row["slot"] == victim["slot"])
        if row["state"] == "running" and row["pid"] != victim["pid"]:
            _say(f"kill -9 {victim['pid']} ({role} {victim['index']}): successor {row['pid']} works")
            return
        time.sleep(0.02)
    raise MpbrokerError(f"no successor for {role} {victim['index']}:\n{broker.log_text()}")


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
