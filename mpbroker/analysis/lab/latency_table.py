"""What the clients of a scenario saw: one row per variant, phase and group; and where the wait of a request was.

Pure: tables in, tables out. Latency counts from the intended send time; percentiles are exact (every request is here).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

QUANTILES = (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0))
PARTS = ("held_back_us", "rx_wait_us", "queue_us", "rest_of_broker_us", "on_the_way_us")
#: As figures and sentences call them: "40 % of its time is …".
PART_NAMES = {
    "held_back_us": "held back by its own earlier requests",
    "rx_wait_us": "waiting in the socket",
    "queue_us": "waiting in the request ring",
    "rest_of_broker_us": "in the rest of the broker",
    "on_the_way_us": "on the way",
}
SLOWEST = 0.01


def percentile(values: np.ndarray, share: float) -> float:
    """The smallest value that is not exceeded by that share; NaN of nothing."""
    if not len(values):
        return float("nan")
    rank = max(0, int(np.ceil(share * len(values))) - 1)
    return float(np.partition(values, rank)[rank])


def splits(clients: pa.Table) -> Iterator[tuple[tuple[str, str, str], pa.Table]]:
    """(variant, phase, group) and its rows, in the order in which they first appear."""
    keys = (
        clients.select(["variant", "phase", "group"])
        .group_by(["variant", "phase", "group"], use_threads=False)
        .aggregate([])
    )
    for key in keys.to_pylist():
        mask = pc.and_(
            pc.and_(pc.equal(clients["variant"], key["variant"]), pc.equal(clients["phase"], key["phase"])),
            pc.equal(clients["group"], key["group"]),
        )
        yield (key["variant"], key["phase"], key["group"]), clients.filter(mask)


def client_latency(clients: pa.Table) -> pa.Table:
    """Counts and percentiles of latency_ns; `net_p50_us` and `net_p99_us` without what the client itself waited for a
    core (before sending what it could have sent, or what that had to wait behind, and before reading what had come):
    what a client on a machine of its own would have seen. `sent_p99_us` is what a generator that forgets its intentions
    would have reported."""
    return pa.Table.from_pylist([_latency_row(key, rows) for key, rows in splits(clients)])


def _latency_row(key: tuple[str, str, str], rows: pa.Table) -> dict[str, Any]:
    latency = rows["latency_ns"].to_numpy() / 1000
    sent = rows.filter(pc.is_valid(rows["sent_ns"]))
    done = sent.filter(sent["answered"])
    service = (done["done_ns"].to_numpy() - done["sent_ns"].to_numpy()) / 1000
    net = rows["net_ns"].to_numpy() / 1000
    return {
        "variant": key[0],
        "phase": key[1],
        "group": key[2],
        "loop": rows["loop"][0].as_py(),
        "requests": len(rows),
        "errors": pc.sum(pc.not_equal(rows["error"], 0)).as_py() or 0,
        "unsent": len(rows) - len(sent),
        "unanswered": len(sent) - len(done),
        **{name: percentile(latency, share) for name, share in QUANTILES},
        "net_p50_us": percentile(net, 0.5),
        "net_p99_us": percentile(net, 0.99),
        "sent_p99_us": percentile(service, 0.99),
    }


def where_it_waits(clients: pa.Table) -> pa.Table:
    """Mean microseconds of each part of a request's net latency, over all requests and over the slowest 1 % (by net
    latency).

    held_back: by the in-flight limit or a full socket; rx_wait: in the broker's socket buffer before it was read;
    queue: until a handler took it; rest_of_broker: everything else the trace saw; on_the_way: kernel and loopback, and
    what rx_wait misses of requests that were read together (it is that of the last). These add up to net_us. own_wait
    is what the client waited for a core (where an answer's arrival is not known, half of that is in on_the_way).
    """
    rows: list[dict[str, Any]] = []
    for key, part in splits(clients):
        known = part.filter(pc.and_(part["answered"], pc.is_valid(part["total_ns"])))
        if len(known):
            rows += _waits(key, known)
    return pa.Table.from_pylist(rows)


def _waits(key: tuple[str, str, str], known: pa.Table) -> Iterator[dict[str, Any]]:
    net, parts = known["net_ns"].to_numpy(), _parts(known)
    slow = net >= percentile(net, 1 - SLOWEST)
    for which, mask in (("all", np.ones(len(known), bool)), ("slowest 1 %", slow)):
        means = {name: float(parts[name][mask].mean()) for name in (*PARTS, "own_wait_us")}
        net_us = float(net[mask].mean()) / 1000
        seen = means["rx_wait_us"] + means["queue_us"]
        yield {
            "variant": key[0],
            "phase": key[1],
            "group": key[2],
            "which": which,
            "requests": int(mask.sum()),
            "net_us": net_us,
            **means,
            "rx_wait_and_queue_share": seen / net_us if net_us else 0.0,
        }


def _parts(known: pa.Table) -> dict[str, np.ndarray]:
    column = {name: pc.fill_null(known[name], 0).to_numpy() / 1000 for name in ("rx_wait_ns", "queue_ns", "total_ns")}
    arrived = pc.coalesce(known["arrived_ns"], known["done_ns"]).to_numpy() / 1000
    held_back = pc.subtract(known["ready_ns"], known["intended_ns"]).to_numpy() / 1000
    return {
        "held_back_us": held_back,
        "rx_wait_us": column["rx_wait_ns"],
        "queue_us": column["queue_ns"],
        "rest_of_broker_us": column["total_ns"] - column["queue_ns"],
        "on_the_way_us": arrived - known["sent_ns"].to_numpy() / 1000 - column["total_ns"] - column["rx_wait_ns"],
        "own_wait_us": pc.subtract(known["latency_ns"], known["net_ns"]).to_numpy() / 1000,
    }
