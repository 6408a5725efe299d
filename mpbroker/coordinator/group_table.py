"""What the coordinator must not forget when its process dies and the log does not say: generations and member ids.

The shell implements `GroupTable` in shared memory; the coordinator alone writes it. It is empty after a reset of all
workers, as after a start. The logic stores here before it returns an answer that shows what is stored:

- the *generation floor* of each group that ever had a member, with its state. If it is above the generation that the
  log recorded, or the state is one between two recorded ones, a successor begins with a rebalance at the floor, so that
  no generation number is given twice;
- every member id that was issued, so that a successor does not call it unknown; with the last sign of life of those
  that are members, so that it does not wait for the dead for a whole session more.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import NamedTuple, Protocol


@unique
class RowState(IntEnum):
    """State of a group as the table keeps it."""

    EMPTY = 0
    PREPARING = 1
    COMPLETING = 2
    STABLE = 3


class GroupRow(NamedTuple):
    """One group: the highest generation that a client may have seen, and the state."""

    generation: int
    state: RowState


class Seen(NamedTuple):
    """When a member gave its last sign of life, or up to a second before. `is_granted`: it gave none then, but a
    predecessor had come too late for it, and granted it that much."""

    at_ms: int
    is_granted: bool = False


class GroupTable(Protocol):
    """Rows of groups and of member ids. A full table answers False, and the request gets COORDINATOR_NOT_AVAILABLE."""

    def group(self, group_id: str) -> GroupRow | None:
        """The group's row, None if it has none."""
        ...

    def put_group(self, group_id: str, row: GroupRow) -> bool:
        """Store the row; a row that is there already can always be stored."""
        ...

    def drop_group(self, group_id: str) -> None:
        """Forget the group, which is deleted or has moved away; its members are dropped one by one."""
        ...

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Whether this id was issued, or loaded, for the group and not dropped since."""
        ...

    def put_member(self, group_id: str, member_id: str) -> bool:
        """Store a member id; one that is there already can always be stored."""
        ...

    def saw_member(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member that is there gave a sign of life; by the monotonic clock."""
        ...

    def last_seen(self, group_id: str, member_id: str) -> Seen | None:
        """The last sign of life of a member; None: nobody knows."""
        ...

    def grant(self, group_id: str, member_id: str, seen_ms: int) -> None:
        """A member has more time, as if it had been seen then."""
        ...

    def drop_member(self, group_id: str, member_id: str) -> None:
        """Forget a member id."""
        ...

    def drop_unconfirmed_members(self) -> None:
        """Forget the member ids that were not put since this process took the table over."""
        ...


class NoTable:
    """A table that keeps nothing: a successor then knows what the log says, as Kafka does."""

    def group(self, group_id: str) -> GroupRow | None:
        return None

    def put_group(self, group_id: str, row: GroupRow) -> bool:
        return True

    def drop_group(self, group_id: str) -> None:
        pass

    def has_member(self, group_id: str, member_id: str) -> bool:
        return False

    def put_member(self, group_id: str, member_id: str) -> bool:
        return True

    def saw_member(self, group_id: str, member_id: str, now_ms: int) -> None:
        pass

    def last_seen(self, group_id: str, member_id: str) -> Seen | None:
        return None

    def grant(self, group_id: str, member_id: str, seen_ms: int) -> None:
        pass

    def drop_member(self, group_id: str, member_id: str) -> None:
        pass

    def drop_unconfirmed_members(self) -> None:
        pass
