"""One run of a variant: a broker, its topics, generator processes for every group, phases marked as they begin.

Runs in the process of `mpbroker lab run`. What stays are the trace directory and the client logs.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mpbroker.analysis.lab.broker_process import BrokerProcess
from mpbroker.analysis.lab.generator_plan import TALKING, GeneratorPlan
from mpbroker.analysis.lab.generator_process import GeneratorProcess
from mpbroker.analysis.lab.scenario import Group, Scenario, Variant
from mpbroker.analysis.lab.schedule import NS
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.topic_admin import await_leaders, create_topic
from mpbroker.trace import mark_spool

PARTITIONS = 4
LEAD_S = 0.3  # between the last generator's "ready" and the first phase
TRACE_SETTLE_S = 0.5
REQUESTS_PER_PROCESS = 8000  # a second; a generator takes some 35 µs of a core for each
T = TypeVar("T")
_TOPIC_APIS = ("produce", "fetch", "list_offsets", "metadata", *TALKING)


class VariantResult(NamedTuple):
    """Where things are, and what the generators counted. Times are CLOCK_MONOTONIC ns; `phases`: (name, begin, end).
    `logs`, `summaries`: of each group, one per generator process."""

    variant: Variant
    trace_dir: Path
    logs: dict[str, list[Path]]
    phases: list[tuple[str, int, int]]
    summaries: dict[str, list[dict[str, Any]]]
    repeat: int = 1

    def counted(self) -> dict[str, dict[str, Any]]:
        """What the processes of each group counted together; their processor times stay apart."""
        return {
            group: {
                name: [one[name] for one in each] if name == "phase_cpu_us" else sum(one[name] for one in each)
                for name in each[0]
            }
            for group, each in self.summaries.items()
        }


class Turn(NamedTuple):
    """One run of a variant: which of its repeats it is, and the seed of its arrivals."""

    variant: Variant
    repeat: int
    repeats: int
    seed: int

    @property
    def place(self) -> Path:
        """Its folder among those of a scenario."""
        name = Path(slug(self.variant.name))
        return name / f"run-{self.repeat:02d}" if self.repeats > 1 else name


def slug(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "variant"


def run_variant(
    scenario: Scenario, turn: Turn, seconds: float, out: Path, scratch: Path, say: Callable[[str], None]
) -> VariantResult:
    """Run it from the broker's start to its end."""
    variant, trace_dir, place = turn.variant, out / "traces" / turn.place, scratch / turn.place
    place.mkdir(parents=True)
    overrides = {"num.partitions": PARTITIONS, **scenario.broker, **variant.broker}
    mine, others = cores_of(variant.cores, sorted(os.sched_getaffinity(0)))
    if variant.cores and not mine:
        say(f"  too few cores here to keep {variant.cores} of them for the broker: nothing is pinned")
    with BrokerProcess(
        overrides=overrides, control_listener=variant.control_listener, trace_dir=trace_dir, cores=mine
    ) as broker:
        plans = _plans(scenario, seconds, broker, place, turn.seed)
        _create_topics(broker, plans)
        with ExitStack() as stack:
            generators = [stack.enter_context(GeneratorProcess(plan, place, others)) for plan in plans]
            for generator in generators:
                generator.wait_ready()
            start_ns = time.monotonic_ns() + round(LEAD_S * NS)
            for generator in generators:
                generator.start(start_ns)
            phases = _phases(scenario, seconds, start_ns)
            _mark_phases(phases, trace_dir, generators, say)
            summaries = [generator.collect() for generator in generators]
        time.sleep(TRACE_SETTLE_S)  # the tracer's last look at the gauges of the load
    return VariantResult(
        variant,
        trace_dir,
        _by_group(plans, [Path(plan.log) for plan in plans]),
        phases,
        _by_group(plans, summaries),
        turn.repeat,
    )


def cores_of(wanted: int, there: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """The broker's cores, and the load's; nobody's where there are not more than two, or none would be left."""
    if not wanted or len(there) <= 2 or wanted >= len(there):
        return (), ()
    return there[:wanted], there[wanted:]


def _by_group(plans: list[GeneratorPlan], values: list[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for plan, value in zip(plans, values, strict=True):
        found.setdefault(plan.group, []).append(value)
    return found


def _plans(scenario: Scenario, seconds: float, broker: BrokerProcess, place: Path, seed: int) -> list[GeneratorPlan]:
    plans: list[GeneratorPlan] = []
    first = 0
    for group in scenario.groups:
        whole = _plan(scenario, group, seconds, broker, place, first)._replace(seed=seed)
        plans += spread(whole, process_count(group, os.cpu_count() or 1))
        first += group.clients
    return plans


def process_count(group: Group, cores: int) -> int:
    """How many processes a group's clients are spread over: as the scenario says, or so that none has more than a
    third of a core to do where there are cores enough. A closed loop says no rate and has one."""
    if group.processes:
        return min(group.processes, group.clients)
    wanted = math.ceil(group.clients * max(*group.rates, 0) / REQUESTS_PER_PROCESS)
    return max(1, min(wanted, group.clients, cores))


def spread(plan: GeneratorPlan, processes: int) -> list[GeneratorPlan]:
    """The plan of a whole group as plans of its processes: connections, times and frames stay what they are."""
    edges = [plan.clients * number // processes for number in range(processes + 1)]
    return [
        plan._replace(
            clients=end - begin,
            process=number,
            first_client=begin,
            of_clients=plan.clients,
            first_connection=plan.first_connection + begin,
            log=str(Path(plan.log).with_suffix(f".{number}.log")),
        )
        for number, (begin, end) in enumerate(itertools.pairwise(edges))
    ]


def _plan(
    scenario: Scenario, group: Group, seconds: float, broker: BrokerProcess, place: Path, first_connection: int
) -> GeneratorPlan:
    host, port = broker.addresses.get(group.listener) or broker.addresses["data"]
    name = slug(group.name)
    return GeneratorPlan(
        group=group.name,
        client_id=name,
        host=host,
        port=port,
        clients=group.clients,
        first_connection=first_connection,
        api=group.api,
        topic=group.topic or name,
        partitions=PARTITIONS,
        value_bytes=group.value_bytes,
        records=group.records,
        acks=group.acks,
        in_flight=group.in_flight,
        loop=group.loop,
        arrival=group.arrival,
        seed=1,
        nice=group.nice,
        durations_s=scenario.durations_s(seconds),
        rates=list(group.rates),
        log=str(place / f"{name}.log"),
        read_bytes_per_s=group.read_bytes_per_s,
        group_size=group.group_size,
        turns=group.turns,
    )


def _create_topics(broker: BrokerProcess, plans: list[GeneratorPlan]) -> None:
    """Every topic exists and has leaders before the first phase."""
    with NetworkClient(*broker.addresses["data"], client_id="lab") as client:
        for topic in sorted({plan.topic for plan in plans if plan.api in _TOPIC_APIS}):
            create_topic(client, topic, PARTITIONS, {})
            await_leaders(client, topic)


def _phases(scenario: Scenario, seconds: float, start_ns: int) -> list[tuple[str, int, int]]:
    found, begin = [], start_ns
    for phase, duration_s in zip(scenario.phases, scenario.durations_s(seconds), strict=True):
        end = begin + round(duration_s * NS)
        found.append((phase.name, begin, end))
        begin = end
    return found


def _mark_phases(
    phases: list[tuple[str, int, int]], trace_dir: Path, generators: list[GeneratorProcess], say: Callable[[str], None]
) -> None:
    """Wait through the phases, leaving a marker in the trace at the begin of each."""
    for name, begin_ns, _ in phases:
        _sleep_until(begin_ns, generators)
        mark_spool.put(trace_dir, name, begin_ns)
        say(f"  phase {name}")
    _sleep_until(phases[-1][2], generators)
    mark_spool.put(trace_dir, "end of the load", phases[-1][2])


def _sleep_until(moment_ns: int, generators: list[GeneratorProcess]) -> None:
    """A generator that ended early ends the waiting too; `collect` then says why."""
    while time.monotonic_ns() < moment_ns and all(generator.alive for generator in generators):
        time.sleep(min(0.2, max(0.0, (moment_ns - time.monotonic_ns()) / NS)))
