"""Limits of the operating system that a broker needs set: by the supervisor before it forks, inherited by all.

Descriptors: a log is up to three open files, a connection one; the usual soft limit of 1,024 is for programs that use
select(). Memory: when a container runs out of it, a worker is killed and replaced; the supervisor must be the last.
"""

import os
import resource
from typing import Final

MAX_DESCRIPTORS: Final = 1 << 20
"""Enough for anything; systems whose hard limit is in the billions make every table of descriptors as large."""
LOWERED, RAISED, HIGHEST = 500, 100, 1000


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns what is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return soft  # a sandbox may forbid it: then with what there is
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def outlive_workers() -> int:
    """The supervisor: killed last when memory runs out. Returns by how much `step_forward` has to raise a worker: back
    to where the supervisor began; or, where lowering is not allowed (no CAP_SYS_RESOURCE), a little above it."""
    try:
        _move_score("self", -LOWERED)
    except (OSError, ValueError):
        return RAISED
    return LOWERED


def step_forward(pid: int, by: int) -> None:
    """A worker is killed before its supervisor, which raises its score: the worker itself would make pages its own for
    that, which it shares otherwise. Anybody may raise the score of his own processes."""
    try:
        _move_score(str(pid), by)
    except (OSError, ValueError):
        return  # it has ended, or no such file in this container: then the kernel's own order holds


def _move_score(process: str, by: int) -> None:
    descriptor = os.open(f"/proc/{process}/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    try:
        now = int(os.pread(descriptor, 16, 0))
        os.pwrite(descriptor, b"%d" % max(-HIGHEST, min(HIGHEST, now + by)), 0)
    finally:
        os.close(descriptor)
