"""The group coordinator: consumer groups and their offsets (docs/architecture.md; KIP-62, 211, 345, 394, 429, 496).

Everything but the process itself is logic without I/O, clock and shared memory: `group_coordinator.GroupCoordinator`.
"""

from mpbroker.coordinator.group_coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
