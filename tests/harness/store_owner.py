"""A process that holds the lock of an owner of sessions, as a broker's supervisor does, for tests of shared stores."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mpbroker.metadata.session_files import OwnerLock
from tests.harness.waiting_child import waiting_child


@contextmanager
def living_owner(store: Path, owner: str) -> Iterator[int]:
    """Its pid. The owner lives inside, unless it is ended."""
    with waiting_child(lambda: OwnerLock(store, owner)) as (pid, _):
        yield pid
