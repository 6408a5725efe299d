"""Senders of control requests beside each other, while one receiver stands still; and what coalescing saves it.

    python -m perf.control_senders [--receivers 3 10 100] [--json FILE]

Every 100 ms a change of 100 partitions is to be heard of by every receiver (UpdateMetadata); one of them is stopped for
some seconds. From the offer until each healthy receiver has answered: p50, p99, longest. Then 500 topics are made while
one receiver stands still, with a queue of requests for it and with the map of wanted state (cluster/wanted_state.py):
what it is sent afterwards, and how long until it agrees.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from mpbroker.cluster.cluster_image import LiveBroker
from mpbroker.cluster.control_requests import RequestBuilder
from mpbroker.cluster.wanted_state import Batch, Lead, PartitionView, WantedState
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct
from perf.load.control_receivers import Receivers
from perf.load.processes import machine, pss_kib, usage
from perf.load.sender_disciplines import DISCIPLINES, connect

PERIOD_S, CHANGES, STOP_AT, GO_ON_AT, PATIENCE_S = 0.1, 60, 10, 50, 15.0
PARTITIONS, TOPICS = 100, 500
STOPPED = 0


def view(topic: int, number: int, epoch: int) -> PartitionView:
    """A partition of three replicas."""
    return PartitionView(f"topic-{topic}", topic.to_bytes(16, "big"), number, 1, 1, epoch, (1, 2, 3), epoch, (1, 2, 3))


def change(builder: RequestBuilder, epoch: int) -> UpdateMetadataRequest:
    """A hundred partitions in another leader epoch."""
    views = [view(1, number, epoch) for number in range(PARTITIONS)]
    brokers: dict[int, LiveBroker] = {}
    request = builder.build(Batch({}, {one.named: one for one in views}, brokers=True), 1, brokers)
    assert isinstance(request, UpdateMetadataRequest)
    return request


def quantile(values: list[float], share: float) -> float:
    """By rank."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else -1.0


def one_stands_still(name: str, receivers: int) -> dict[str, Any]:
    """One discipline: delays of the healthy receivers before and while the other one stands still."""
    builder = RequestBuilder(1, 1, "PLAINTEXT")
    with Receivers(1) as stopped, Receivers(receivers - 1) as healthy:
        memory_before = pss_kib(os.getpid())
        sender = DISCIPLINES[name]([*stopped.ports, *healthy.ports])
        offered: dict[int, float] = {}
        before_us = usage(os.getpid())
        try:
            for number in range(CHANGES):
                if number == STOP_AT:
                    os.kill(stopped.process.pid, signal.SIGSTOP)
                if number == GO_ON_AT:
                    os.kill(stopped.process.pid, signal.SIGCONT)
                request = change(builder, number)
                offered[number] = time.monotonic()
                sender.offer(number, request)
                time.sleep(PERIOD_S)
            deadline = time.monotonic() + PATIENCE_S
            while len(sender.confirmed) < CHANGES * receivers and time.monotonic() < deadline:
                time.sleep(0.05)
            memory = pss_kib(os.getpid()) - memory_before  # with its processes: they are children
            cpu = usage(os.getpid()).since(before_us).total_us
        finally:
            sender.close()
    parts: dict[str, list[float]] = {"before": [], "meanwhile": []}
    for one in list(sender.confirmed):
        if one.broker != STOPPED and one.change < GO_ON_AT:
            where = "before" if one.change < STOP_AT else "meanwhile"
            parts[where].append((one.at_s - offered[one.change]) * 1000)
    row: dict[str, Any] = {"sender": name, "receivers": receivers, "pss_mib": round(memory / 1024, 1)}
    row |= {"cpu_ms_per_change": round(cpu / 1000 / CHANGES, 2), "confirmed": len(sender.confirmed)}
    for where, values in parts.items():
        row |= {f"{where}_p50_ms": quantile(values, 0.5), f"{where}_p99_ms": quantile(values, 0.99)}
        row |= {f"{where}_max_ms": quantile(values, 1.0)}
    return row


def sent(port: int, requests: list[Struct]) -> tuple[int, float]:
    """Bytes, and seconds until all are answered, one after the other."""
    with connect(port) as connected:
        frames = [encode_request_frame(one, schema_of(type(one)).versions[1], 1, "sender") for one in requests]
        begun = time.monotonic()
        for frame in frames:
            connected.sendall(frame)
            length = int.from_bytes(connected.recv(4), "big")
            while length > 0:
                length -= len(connected.recv(length))
        return sum(map(len, frames)), time.monotonic() - begun


def coalescing(is_on: bool) -> dict[str, Any]:
    """What a receiver is sent after 500 topics of one partition were made while it stood still. Each is a LeaderAndIsr
    and an UpdateMetadata: as they were made, or as the map has them in the end."""
    builder, brokers = RequestBuilder(1, 1, "PLAINTEXT"), {}
    requests: list[Struct] = []
    begun = time.monotonic()
    if is_on:
        wanted = WantedState(2, 1)
        for topic in range(TOPICS):
            wanted.lead(view(topic, 0, 0), True, topic)
            wanted.know(view(topic, 0, 0), topic)
        while (batch := wanted.next_batch(TOPICS)) is not None:
            requests.append(builder.build(batch, 1, brokers))
            wanted.answered()
    else:
        for topic in range(TOPICS):
            one = view(topic, 0, 0)
            requests.append(builder.build(Batch({one.named: Lead(one, True)}, {}, brokers=False), 1, brokers))
            requests.append(builder.build(Batch({}, {one.named: one}, brokers=True), 1, brokers))
    made_s = time.monotonic() - begun
    with Receivers(1) as receivers:
        size, seconds = sent(receivers.ports[0], requests)
    return {
        "coalescing": is_on,
        "topics": TOPICS,
        "requests": len(requests),
        "bytes": size,
        "made_ms": round(made_s * 1000, 1),
        "until_it_agrees_ms": round(seconds * 1000, 1),
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", nargs="+", type=int, default=[3, 10, 100])
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"machine": machine()}
    found["coalescing"] = [coalescing(is_on) for is_on in (False, True)]
    found["senders"] = [one_stands_still(name, count) for count in arguments.receivers for name in DISCIPLINES]
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
