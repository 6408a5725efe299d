"""What idle connections cost: memory of the broker, and processor time of the requests of others.

    python -m perf.idle_connections HOST:PORT=PID … [--connections 10000] [--requests 20000] [--rounds 3]

Each round sends the requests without idle connections and then with them. Every idle one has asked for the versions,
as a client does that waits for something to do. Prints one JSON object with the medians.
"""

import argparse
import json
import resource
import statistics
import time
from typing import Final

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest
from perf.group_requests import flood, targets_of
from perf.load.processes import pss_kib
from tests.harness.peer import Peer

SETTLE_S: Final = 3.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    frame = encode_request_frame(MetadataRequest(topics=[]), 1, 1, "perf")
    found = {}
    for where, (address, pid) in targets_of(told.brokers).items():
        alone, beside, grown = [], [], []
        flood(address, frame, told.requests)
        for _ in range(told.rounds):
            alone.append(_cpu_us(address, pid, frame, told.requests))
            before = pss_kib(pid) / 1024
            idle = [_idle(address[1]) for _ in range(told.connections)]
            time.sleep(SETTLE_S)
            grown.append(pss_kib(pid) / 1024 - before)
            beside.append(_cpu_us(address, pid, frame, told.requests))
            for peer in idle:
                peer.socket.close()
            time.sleep(SETTLE_S)
        found[where] = {
            "connections": told.connections,
            "pss_mib": round(grown[0], 1),  # of the first: later ones find the memory there
            "alone_cpu_us": round(statistics.median(alone), 1),
            "beside_cpu_us": round(statistics.median(beside), 1),
        }
    print(json.dumps(found, indent=1))


def _idle(port: int) -> Peer:
    peer = Peer(port, timeout_s=60)
    peer.ask(ApiVersionsRequest(), 3)
    return peer


def _cpu_us(address: tuple[str, int], pid: int, frame: bytes, requests: int) -> float:
    before = usage(pid)
    flood(address, frame, requests)
    return usage(pid).since(before).total_us / requests


if __name__ == "__main__":
    main()
