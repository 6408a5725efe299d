"""A follower behind a slow link: a proxy between it and its leader delays every byte, and lets at most a window of them
be under way, as TCP does whose receiver has a buffer of that size. What acks=all waits, how many MB/s are replicated.

    python -m perf.replica_link [--round-trips 10 50] [--windows 65536 262144 1048576 4194304] [--json FILE]

The window stands for `replica.socket.receive.buffer.bytes`: on loopback the buffer itself bounds nothing, for the other
end's acknowledgements take no time. `parked` false: the follower's fetches do not wait at the leader
(`replica.fetch.wait.max.ms=0`), as if it asked again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from mpbroker.analysis.lab.incident.cluster_brokers import CONTROLLER, ClusterBrokers
from mpbroker.client.network_client import NetworkClient
from mpbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from perf.load.processes import machine
from perf.load.produce_load import ProduceLoad

LEADER, FOLLOWER, TOPIC = 1, 2, "far"
CHUNK_BYTES, STARTING_LOOKS = 1 << 16, 3000
PING_S, BULK_S, WARM_S = 3.0, 4.0, 1.0
BULK_CONNECTIONS, BULK_BYTES = 16, 100_000


class SlowLink:
    """A proxy in a thread of its own, in front of the leader. `addresses`: of the brokers, once it is known."""

    def __init__(self, round_trip_s: float, window_bytes: int) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._delay_s, self._window = round_trip_s / 2, window_bytes
        self._loop = asyncio.new_event_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(listening.getsockname()[1])
        self._listening = listening
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._accepted, sock=self._listening))
        self._loop.run_forever()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(STARTING_LOOKS):
            if LEADER in self.addresses:
                break
            await asyncio.sleep(0.01)
        try:
            theirs, ours = await asyncio.open_connection(*self.addresses[LEADER])
        except OSError:  # the leader has ended
            writer.close()
            return
        await asyncio.gather(self._carry(reader, ours), self._carry(theirs, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction: a byte arrives a half round trip later, and its acknowledgement another half later."""
        under_way: deque[tuple[float, int]] = deque()
        room = self._window
        try:
            while True:
                now = self._loop.time()
                while under_way and under_way[0][0] <= now:
                    room += under_way.popleft()[1]
                if room <= 0:
                    await asyncio.sleep(max(0.0, under_way[0][0] - now))
                    continue
                data = await reader.read(min(CHUNK_BYTES, room))
                if not data:
                    break
                room -= len(data)
                now = self._loop.time()
                under_way.append((now + 2 * self._delay_s, len(data)))
                self._loop.call_at(now + self._delay_s, writer.write, data)
        except (ConnectionError, OSError):
            pass
        self._loop.call_later(self._delay_s, writer.close)


def create_topic(brokers: ClusterBrokers) -> None:
    """One partition, led by the one and followed by the other."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, FOLLOWER])
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    with NetworkClient(*brokers.addresses[CONTROLLER], client_id="perf") as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
        assert answer.topics[0].error_code == 0


def measure(round_trip_ms: int, window_bytes: int, parked: bool) -> dict[str, Any]:
    """One link."""
    link = SlowLink(round_trip_ms / 1000, window_bytes)
    settings = {"auto.leader.rebalance.enable": False, "min.insync.replicas": 2, "mpbroker.trace.enabled": False}
    if not parked:
        settings["replica.fetch.wait.max.ms"] = 0
    far = {LEADER: {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{link.port}"}}
    brokers = ClusterBrokers(settings, per_broker=far)
    link.addresses = brokers.addresses
    with brokers:
        create_topic(brokers)
        found: dict[str, Any] = {"round_trip_ms": round_trip_ms, "window_bytes": window_bytes, "parked": parked}
        host, port = brokers.addresses[LEADER]
        ping = ProduceLoad(host, port, TOPIC, connections=1, in_flight=1, partitions=1, acks=-1)
        ping.run(WARM_S)
        result = ping.run(PING_S)
        ping.close()
        found |= {"acks_all_p50_ms": round(result.p50_ms, 1), "acks_all_p99_ms": round(result.p99_ms, 1)}
        values = [b"x" * BULK_BYTES]
        bulk = ProduceLoad(
            host, port, TOPIC, connections=BULK_CONNECTIONS, in_flight=1, partitions=1, values=values, acks=-1
        )
        bulk.run(WARM_S)
        result = bulk.run(BULK_S)
        bulk.close()
        found["mb_per_s"] = round(result.requests_per_s * BULK_BYTES / 1e6, 1)
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round-trips", nargs="+", type=int, default=[10, 50], metavar="MS")
    parser.add_argument("--windows", nargs="+", type=int, default=[65536, 262144, 1048576, 4194304], metavar="BYTES")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    begun = time.monotonic()
    rows = []
    for round_trip_ms in arguments.round_trips:
        rows += [measure(round_trip_ms, window, True) for window in arguments.windows]
        rows.append(measure(round_trip_ms, arguments.windows[-1], False))
    text = json.dumps({"machine": machine(), "seconds": round(time.monotonic() - begun), "links": rows}, indent=2)
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
