"""prctl(PR_SET_PDEATHSIG): the kernel tells a process that its parent died; used by the launcher in every child."""

from mpbroker import _native


def set_parent_death_signal(number: int) -> None:
    """Have the kernel send signal `number` to this process when its parent dies (the caller checks that it lives)."""
    _native.set_parent_death_signal(number)
