"""One variant of a scenario: a broker, its topics, one generator process per group, phases marked as they begin.

Runs in the process of `mpbroker lab run`. What stays are the trace directory and the client logs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from mpbroker.analysis.lab.broker_process import BrokerProcess
from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.analysis.lab.generator_process import GeneratorProcess
from mpbroker.analysis.lab.scenario import Group, Scenario, Variant
from mpbroker.analysis.lab.schedule import NS
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.topic_admin import await_leaders, create_topic
from mpbroker.trace import mark_spool

PARTITIONS = 4
LEAD_S = 0.3  # between the last generator's "ready" and the first phase
TRACE_SETTLE_S = 0.5
_TOPIC_APIS = ("produce", "fetch", "list_offsets", "metadata")


class VariantResult(NamedTuple):
    """Where things are, and what the generators counted. Times are CLOCK_MONOTONIC ns; `phases`: (name, begin, end)."""

    variant: Variant
    trace_dir: Path
    logs: dict[str, Path]
    phases: list[tuple[str, int, int]]
    summaries: dict[str, dict[str, int]]


def slug(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "variant"


def run_variant(
    scenario: Scenario, variant: Variant, seconds: float, out: Path, scratch: Path, say: Callable[[str], None]
) -> VariantResult:
    """Run it from the broker's start to its end."""
    trace_dir = out / "traces" / slug(variant.name)
    place = scratch / slug(variant.name)
    place.mkdir(parents=True)
    overrides = {"num.partitions": PARTITIONS, **scenario.broker, **variant.broker}
    with BrokerProcess(overrides=overrides, control_listener=variant.control_listener, trace_dir=trace_dir) as broker:
        plans = _plans(scenario, seconds, broker, place)
        _create_topics(broker, plans)
        with ExitStack() as stack:
            generators = [stack.enter_context(GeneratorProcess(plan, place)) for plan in plans]
            for generator in generators:
                generator.wait_ready()
            start_ns = time.monotonic_ns() + round(LEAD_S * NS)
            for generator in generators:
                generator.start(start_ns)
            phases = _phases(scenario, seconds, start_ns)
            _mark_phases(phases, trace_dir, generators, say)
            summaries = {generator.plan.group: generator.collect() for generator in generators}
        time.sleep(TRACE_SETTLE_S)  # the tracer's last look at the gauges of the load
    return VariantResult(variant, trace_dir, {plan.group: Path(plan.log) for plan in plans}, phases, summaries)


def _plans(scenario: Scenario, seconds: float, broker: BrokerProcess, place: Path) -> list[GeneratorPlan]:
    plans, first = [], 0
    for group in scenario.groups:
        plans.append(_plan(scenario, group, seconds, broker, place, first))
        first += group.clients
    return plans


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
