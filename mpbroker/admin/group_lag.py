"""How far consumer groups have read, for /metrics: the admin process asks the coordinator as any client does, on a
listener of this broker, with a connection for each look.

Bounded in time (LIMIT_S, about twice that if the broker answers nothing at all) and in number (MAX_GROUPS,
MAX_OFFSETS). Whatever fails, the look ends with what was heard until then, and says that it is not complete: metrics
that need no coordinator are shown all the same.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from mpbroker.admin.group_families import GroupLook
from mpbroker.client.group_admin import committed_offsets, describe_groups, list_groups
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import MpbrokerError
from mpbroker.shm.process_context import BoundListener

LIMIT_S: Final = 1.0
MAX_GROUPS, MAX_OFFSETS = 2000, 50_000
GROUPS_AT_ONCE: Final = 20
"""In one request: the coordinator does nothing else while it answers."""
CLIENT_ID: Final = "mpbroker-admin"
_ANY_HOST: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class GroupLag:
    """Asks one of the listeners there are, one look at a time; others wait their turn, but not for long."""

    def __init__(self, listeners: Callable[[], Sequence[BoundListener]]) -> None:
        self._listeners = listeners
        self._turn = threading.Lock()

    def look(self) -> GroupLook:
        """What the coordinator says of its groups now."""
        found = GroupLook()
        if not self._turn.acquire(timeout=LIMIT_S):
            return found
        try:
            self._ask(found)
        except (MpbrokerError, OSError):
            pass  # the look is not complete, and a gauge says so; a broker that stops or starts is no news
        finally:
            self._turn.release()
        return found

    def _ask(self, found: GroupLook) -> None:
        deadline = time.monotonic() + LIMIT_S
        present = [one for one in self._listeners() if not one.removed]
        own = next((one for one in present if not one.control), present[0])
        with NetworkClient(_ANY_HOST.get(own.host, own.host), own.port, CLIENT_ID, int(LIMIT_S * 1000)) as client:
            _hurry(client, deadline)
            names = [group.name for group in list_groups(client)]
            for first in range(0, min(len(names), MAX_GROUPS), GROUPS_AT_ONCE):
                some = names[first : min(first + GROUPS_AT_ONCE, MAX_GROUPS)]
                if len(found.offsets) >= MAX_OFFSETS:
                    return
                _hurry(client, deadline)
                members = {group.name: len(group.members) for group in describe_groups(client, some)}
                _hurry(client, deadline)
                found.add(members, committed_offsets(client, some))
            found.is_complete = len(names) <= MAX_GROUPS


def _hurry(client: NetworkClient, deadline: float) -> None:
    """The next answer may take what is left of the time; TimeoutError when nothing is."""
    left_ms = int((deadline - time.monotonic()) * 1000)
    if left_ms <= 0:
        raise TimeoutError
    client.timeout_ms = left_ms
