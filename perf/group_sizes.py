"""Large groups and many groups: how long until all members have their assignment, and what it costs the broker.

    python -m perf.group_sizes HOST:PORT=PID … [--shapes 1x100,1x500,1000x5] [--rounds 3] [--delay-ms 500]

Every member is a connection that joins as clients of today do: it is given an id (error 79), joins with it, waits for
the others, and syncs. Brokers take turns and are to be started with `group.initial.rebalance.delay.ms` as `--delay-ms`
says: a group waits for that twice, for members came meanwhile. `stable_ms` is what passes after these two, `told_ms`
from the first answer to a join to the last assignment. The delay is to be so long that all joins can be sent within.
Prints one JSON object, medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import selectors
import statistics
import struct
import sys
import time
from typing import Any, Final, NamedTuple

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from perf.group_requests import targets_of
from tests.harness.peer import Peer

SUBSCRIPTION: Final = struct.pack(">hih5si", 0, 1, 5, b"topic", 60) + bytes(60)
"""As Kafka's clients write it; its coordinator does not bear what it cannot read."""
PROTOCOLS: Final = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
ASSIGNMENT: Final = b"a" * 120
JOIN, SYNC, SESSION_MS, REBALANCE_MS = 5, 3, 60_000, 60_000
LOADING, MEMBER_ID_REQUIRED = 14, 79


class Shape(NamedTuple):
    """So many groups of so many members."""

    groups: int
    members: int

    def __str__(self) -> str:
        return f"{self.groups}x{self.members}"


class Took(NamedTuple):
    """One round, in milliseconds."""

    stable_ms: float
    told_ms: float
    cpu_ms: float


def _join(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(group, SESSION_MS, REBALANCE_MS, member_id, None, "consumer", PROTOCOLS)


def _assignments(joined: Any) -> list[SyncGroupRequestAssignment]:
    if joined.leader != joined.member_id:
        return []
    return [SyncGroupRequestAssignment(member.member_id, ASSIGNMENT) for member in joined.members]


def _sync_all(places: list[tuple[str, Peer]]) -> float:
    """Until every member has its assignment; when the first answer to a join came."""
    first_s, selector = 0.0, selectors.DefaultSelector()
    for group, peer in places:
        selector.register(peer.socket, selectors.EVENT_READ, (group, peer))
    while selector.get_map():
        ready = selector.select(60)
        assert ready, "nobody is answered"
        for key, _ in ready:
            group, peer = key.data
            answer = peer.receive()
            if isinstance(answer, SyncGroupResponse):
                assert (answer.error_code, answer.assignment) == (0, ASSIGNMENT)
                selector.unregister(peer.socket)
            elif answer.error_code == LOADING:  # more joins wait than may at once: clients ask again
                peer.send(_join(group, answer.member_id), JOIN)
            else:
                assert answer.error_code == 0, answer.error_code
                first_s = first_s or time.monotonic()
                shares = _assignments(answer)
                peer.send(SyncGroupRequest(group, answer.generation_id, answer.member_id, assignments=shares), SYNC)
    return first_s


def _issued(group: str, peer: Peer) -> Any:
    """The answer that names the member's id; a coordinator whose topic is new answers otherwise for a while."""
    answer = peer.receive()
    for _ in range(100):
        if answer.error_code == MEMBER_ID_REQUIRED:
            break
        time.sleep(0.1)
        answer = peer.ask(_join(group, ""), JOIN)
    assert answer.error_code == MEMBER_ID_REQUIRED, answer.error_code
    return answer


def settle(port: int, pid: int, shape: Shape, delay_ms: int, name: str) -> Took:
    """Have them all join and sync, once."""
    places = [
        (f"{name}-{group}", Peer(port, timeout_s=60)) for group in range(shape.groups) for _ in range(shape.members)
    ]
    before = usage(pid)
    for group, peer in places:
        peer.send(_join(group, ""), JOIN)
    issued = [_issued(group, peer) for group, peer in places]
    began_s = time.monotonic()
    for (group, peer), one in zip(places, issued, strict=True):
        peer.send(_join(group, one.member_id), JOIN)
    first_s = _sync_all(places)
    ended_s = time.monotonic()
    cpu_ms = usage(pid).since(before).total_us / 1000
    for _, peer in places:
        peer.socket.close()
    return Took((ended_s - began_s) * 1000 - 2 * delay_ms, (ended_s - first_s) * 1000, cpu_ms)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--shapes", default="1x100,1x500,1000x5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay-ms", type=int, default=500)
    told = parser.parse_args()
    targets = targets_of(told.brokers)
    for address, _ in targets.values():
        with Peer(address[1]) as peer:
            while peer.ask(FindCoordinatorRequest(key="any", key_type=0), 2).error_code:
                time.sleep(0.2)  # its topic is being made
    run = f"sizes-{time.time_ns()}"
    found: dict[str, dict[str, list[Took]]] = {where: {} for where in targets}
    for shape in [Shape(*map(int, text.split("x"))) for text in told.shapes.split(",")]:
        for number in range(told.rounds):
            for where, (address, pid) in targets.items():
                took = settle(address[1], pid, shape, told.delay_ms, f"{run}-{shape}-{number}")
                print(where, shape, took, file=sys.stderr)
                found[where].setdefault(str(shape), []).append(took)
    medians = {
        where: {
            shape: {
                field: round(statistics.median(column), 1)
                for field, column in zip(Took._fields, zip(*rows, strict=True), strict=True)
            }
            for shape, rows in shapes.items()
        }
        for where, shapes in found.items()
    }
    print(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
