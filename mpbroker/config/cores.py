"""How many cores this process may use: the smaller of its affinity mask and its cgroup's quota. Read once at start."""

import os

_CGROUP_ROOT = "/sys/fs/cgroup"


def available_cores(cgroup_root: str = _CGROUP_ROOT, membership: str = "/proc/self/cgroup") -> int:
    """Whole cores, at least 1; a quota of one and a half counts as 2 (both can be busy at one moment)."""
    affinity = len(os.sched_getaffinity(0))
    quotas = [quota for path in _quota_files(cgroup_root, membership) if (quota := _read_quota(path)) is not None]
    return max(1, min([affinity, *quotas]))


def _quota_files(root: str, membership: str) -> list[str]:
    """cpu.max of our cgroup (v2) and of every group above it, then v1's quota; any of them may not exist."""
    files = [f"{root}/cpu/cpu.cfs_quota_us", f"{root}/cpu,cpuacct/cpu.cfs_quota_us"]
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        _, _, group = rest.partition(":")
        while number == "0" and group not in ("", "/"):
            files.append(f"{root}{group}/cpu.max")
            group = os.path.dirname(group)
    return [f"{root}/cpu.max", *files]


def _read_quota(path: str) -> int | None:
    """Cores a quota file allows, rounded up; None when it is absent, unlimited or unreadable."""
    fields = _read(path).split()
    if path.endswith("cpu.cfs_quota_us"):
        fields += _read(path.replace("quota", "period")).split()
    try:
        quota, period = (int(field) for field in fields)
    except ValueError:  # "max 100000", an absent file
        return None
    return -(-quota // period) if quota > 0 and period > 0 else None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # opened as text in ASCII it would import that codec
            return file.read(4096).decode("ascii", "replace")
    except OSError:
        return ""
