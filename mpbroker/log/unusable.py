"""Why a directory or a file in it cannot be used, as one sentence with the remedy that fits; any process, stateless."""

import errno
import os
import stat

from mpbroker.errors import ConfigError
from mpbroker.log import disk
from mpbroker.shm.owner import owner_of, user_name

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
MIN_FREE_BYTES = 1 << 20
"""Less than a start writes: SQLite, for one, then fails in words that do not say why."""

_KEY = "log.dirs"


class NoSpace(ConfigError):
    """The disk is full, or a quota of it; it may have room later."""


def unusable(path: str, error: OSError, key: str = _KEY) -> ConfigError:
    """The error for a directory in which something could not be done."""
    if error.errno in FULL:
        return no_space(path, key)
    if error.errno in (errno.EACCES, errno.EPERM):
        return _not_allowed(path, key)
    if error.errno == errno.EROFS:
        problem = f"{path} is on a read-only file system: mount it for writing, or name another directory ({key})"
        return ConfigError(key, path, problem=problem)
    return ConfigError(key, path, problem=f"{path} cannot be written: {error.strerror or error} ({key})")


def no_space(path: str, key: str = _KEY) -> NoSpace:
    """The error for a full disk. What is there is whole, so nothing is to be put back."""
    free = free_bytes(path)
    left = "" if free is None else f" ({free // 1024} KiB free)"
    problem = f"no space left on the disk of {path}{left}: free some, or name a directory on another disk ({key})"
    return NoSpace(key, path, problem=problem)


def is_full(path: str) -> bool:
    """Whether so little is free that whatever failed there failed for that."""
    free = free_bytes(path)
    return free is not None and free < MIN_FREE_BYTES


def free_bytes(path: str) -> int | None:
    """Free bytes of the disk that a path, or the nearest directory above it, is on; None if nobody can tell."""
    while True:
        try:
            found = disk.patiently(disk.disk_status, path)
            return found.f_bavail * found.f_frsize
        except FileNotFoundError:
            above = os.path.dirname(path)
            if above in (path, ""):
                return None
            path = above
        except OSError:
            return None


def _is_seen(path: str) -> bool:
    """Whether it is there, as far as this user may look."""
    try:
        return disk.exists(path)
    except PermissionError:
        return False


def _not_allowed(path: str, key: str) -> ConfigError:
    """Names the nearest directory that is there and can be seen, whose it is, and who may not write to it."""
    place = os.path.abspath(path)
    while not _is_seen(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    uid = owner_of(place)
    owner = "another user" if uid is None else user_name(uid)
    try:
        mode = f", mode {stat.S_IMODE(disk.status(place).st_mode):04o}"
    except OSError:
        mode = ""
    problem = (
        f"{place} cannot be written by {user_name(os.geteuid())}; it belongs to {owner}{mode}: "
        f"start as that user, give the directory to this one (chown), or name another directory ({key})"
    )
    return ConfigError(key, path, problem=problem)
