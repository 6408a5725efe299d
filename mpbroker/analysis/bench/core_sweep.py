"""Which broker of ours carries most: processors × handlers, on some cores of the machine or on all. Runs in `mpbroker
bench`.

Where the machine allows it the broker is pinned to some cores and the load to the others; on too few cores for that the
sweep says what it cannot show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from mpbroker.analysis.bench.measure import Row, Target, make_topic, produce
from mpbroker.analysis.bench.workloads import SWEEP, Workload
from mpbroker.analysis.lab.broker_process import BrokerProcess

RUNS_MAX = 24
WARM_UP_S = 0.5
TOPIC = "sweep"


class Setting(NamedTuple):
    """One broker of the sweep. `broker_cores` None: nothing is pinned."""

    processors: int
    handlers: int
    broker_cores: tuple[int, ...] | None
    load_cores: tuple[int, ...] | None

    @property
    def label(self) -> str:
        """For tables and directories."""
        where = "free" if self.broker_cores is None else f"on {len(self.broker_cores)} pinned"
        return f"{self.processors} × {self.handlers}, {where}"


def settings(cores: list[int]) -> list[Setting]:
    """What is tried on a machine with these cores, the smallest first; the load gets at least as many as the broker,
    while there are enough."""
    found = []
    count = 1
    while count <= len(cores) // 2:
        load = tuple(cores[count:])
        found += [Setting(processors, handlers, tuple(cores[:count]), load) for processors, handlers in _grid(count)]
        count *= 2
    found += [Setting(processors, handlers, None, None) for processors, handlers in _grid(len(cores))]
    return found[:RUNS_MAX]


def _grid(cores: int) -> Iterator[tuple[int, int]]:
    """Processors and handlers worth trying on so many cores."""
    for processors in sorted({1, max(1, cores // 2), cores}):
        for handlers in sorted({1, cores, 2 * cores}):
            yield processors, handlers


def limits(cores: list[int]) -> list[str]:
    """Sentences on what this machine cannot show."""
    found = []
    if len(cores) < 4:
        found.append(
            f"{len(cores)} cores: with the broker pinned to one, the load has {len(cores) - 1}; how the broker scales "
            "over cores cannot be seen here, only what more processes cost on the same ones."
        )
    found.append(
        "Unpinned runs share their cores with the load, so their throughput is that of broker and client together; "
        "CPU per request is the figure to compare."
    )
    return found


def sweep(seconds: float | None, trace_dir: Path, say: Callable[[str], None]) -> list[tuple[Setting, Row]]:
    """Every setting once, each with a fresh broker."""
    workload = SWEEP if seconds is None else SWEEP._replace(seconds_most=min(seconds, SWEEP.seconds_most))
    found = []
    for setting in settings(sorted(os.sched_getaffinity(0))):
        say(f"sweep: {setting.label}")
        found.append((setting, _run(setting, workload, trace_dir / setting.label.replace(" ", "-").replace(",", ""))))
    return found


def _run(setting: Setting, workload: Workload, trace_dir: Path) -> Row:
    overrides = {"num.network.threads": setting.processors, "num.io.threads": setting.handlers}
    with BrokerProcess(overrides=overrides, trace_dir=trace_dir, cores=setting.broker_cores) as broker:
        target = Target("mpbroker", *broker.addresses["data"], broker.pid, setting.load_cores)
        make_topic(target, TOPIC)
        produce(target, workload._replace(seconds_most=WARM_UP_S), TOPIC)
        return produce(target, workload, TOPIC)
