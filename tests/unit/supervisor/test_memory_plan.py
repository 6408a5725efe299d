"""Memory for answers: what the configuration or the machine allows, divided among the handlers, within bounds."""

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.supervisor import shared_state

MIB = 1 << 20


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
