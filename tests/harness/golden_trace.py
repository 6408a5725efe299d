"""Traces of the event model as studies get them: written to a directory, opened, with the local engine over them."""

import pytest

pytest.importorskip("pyarrow")

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.input.trace_input import open_input
from tests.harness.event_model import Outcome, Scenario, simulate
from tests.harness.event_trace import TraceOptions, write_trace

#: The incident: a flood, two elections in it.
FLOOD = Scenario(
    rate=300,
    burst_rate=1200,
    burst_ms=(1000, 3000),
    ring_capacity=60,
    processors=3,
    elections_ms=(1500, 5500),
    duration_ms=7_000,
    blocking=True,
)
#: A load that the handlers can bear, for as long as a steady state needs.
CALM = Scenario(rate=300, duration_ms=6_000, service_ms=6.0)


@contextmanager
def golden(
    directory: Path, scenario: Scenario, options: TraceOptions = TraceOptions()
) -> Iterator[tuple[Engine, Outcome]]:
    """An engine over the trace of one scenario, and what the model knows of it."""
    outcome = simulate(scenario)
    write_trace(directory, outcome, options)
    engine = choose_engine("local", open_input([directory]))
    try:
        yield engine, outcome
    finally:
        engine.close()
