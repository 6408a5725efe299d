"""One workload against one broker: the load in a process of its own, the broker's CPU time read before and after.

Runs in the process of `mpbroker bench`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from mpbroker.analysis.bench.process_tree import Usage, usage
from mpbroker.analysis.bench.workloads import PARTITIONS, Workload
from mpbroker.analysis.lab import client_log
from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.analysis.lab.generator_process import GeneratorProcess
from mpbroker.analysis.lab.schedule import CLOSED, NS
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.topic_admin import await_leaders, create_topic
from mpbroker.errors import MpbrokerError

LEAD_S, MARGIN_S = 0.2, 60.0


class Target(NamedTuple):
    """A broker. `pid`: root of its process tree, None when nobody said; `cores` that the load may use, None: all."""

    name: str
    host: str
    port: int
    pid: int | None
    cores: Collection[int] | None = None


class Row(NamedTuple):
    """What was measured. Latencies from the intended send time where the load is open, else from the send; CPU
    microseconds are of the whole process tree and None where it is not known whose they are. `errors`: refused, or sent
    and never answered; `unsent`: of an open load, due while too many waited or the load itself was late."""

    name: str
    title: str
    requests: int
    records: int
    errors: int
    unsent: int
    seconds: float
    requests_per_s: float
    records_per_s: float
    mb_per_s: float
    p50_us: float
    p99_us: float
    max_us: float
    client_cpu_us: float
    broker_cpu_us: float | None
    broker_user_us: float | None
    broker_system_us: float | None


def make_topic(target: Target, topic: str) -> None:
    """Create a topic and wait for its leaders."""
    with NetworkClient(target.host, target.port, client_id="bench") as client:
        create_topic(client, topic, PARTITIONS, {})
        await_leaders(client, topic)


def produce(target: Target, workload: Workload, topic: str) -> Row:
    """A produce load until its requests are sent or its time is over."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-bench-") as directory:
        log = Path(directory) / "log"
        with _pinned(target.cores, GeneratorProcess(_plan(target, workload, topic, log), Path(directory))) as generator:
            generator.wait_ready()
            before = _usage(target)
            generator.start(time.monotonic_ns() + round(LEAD_S * NS))
            summary = generator.collect(workload.seconds_most + MARGIN_S)
            used = _since(target, before)
        file = client_log.read(log)
    return _row(workload, file, summary["cpu_us"], used)


def consume(target: Target, name: str, title: str, topic: str, seconds: float) -> Row:
    """Read a topic to its end, or until time is over."""
    command = [
        sys.executable,
        "-m",
        "mpbroker.analysis.bench.consume_load",
        target.host,
        str(target.port),
        topic,
        str(seconds),
    ]
    before = _usage(target)
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + MARGIN_S)
    used = _since(target, before)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise MpbrokerError(f"{name}: {words[-1] if words else 'the consumer ended without a word'}")
    read = json.loads(done.stdout)
    return _assemble(
        name,
        title,
        sorted(read["latencies_us"]),
        0,
        0,
        read["records"],
        read["bytes"],
        read["seconds"],
        read["client_cpu_us"],
        used,
    )


class _pinned:
    """Starts a process with some of the machine's processors only (children inherit what is set when they are
    started)."""

    def __init__(self, cores: Collection[int] | None, process: GeneratorProcess) -> None:
        self._cores, self._process = cores, process

    def __enter__(self) -> GeneratorProcess:
        mine = os.sched_getaffinity(0)
        try:
            if self._cores:
                os.sched_setaffinity(0, self._cores)
            return self._process.__enter__()
        finally:
            os.sched_setaffinity(0, mine)

    def __exit__(self, *exc: object) -> None:
        self._process.__exit__(*exc)


def _plan(target: Target, workload: Workload, topic: str, log: Path) -> GeneratorPlan:
    rate = CLOSED if workload.rate_per_s is None else workload.rate_per_s / workload.clients
    return GeneratorPlan(
        group=workload.name,
        client_id=workload.name.replace(" ", "-"),
        host=target.host,
        port=target.port,
        clients=workload.clients,
        first_connection=0,
        api="produce",
        topic=topic,
        partitions=PARTITIONS,
        value_bytes=workload.value_bytes,
        records=workload.records,
        acks=workload.acks,
        in_flight=workload.in_flight,
        loop="closed" if workload.rate_per_s is None else "open",
        arrival="regular",
        seed=1,
        nice=0,
        durations_s=[workload.seconds_most],
        rates=[rate],
        log=str(log),
        requests_most=-(-workload.requests // workload.clients),
    )


def _usage(target: Target) -> Usage | None:
    return None if target.pid is None else usage(target.pid)


def _since(target: Target, before: Usage | None) -> Usage | None:
    return None if target.pid is None or before is None else usage(target.pid).since(before)


def _row(workload: Workload, file: client_log.LogFile, client_cpu_us: int, used: Usage | None) -> Row:
    columns = file.columns
    begun = columns["intended_ns" if workload.rate_per_s else "sent_ns"]
    came = [
        done if arrived < 0 else arrived
        for arrived, done in zip(columns["arrived_ns"], columns["done_ns"], strict=True)
    ]
    latencies = sorted((end - begin) // 1000 for begin, end in zip(begun, came, strict=True) if end >= 0)
    unsent = sum(sent < 0 for sent in columns["sent_ns"])
    errors = len(columns["error"]) - columns["error"].count(0) + sum(end < 0 for end in came) - unsent
    seconds = (max(came, default=0) - min(begun, default=0)) / NS
    records = len(latencies) * workload.records
    return _assemble(
        workload.name,
        workload.title,
        latencies,
        errors,
        unsent,
        records,
        records * workload.value_bytes,
        seconds,
        client_cpu_us,
        used,
    )


def _assemble(
    name: str,
    title: str,
    latencies_us: Sequence[int],
    errors: int,
    unsent: int,
    records: int,
    size: int,
    seconds: float,
    client_cpu_us: int,
    used: Usage | None,
) -> Row:
    count = len(latencies_us)
    if not count or seconds <= 0:
        raise MpbrokerError(f"{name}: the broker answered no request")
    cpu = (None,) * 3 if used is None else (used.total_us / count, used.user_us / count, used.system_us / count)
    return Row(
        name,
        title,
        count,
        records,
        errors,
        unsent,
        seconds,
        count / seconds,
        records / seconds,
        size / seconds / 1e6,
        _percentile(latencies_us, 0.5),
        _percentile(latencies_us, 0.99),
        float(latencies_us[-1]),
        client_cpu_us / count,
        *cpu,
    )


def _percentile(ordered: Sequence[int], share: float) -> float:
    return float(ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)])
