"""Kafka's assignor `range`: of each topic every reader gets partitions next to each other. Pure; in the coordinator
process.

Readers stand in the order of their instance ids, those without one behind them in the order of their ids; where topics
have equally many partitions and the same readers, each gets the same numbers of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpbroker.coordinator.consumer_groups.consumer_member import Target
from mpbroker.coordinator.consumer_groups.uniform_assignor import Sizes, Subscriptions


def assign(subscriptions: Subscriptions, sizes: Sizes, instances: Mapping[str, str | None]) -> dict[str, Target]:
    """Every member's target; `instances`: member → instance id."""
    order = sorted(subscriptions, key=lambda member: _place(member, instances.get(member)))
    readers: dict[bytes, list[str]] = {}
    for member in order:
        for topic_id in subscriptions[member]:
            readers.setdefault(topic_id, []).append(member)
    found: dict[str, dict[bytes, frozenset[int]]] = {member: {} for member in order}
    for topic_id, members in readers.items():
        least, odd = divmod(sizes[topic_id], len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + least + (place < odd)
            if end > start:
                found[member][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _place(member: str, instance: str | None) -> tuple[bool, str]:
    return (instance is None, member if instance is None else instance)
