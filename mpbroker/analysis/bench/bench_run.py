"""The whole bench: starts a broker (or takes one), runs the workloads, then the sweep; a table and bench.json.

Runs in the process of `mpbroker bench`. What it made on somebody else's broker (topics) it deletes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker import __version__
from mpbroker.analysis.bench import core_sweep
from mpbroker.analysis.bench.measure import Row, Target, consume, make_topic, produce
from mpbroker.analysis.bench.process_tree import machine
from mpbroker.analysis.bench.table import LEGEND, table
from mpbroker.analysis.bench.workloads import NAMES, W1, W2_TITLE, W3, W3_LEADER, W4, shortened
from mpbroker.analysis.lab.broker_process import BrokerProcess
from mpbroker.client.bootstrap import connect
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.topic_admin import delete_topic
from mpbroker.errors import MpbrokerError

WARM_UP_S = 0.7
CONSUME_SECONDS_MOST = 20.0
FILE = "bench.json"


class BenchOptions(NamedTuple):
    """What the command line said. `seconds`: shorten every load to that; None: as the workloads say."""

    out: Path
    workloads: Sequence[str]
    bootstrap: str | None
    pid: int | None
    sweep: bool
    seconds: float | None


def run(options: BenchOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure, write bench.json; what stands in it is returned."""
    options.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "mpbroker": __version__,
        "machine": machine(),
        "broker": options.bootstrap or "mpbroker",
        "workloads": [],
        "sweep": [],
        "notes": _notes(options),
    }
    if options.workloads:
        with _target(options) as target:
            rows_of_loads = list(_workloads(target, options, say))
        result["workloads"] = [row._asdict() for row in rows_of_loads]
        result["notes"] += [note for row in rows_of_loads for note in _of_what_was_not_sent(row)]
    if options.sweep:
        rows = core_sweep.sweep(options.seconds, options.out / "traces" / "sweep", say)
        result["sweep"] = [{**setting._asdict(), **row._asdict(), "name": setting.label} for setting, row in rows]
        result["notes"] += core_sweep.limits(sorted(os.sched_getaffinity(0)))
    result["traces"] = sorted(
        str(path.relative_to(options.out))
        for path in (options.out / "traces").rglob("*")
        if path.is_dir() and any(path.glob("*.mpt"))
    )
    (options.out / FILE).write_text(json.dumps(result, indent=1) + "\n")
    return result


def text(result: dict[str, Any]) -> str:
    """For the terminal."""
    about = result["machine"]
    lines = [
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}, load "
        f"{about['load_average']:.1f} at the start"
    ]
    for key, first in (("workloads", result["broker"]), ("sweep", "processors × handlers")):
        rows = [(row["name"], Row(**{name: row[name] for name in Row._fields})) for row in result[key]]
        if rows:
            lines += ["", table(rows, first)]
    lines += ["", *(f"{row['name']}: {row['title']}" for row in result["workloads"]), *LEGEND]
    return "\n".join([*lines, *result["notes"]])


def _notes(options: BenchOptions) -> list[str]:
    found = []
    if options.bootstrap and options.pid is None:
        found.append("CPU per request is n/a: --pid names the broker's process, on this machine.")
    if len(os.sched_getaffinity(0)) < 4:
        found.append(
            "Broker and load share few cores: throughput is that of both together, CPU per request is the broker's own."
        )
    return found


def _of_what_was_not_sent(row: Row) -> list[str]:
    if not row.unsent:
        return []
    due = row.requests + row.errors + row.unsent
    why = "the broker, or this machine, was too slow"
    return [f"{row.name}: {row.unsent} of {due} requests were due and never sent; {why}."]


@contextmanager
def _target(options: BenchOptions) -> Iterator[Target]:
    """A broker of ours, or the one that was named."""
    if options.bootstrap:
        with connect(options.bootstrap) as client:
            host, port = client.host, client.port
        yield Target(options.bootstrap, host, port, options.pid)
        return
    with BrokerProcess(overrides={"num.partitions": 4}, trace_dir=options.out / "traces" / "workloads") as broker:
        yield Target("mpbroker", *broker.addresses["data"], broker.pid)


def _workloads(target: Target, options: BenchOptions, say: Callable[[str], None]) -> Iterator[Row]:
    topics: list[str] = []

    def topic(name: str) -> str:
        topics.append(f"bench-{os.getpid()}-{name}")
        make_topic(target, topics[-1])
        return topics[-1]

    try:
        produce(target, W3._replace(seconds_most=WARM_UP_S), topic("warm-up"))
        yield from _bulk(target, options, topic, say)
        for name, loads in (("W3", (W3, W3_LEADER)), ("W4", (W4,))):
            for load in loads if name in options.workloads else ():
                say(load.name)
                yield produce(
                    target,
                    shortened(load, options.seconds),
                    topic(load.name.lower().replace(" ", "-").replace("=", "-")),
                )
    finally:
        _delete(target, topics)


def _bulk(
    target: Target, options: BenchOptions, topic: Callable[[str], str], say: Callable[[str], None]
) -> Iterator[Row]:
    """W1, then W2, which reads what W1 wrote."""
    if not {"W1", "W2"} & set(options.workloads):
        return
    say("W1" if "W1" in options.workloads else "W1, because W2 reads what it writes")
    bulk = topic("w1")
    written = produce(target, shortened(W1, options.seconds), bulk)
    if "W1" in options.workloads:
        yield written
    if "W2" in options.workloads:
        say("W2")
        yield consume(target, "W2", W2_TITLE, bulk, options.seconds or CONSUME_SECONDS_MOST)


def _delete(target: Target, topics: list[str]) -> None:
    try:
        with NetworkClient(target.host, target.port, client_id="bench") as client:
            for name in topics:
                delete_topic(client, name)
    except MpbrokerError:
        # a broker that is gone has no topics of ours; one that refuses keeps them, under a name that says whose they
        # are
        pass


def chosen(words: str) -> list[str]:
    """The workloads of `W1,W3`; MpbrokerError for one that is not there."""
    found = [word.strip().upper() for word in words.split(",") if word.strip()]
    unknown = [word for word in found if word not in NAMES]
    if unknown or not found:
        raise UnknownWorkload(f"there is no workload {', '.join(unknown) or words!r}; there are: {', '.join(NAMES)}")
    return found


class UnknownWorkload(MpbrokerError):
    """A name that is no workload's."""

    exit_code = 2
