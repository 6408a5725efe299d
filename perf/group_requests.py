"""Heartbeats and commits of one group: how many a second, and how much processor time of the broker each takes.

    python -m perf.group_requests HOST:PORT=PID … [--requests 40000] [--rounds 3] [--warm 0]

Several brokers take turns, so that a machine whose speed drifts is the same for all. Prints one JSON object; of the
rounds the medians. A JVM needs some 300,000 requests before its figures settle: `--warm`.
"""

import argparse
import json
import selectors
import socket
import statistics
import struct
import time
from typing import Any, Final

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.peer import Peer, create_topic

CONNECTIONS: Final = 8
IN_FLIGHT: Final = 20
NAME: Final = f"perf-group-requests-{time.time_ns()}"  # a run that was cut off leaves a member behind


def member(peer: Peer, group: str) -> Any:
    """The only member of a stable group."""
    protocols = [JoinGroupRequestProtocol("range", b"m")]
    while peer.ask(FindCoordinatorRequest(key=group, key_type=0), 2).error_code:
        time.sleep(0.2)  # its topic is being made
    while True:
        joined = peer.ask(JoinGroupRequest(group, 600_000, 60_000, "", None, "consumer", protocols), 3)
        if joined.error_code == 0:
            break
        time.sleep(0.2)
    rows = [SyncGroupRequestAssignment(joined.member_id, b"a")]
    assert (
        peer.ask(SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=rows), 3).error_code == 0
    )
    return joined


def frames(joined: Any) -> dict[str, bytes]:
    """One request of each kind."""
    topics = [OffsetCommitRequestTopic(NAME, partitions=[OffsetCommitRequestPartition(0, 7)])]
    beat = HeartbeatRequest(NAME, joined.generation_id, joined.member_id)
    commit = OffsetCommitRequest(NAME, joined.generation_id, joined.member_id, topics=topics)
    return {
        "heartbeats": encode_request_frame(beat, 3, 1, "perf"),
        "commits": encode_request_frame(commit, 7, 1, "perf"),
    }


def flood(address: tuple[str, int], frame: bytes, count: int, *, is_code_last: bool = False) -> float:
    """Send `count` of them over several connections, some in flight on each; seconds. `is_code_last`: the answer ends
    with its error code, which must be none."""
    connections = [socket.create_connection(address) for _ in range(CONNECTIONS)]
    left = dict.fromkeys(connections, count // CONNECTIONS)
    waiting = dict.fromkeys(connections, 0)
    held = dict.fromkeys(connections, b"")
    selector = selectors.DefaultSelector()
    began_s = time.monotonic()
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(frame * IN_FLIGHT)
        left[connection] -= IN_FLIGHT
        waiting[connection] = IN_FLIGHT
    while any(waiting.values()):
        for key, _ in selector.select(30):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            data, answered = held[connection] + connection.recv(65536), 0
            while len(data) >= 4 and len(data) >= (size := 4 + struct.unpack_from(">i", data)[0]):
                assert not is_code_last or data[size - 2 : size] == b"\0\0", "an error"
                data, answered = data[size:], answered + 1
            held[connection] = data
            more = min(answered, left[connection])
            if more:
                connection.sendall(frame * more)
            left[connection] -= more
            waiting[connection] += more - answered
    took_s = time.monotonic() - began_s
    selector.close()
    for connection in connections:
        connection.close()
    return took_s


def targets_of(texts: list[str]) -> dict[str, tuple[tuple[str, int], int]]:
    """Address and first process of each broker that the command line names."""
    found = {}
    for text in texts:
        where, _, pid = text.partition("=")
        host, _, port = where.rpartition(":")
        found[where] = ((host, int(port)), int(pid))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=0)
    told = parser.parse_args()
    targets = {}
    for where, (address, pid) in targets_of(told.brokers).items():
        with Peer(address[1]) as peer:
            create_topic(peer, NAME)
            targets[where] = (address, pid, frames(member(peer, NAME)))
    found: dict[str, dict[str, list[tuple[float, float]]]] = {where: {} for where in targets}
    for address, _, made in targets.values():
        for frame in made.values() if told.warm else ():
            flood(address, frame, told.warm, is_code_last=True)
    for _ in range(told.rounds):
        for where, (address, pid, made) in targets.items():
            for kind, frame in made.items():
                before, took_s = usage(pid), flood(address, frame, told.requests, is_code_last=True)
                cpu_us = usage(pid).since(before).total_us / told.requests
                found[where].setdefault(kind, []).append((told.requests / took_s, cpu_us))
    print(
        json.dumps(
            {
                where: {
                    kind: {
                        "per_s": round(statistics.median(rate for rate, _ in rows)),
                        "cpu_us": round(statistics.median(cpu for _, cpu in rows), 1),
                    }
                    for kind, rows in kinds.items()
                }
                for where, kinds in found.items()
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
