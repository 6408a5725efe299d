"""How long a broker of a cluster that is told to stop waits for others to take over."""

from types import SimpleNamespace

import pytest

from mpbroker.shm.layout import SLOT_CONTROLLER
from mpbroker.shm.process_table import ProcessState
from mpbroker.supervisor import handover as module
from mpbroker.supervisor.handover import GRACE_S, Handover

CLUSTER = {
    "cluster_store": "sqlite:/x",
    "controlled_shutdown_enable": True,
    "controlled_shutdown_max_retries": 3,
    "controlled_shutdown_retry_backoff_ms": 5000,
}


@pytest.mark.parametrize(
    "other", [{"cluster_store": None}, {"controlled_shutdown_enable": False}, {"controlled_shutdown_max_retries": 0}]
)
def test_nobody_to_hand_over_to(other):
    assert Handover.wanted(SimpleNamespace(**CLUSTER | other), lambda slot: ProcessState.RUNNING) is None


def test_over_when_the_agent_says_so_or_patience_ends(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    states = {SLOT_CONTROLLER: ProcessState.RUNNING}
    handover = Handover.wanted(SimpleNamespace(**CLUSTER), states.__getitem__)
    assert not handover.is_over()
    assert handover.timeout_s() == 15 + GRACE_S
    states[SLOT_CONTROLLER] = ProcessState.STOPPING
    assert handover.is_over()
    states[SLOT_CONTROLLER] = ProcessState.DEAD
    assert not handover.is_over(), "a successor asks again"
    now[0] += 15 + GRACE_S
    assert handover.is_over()
