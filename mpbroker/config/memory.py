"""How much memory this broker may use: the machine's, or what its cgroups allow. Read once at start."""

import os

_CGROUP_ROOT = "/sys/fs/cgroup"
_V1_FILE = "memory.limit_in_bytes"


def available_memory_bytes(cgroup_root: str = _CGROUP_ROOT, membership: str = "/proc/self/cgroup") -> int:
    """Bytes: the least of the machine's memory and the limits of our cgroup and of every group above it."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for path in _limit_files(cgroup_root, membership) if (limit := _read_limit(path)) is not None]
    return min([machine_bytes, *limits])


def _limit_files(root: str, membership: str) -> list[str]:
    """Those of v2 (memory.max) and of v1 (memory.limit_in_bytes); any of them may not exist."""
    files = [f"{root}/memory.max", f"{root}/memory/{_V1_FILE}"]
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        while group not in ("", "/"):
            if number == "0":
                files.append(f"{root}{group}/memory.max")
            elif "memory" in controllers.split(","):
                files.append(f"{root}/memory{group}/{_V1_FILE}")
            group = os.path.dirname(group)
    return files


def _read_limit(path: str) -> int | None:
    """Bytes; None when the file is absent or says `max`. The huge number that v1 writes for "none" is no limit, too."""
    text = _read(path).strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # opened as text in ASCII it would import that codec
            return file.read(4096).decode("ascii", "replace")
    except OSError:
        return ""
