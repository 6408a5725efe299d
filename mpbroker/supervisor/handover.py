"""A broker of a cluster that is told to stop serves on until others lead what it led (controlled shutdown); supervisor
only.

The agent asks the cluster's controller (controller/controlled_shutdown.py) once the broker's state says so, and says in
its row of the process table that it is done. It may die meanwhile, or never be answered: patience ends all the same.
"""

import time
from collections.abc import Callable
from typing import Final

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.shm.layout import SLOT_CONTROLLER
from mpbroker.shm.process_table import ProcessState

GRACE_S: Final = 5.0
"""Beyond what the attempts may take: for the roles here to follow what was decided."""


class Handover:
    """Ends when the agent has said so, or by itself."""

    def __init__(self, patience_s: float, state_of: Callable[[int], ProcessState]) -> None:
        self._deadline = time.monotonic() + patience_s
        self._state_of = state_of

    @classmethod
    def wanted(cls, config: BrokerConfig, state_of: Callable[[int], ProcessState]) -> "Handover | None":
        """None: there is nobody to hand over to, or it is not wished for."""
        attempts = config.controlled_shutdown_max_retries
        if config.cluster_store is None or not config.controlled_shutdown_enable or not attempts:
            return None
        return cls(attempts * config.controlled_shutdown_retry_backoff_ms / 1000 + GRACE_S, state_of)

    def is_over(self) -> bool:
        """Whether the workers are to be stopped now."""
        return self._state_of(SLOT_CONTROLLER) is ProcessState.STOPPING or self.timeout_s() <= 0.0

    def timeout_s(self) -> float:
        """Seconds of patience left."""
        return max(0.0, self._deadline - time.monotonic())
