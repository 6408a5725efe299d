"""Which brokers run on this machine, found by their metrics pages in /dev/shm; for commands that were not told where.

A page names its broker's data directory; whether a broker still runs there, the directory's lock says. Only pages of
this user are opened: of other users' it is known that there are some, and whose.
"""

import os
from collections import Counter
from typing import NamedTuple

from mpbroker.errors import BelongsToAnother, MpbrokerError
from mpbroker.log import data_dir
from mpbroker.shm.owner import user_name
from mpbroker.shm.page_view import PageView
from mpbroker.shm.segment import SHM_DIR, name_prefix
from mpbroker.supervisor.status_file import read_status_file

MAX_LISTED = 20


class RunningBroker(NamedTuple):
    """One that runs. `listeners`: NAME://HOST:PORT, as bound."""

    data_dir: str
    pid: int
    listeners: tuple[str, ...]


def own_brokers() -> list[RunningBroker]:
    """This user's, by their data directories."""
    found = {one.data_dir: one for name, uid in _pages() if uid == os.geteuid() and (one := _running(name))}
    return [found[path] for path in sorted(found)]


def others() -> str:
    """`; 2 are those of user alice (uid 1000)` about other users' pages; empty when there are none."""
    owners = Counter(uid for _, uid in _pages() if uid != os.geteuid())
    counts = [f"{count} of {user_name(uid)}" for uid, count in sorted(owners.items())[:MAX_LISTED]]
    return f"; of others there are: {', '.join(counts)}" if counts else ""


def _pages() -> list[tuple[str, int]]:
    """(name, owner's uid) of every page there is, also of brokers that were killed."""
    found = []
    try:
        entries = list(os.scandir(SHM_DIR))
    except OSError:
        return []
    for entry in entries:
        if entry.name.startswith("mpbroker-") and entry.name.endswith("-page"):
            try:
                found.append((f"/{entry.name}", entry.stat(follow_symlinks=False).st_uid))
            except FileNotFoundError:  # it has just ended
                continue
    return found


def _running(name: str) -> RunningBroker | None:
    """The broker of a page, if it runs; a page that is not what it says it is stands for none."""
    try:
        page = PageView(name)
        try:
            path = page.data_dir
        finally:
            page.close()
        pid = data_dir.holder(path) if path and name.startswith(name_prefix(path)) else None
        said = read_status_file(path) if pid is not None else None
    except (MpbrokerError, OSError):  # it has just ended, or is another version's
        return None
    if pid is None:
        return None
    listeners = said.listeners if said is not None else ()
    return RunningBroker(path, pid, tuple(f"{one['name']}://{one['host']}:{one['port']}" for one in listeners))


def runs_on(path: str) -> bool:
    """Whether a broker that this user may look at runs on a data directory."""
    try:
        return data_dir.holder(path) is not None
    except BelongsToAnother:
        return False
