"""Memory for answers: what the configuration or the machine allows, divided among the handlers, within bounds."""

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.process_types import plan_processes

MIB = 1 << 20
LISTENER = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 1, False)


@pytest.mark.parametrize(
    ("given", "machine_mib", "handlers", "mib"),
    [
        (-1, 220, 4, 13),  # a quarter of the container's, 13.75 each
        (-1, 64_000, 4, 256),  # at most
        (-1, 16, 4, 2),  # at least
        (24 * MIB, 64_000, 2, 12),
        (1 << 40, 16, 2, 256),
    ],
)
def test_memory_for_the_answers_of_a_handler(monkeypatch, given, machine_mib, handlers, mib):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: machine_mib * MIB)
    config = load_broker_config(overrides=[f"mpbroker.answer.memory.bytes={given}"], environ={}, cores=2)
    found = shared_state.answer_bytes_of_handler(config, handlers)
    assert found // MIB == mib and found % 4096 == 0


@pytest.mark.parametrize(
    ("processors", "given", "entries", "most_processors"),
    [(1, [], 8192, 15), (16, [], 8191, 16), (32, [], 4095, 32), (2, ["mpbroker.entries.per.processor=600"], 600, 32)],
)
def test_entries_of_a_processor_fit_the_number_of_processors(processors, given, entries, most_processors):
    overrides = [f"num.network.threads={processors}", *given]
    config = load_broker_config(overrides=overrides, environ={}, cores=2)
    plan = shared_state.memory_plan(config, plan_processes(config, (LISTENER,)))
    assert (plan.entries_per_processor, plan.processors) == (entries, most_processors)
