"""What happens to the elected controller, and what it wants done. Shapes only; `cluster_controller.py` takes the first
and returns the second, the process around it carries them out in their order."""

from collections.abc import Mapping
from typing import Any

import msgspec

from mpbroker.metadata import meta_store
from mpbroker.metadata.meta_store import Check, Committed, Conflict, Entry, Op, Unknown


class StoreBatch(msgspec.Struct, frozen=True):
    """The watch delivered a transaction of somebody's: a broker came or went, an own one is seen again."""

    rev: int
    events: tuple[meta_store.Event, ...]


class Request(msgspec.Struct, frozen=True):
    """A command of a client or broker; answered by a Reply with the same `id`. `broker`: who sent it, -1 unknown."""

    id: int
    command: Any
    broker: int = -1


class TxnDone(msgspec.Struct, frozen=True):
    """The outcome of the Txn with this tag."""

    tag: str
    outcome: Committed | Conflict | Unknown


class ReadDone(msgspec.Struct, frozen=True):
    """What a Read found: every key asked for, None where it does not exist; each at least as new as the question."""

    tag: str
    entries: Mapping[str, Entry | None]


class Answered(msgspec.Struct, frozen=True):
    """A broker answered the request in flight; None: the connection failed, or 30 s passed."""

    broker: int
    broker_epoch: int
    response: Any | None


class Tick(msgspec.Struct, frozen=True):
    """Some time has passed: some twice a second."""


ControllerEvent = StoreBatch | Request | TxnDone | ReadDone | Answered | Tick


class Txn(msgspec.Struct, frozen=True):
    """Run this transaction. There is one at a time; its guard is the first check."""

    tag: str
    checks: tuple[Check, ...]
    ops: tuple[Op, ...]


class Read(msgspec.Struct, frozen=True):
    """Read these keys: nobody knows whether the Txn of this tag happened."""

    tag: str
    keys: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True):
    """Answer a Request."""

    request_id: int
    message: Any


class Resign(msgspec.Struct, frozen=True):
    """The term is over: close the channels, take part in the next election. Nothing follows it."""

    reason: str


class Log(msgspec.Struct, frozen=True):
    """A line of the log, as Kafka's state-change.log has them. `level`: INFO or DEBUG (one partition each)."""

    level: str
    event: str
    fields: dict[str, Any]


Effect = Txn | Read | Reply | Resign | Log
