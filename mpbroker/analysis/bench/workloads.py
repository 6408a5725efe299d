"""The four loads, as data: bulk produce, bulk consume, one record a request, acknowledgement latency at a fixed rate.

They are those of the usual comparisons of Kafka brokers, driven by mpbroker's own client. W3 tells most about a broker:
in W1 and W2 a few hundred large requests carry everything, and the client is what limits.
"""

from __future__ import annotations

from typing import NamedTuple

PARTITIONS = 4


class Workload(NamedTuple):
    """One produce load. `requests`: in all (0: as many as fit into the time); `rate_per_s`: open loop, None: closed."""

    name: str
    title: str
    clients: int
    in_flight: int
    records: int
    value_bytes: int
    acks: int
    requests: int
    rate_per_s: float | None
    seconds_most: float


#: 9,000 such records are what fits below the usual max.message.bytes of 1 MiB.
W1 = Workload(
    "W1",
    "bulk produce: 2 million records of 100 bytes in batches of 9,000, acks=all",
    4,
    2,
    9_000,
    100,
    -1,
    224,
    None,
    20.0,
)
W3 = Workload("W3", "one record a request: 100 bytes, 5 in flight, acks=all", 1, 5, 1, 100, -1, 60_000, None, 15.0)
W3_LEADER = W3._replace(name="W3 acks=1", title="one record a request: 100 bytes, 5 in flight, acks=1", acks=1)
W4 = Workload(
    "W4",
    "1,000 records of 1 kB a second, acks=all: acknowledgement latency (open loop)",
    1,
    100,
    1,
    1000,
    -1,
    0,
    1000.0,
    5.0,
)
SWEEP = Workload(
    "sweep", "one record a request: 100 bytes, 8 connections with 20 in flight, acks=1", 8, 20, 1, 100, 1, 0, None, 3.0
)
W2_TITLE = "bulk consume: what W1 wrote, 4 partitions, at most 1 MB of each a request"
NAMES = ("W1", "W2", "W3", "W4")


def shortened(workload: Workload, seconds: float | None) -> Workload:
    """The same load, at most so many seconds long."""
    return workload if seconds is None else workload._replace(seconds_most=min(seconds, workload.seconds_most))
