"""Where the replicas of new partitions go: Kafka's assignment to brokers, with and without racks. Pure.

Leaders go round the brokers from `start`. The followers of a partition begin `shift` places further, one more with
every round, so that the partitions one broker leads are followed by different ones.
"""

from collections import defaultdict
from collections.abc import Mapping


def place(
    first: int, count: int, factor: int, racks: Mapping[int, str | None], start: int, shift: int
) -> list[list[int]]:
    """Replicas of partitions first … first + count - 1. `racks`: rack of each broker that may be used, at least
    `factor` of them; they count only if every broker has one."""
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(known) == len(racks) > 0:
        return _place_in_racks(range(first, first + count), factor, known, start, shift)
    brokers, placed = sorted(racks), []
    for partition in range(first, first + count):
        head = (partition + start) % len(brokers)
        moved = shift + partition // len(brokers)
        followers = [brokers[_follower(head, moved, k, len(brokers))] for k in range(factor - 1)]
        placed.append([brokers[head], *followers])
    return placed


def _follower(head: int, shift: int, k: int, brokers: int) -> int:
    return (head + 1 + (shift + k) % (brokers - 1)) % brokers


def _place_in_racks(
    partitions: range, factor: int, racks: Mapping[int, str], start: int, shift: int
) -> list[list[int]]:
    brokers, number_of_racks = _alternating(racks), len(set(racks.values()))
    placed = []
    for partition in partitions:
        head = (partition + start) % len(brokers)
        moved = (shift + partition // len(brokers)) * number_of_racks
        replicas, used = [brokers[head]], {racks[brokers[head]]}
        for k in range(2 * len(brokers) * factor):  # the second round takes whoever is left
            if len(replicas) == factor:
                break
            broker = brokers[_follower(head, moved, k, len(brokers))]
            if broker in replicas or (racks[broker] in used and len(used) < number_of_racks):
                continue
            replicas.append(broker)
            used.add(racks[broker])
        placed.append(replicas)
    return placed


def _alternating(racks: Mapping[int, str]) -> list[int]:
    """Brokers so that neighbours are in different racks, as far as possible."""
    by_rack = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    longest = max(len(brokers) for brokers in by_rack.values())
    return [by_rack[rack][k] for k in range(longest) for rack in sorted(by_rack) if k < len(by_rack[rack])]
