"""The group coordinator: consumer groups and their offsets (docs/architecture.md; KIP-62, 211, 345, 394, 429, 496).

Everything but the process and its shell is logic without I/O, clock and shared memory:
`group_coordinator.GroupCoordinator`.
"""
