"""Kafka's assignor `uniform`: members get equally many partitions, and keep what they have as far as that allows.

Pure; in the coordinator process. Where all subscribe to the same topics the result is balanced to one partition, and
moves as few as that needs. Otherwise members get from the topics that they read, and a topic's partitions go from its
most to its least loaded readers until no such move helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias

from mpbroker.coordinator.consumer_groups.consumer_member import Target

Partition: TypeAlias = tuple[bytes, int]
#: Member → ids of the topics it reads.
Subscriptions: TypeAlias = Mapping[str, frozenset[bytes]]
#: Topic id → how many partitions it has.
Sizes: TypeAlias = Mapping[bytes, int]

MAX_ROUNDS = 16


def assign(subscriptions: Subscriptions, sizes: Sizes, present: Mapping[str, Target]) -> dict[str, Target]:
    """Every member's target; `present`: those that there are."""
    parts = {member: _kept(topics, sizes, present.get(member, {})) for member, topics in subscriptions.items()}
    _take_doubles(parts)
    if len(set(subscriptions.values())) <= 1:
        _fill_up(parts, _free(parts, sizes, next(iter(subscriptions.values()), frozenset())))
    else:
        _assign_unequal(subscriptions, sizes, parts)
    return {member: _target(partitions) for member, partitions in parts.items()}


def _kept(topics: frozenset[bytes], sizes: Sizes, target: Target) -> list[Partition]:
    """What a member has of topics that it still reads, and that still are there."""
    return [
        (topic_id, number)
        for topic_id, numbers in target.items()
        if topic_id in topics
        for number in sorted(numbers)
        if number < sizes[topic_id]
    ]


def _take_doubles(parts: dict[str, list[Partition]]) -> None:
    """Two members of a group that came from elsewhere may have the same."""
    seen: set[Partition] = set()
    for member, partitions in parts.items():
        parts[member] = [one for one in partitions if one not in seen]
        seen.update(partitions)


def _free(parts: Mapping[str, list[Partition]], sizes: Sizes, topics: frozenset[bytes]) -> list[Partition]:
    """What nobody has, in the order of topics and partitions."""
    taken = {one for partitions in parts.values() for one in partitions}
    return [
        (topic_id, number)
        for topic_id in sorted(topics)
        for number in range(sizes[topic_id])
        if (topic_id, number) not in taken
    ]


def _target(partitions: list[Partition]) -> Target:
    found: dict[bytes, set[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


# all read the same


def _fill_up(parts: dict[str, list[Partition]], free: list[Partition]) -> None:
    """Who has most keeps the odd ones, so that no more moves than must."""
    least, odd = divmod(len(free) + sum(map(len, parts.values())), len(parts))
    by_load = sorted(parts, key=lambda member: -len(parts[member]))
    quota = {member: least + (place < odd) for place, member in enumerate(by_load)}
    for member in by_load:
        free += parts[member][quota[member] :]
        del parts[member][quota[member] :]
    free.reverse()
    for member, partitions in parts.items():
        while len(partitions) < quota[member]:
            partitions.append(free.pop())


# members read different topics


def _assign_unequal(subscriptions: Subscriptions, sizes: Sizes, parts: dict[str, list[Partition]]) -> None:
    readers: dict[bytes, list[str]] = {}
    for member, topics in subscriptions.items():
        for topic_id in topics:
            readers.setdefault(topic_id, []).append(member)
    # Topics that leave the least choice first: many partitions for few readers.
    order = sorted(readers, key=lambda topic_id: (-sizes[topic_id] / len(readers[topic_id]), topic_id))
    loads = {member: len(partitions) for member, partitions in parts.items()}
    owned: dict[bytes, dict[str, list[int]]] = {}
    for member, partitions in parts.items():
        for topic_id, number in partitions:
            owned.setdefault(topic_id, {}).setdefault(member, []).append(number)
    for topic_id in order:
        taken = {number for numbers in owned.get(topic_id, {}).values() for number in numbers}
        free = [number for number in range(sizes[topic_id]) if number not in taken]
        _hand_out(topic_id, free, readers[topic_id], loads, owned)
    for _ in range(MAX_ROUNDS):
        moved = [_balance(owned.get(topic_id, {}), readers[topic_id], loads) for topic_id in order]
        if not any(moved):
            break
    for member in parts:
        parts[member] = [(topic_id, number) for topic_id in owned for number in owned[topic_id].get(member, ())]


def _hand_out(
    topic_id: bytes,
    free: list[int],
    readers: list[str],
    loads: dict[str, int],
    owned: dict[bytes, dict[str, list[int]]],
) -> None:
    """Each partition to the reader with the fewest."""
    heap = [(loads[member], place, member) for place, member in enumerate(readers)]
    heapify(heap)
    for number in free:
        load, place, member = heap[0]
        heapreplace(heap, (load + 1, place, member))
        loads[member] = load + 1
        owned.setdefault(topic_id, {}).setdefault(member, []).append(number)


def _balance(owned: dict[str, list[int]], readers: list[str], loads: dict[str, int]) -> bool:
    """Move a topic's partitions from its most loaded owners to its least loaded readers; whether any moved."""
    least = [(loads[member], place, member) for place, member in enumerate(readers)]
    most = [(-load, place, member) for load, place, member in least if owned.get(member)]
    heapify(least)
    heapify(most)
    moved = False
    while most:
        load, place, giver = heappop(most)
        if not owned[giver] or -load != loads[giver]:
            continue
        low, low_place, taker = heappop(least)
        if low != loads[taker]:  # somebody gave or took meanwhile
            heappush(least, (loads[taker], low_place, taker))
            heappush(most, (load, place, giver))
            continue
        if loads[giver] - loads[taker] <= 1:
            break
        owned.setdefault(taker, []).append(owned[giver].pop())
        loads[giver] -= 1
        loads[taker] += 1
        moved = True
        heappush(most, (-loads[giver], place, giver))
        heappush(least, (loads[taker], low_place, taker))
    return moved
