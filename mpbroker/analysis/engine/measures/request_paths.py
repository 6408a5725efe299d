"""Each request's way through a broker in pieces that a replay can put together anew. Pure.

What does not depend on handlers is kept as it was measured; see broker_replay.Paths for the pieces.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics import moments, servers
from mpbroker.analysis.engine.mathematics.broker_replay import NOTHING, Paths
from mpbroker.analysis.engine.mathematics.disciplines import Arrivals
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import load_kind
from mpbroker.analysis.engine.measures.control_waits import CONTROL_APIS
from mpbroker.analysis.engine.measures.handler_work import HandlerWork

#: Beside what moments need.
COLUMNS = ("api", "api_key", "client", "client_hash", "conn_id", "req_bytes", "asked_wait_ns")
#: Of pairs of neighbours on a connection. Fewer that waited for each other, and the broker did not make them wait.
SERIAL_SHARE = 0.99
#: From this on a connection's client surely waits for answers: one that does not, and is taken for it, would seem to
#: send less where the broker is slow.
CLOSED_FROM = 0.4


class Measured(NamedTuple):
    """What a replay is compared with. `total`: from arrival to the last byte sent; `asked`: of it in a purgatory,
    because the client asked for that. `reserved`: of all handlers, those that took control requests only."""

    paths: Paths
    wait: Int64s
    total: Int64s
    asked: Int64s
    control_plane: npt.NDArray[np.bool_]
    handlers: int
    reserved: int


def of(work: HandlerWork) -> Measured:
    """Of one broker's requests, in the order in which they came into the ring."""
    when = moments.of(work.table)
    arrival = np.minimum(when.arrival, work.enqueued)
    released = np.maximum(when.resp_deq, work.handled)
    done = np.maximum(when.send_done, released)
    behind, tied = _connections(work, arrival, released, done)
    plane = np.asarray(work.plane == "control")
    hashed = np.asarray(work.table["client_hash"].to_numpy(), np.int64)
    earliest = np.maximum(arrival, np.where(behind == NOTHING, arrival, released[behind]))
    wake, turn = _hand_off(work)
    paths = Paths(
        arrival,
        work.enqueued - earliest,
        wake,
        work.service,
        turn,
        released - work.handled,
        done - released,
        behind,
        tied,
        np.where(tied == NOTHING, 0, np.maximum(arrival - done[tied], released[tied] - done[tied])),
        Arrivals(
            np.asarray(work.table["api_key"].to_numpy(), np.int64),
            np.where(hashed, hashed, np.asarray(work.table["conn_id"].to_numpy(), np.int64)),
            np.asarray(work.table["req_bytes"].to_numpy(), np.int64),
            plane | np.isin(work.table["api"].to_numpy(zero_copy_only=False).astype(str), CONTROL_APIS),
        ),
    )
    alone = np.setdiff1d(work.handler[plane], work.handler[~plane])
    reserved = min(len(alone[alone >= 0]), work.handlers - 1) if plane.any() and not plane.all() else 0
    asked = moments.column(work.table, "asked_wait_ns")
    return Measured(paths, work.wait, done - arrival, asked, plane, work.handlers, reserved)


def _connections(work: HandlerWork, arrival: Int64s, released: Int64s, done: Int64s) -> tuple[Int64s, Int64s]:
    """Of each request: which one of its connection must be released first, and for whose answer its client waited."""
    behind, tied = np.full(len(arrival), NOTHING, np.int64), np.full(len(arrival), NOTHING, np.int64)
    for _, rows in moments.groups(work.table, ("conn_id",)):
        before, after = rows[:-1], rows[1:]
        waited = work.enqueued[after] >= released[before]
        if len(waited) and waited.mean() >= SERIAL_SHARE:
            behind[after[waited]] = before[waited]
        enough = len(rows) >= load_kind.MIN_REQUESTS
        if enough and load_kind.correlation(arrival[rows], done[rows]) > CLOSED_FROM:
            most = load_kind.most_in_flight(arrival[rows], done[rows])
            tied[rows[most:]] = rows[:-most]
    return behind, tied


def _hand_off(work: HandlerWork) -> tuple[Int64s, Int64s]:
    """What a sleeping handler needs to take each request: what it needed, where the request found one free; for the
    others what these needed, in turn. And how long each handler was between this request and one that waited."""
    taken = work.handler >= 0
    ends = work.handled.copy()
    ends[taken] = servers.busy_until(
        work.handler[taken], work.dequeued[taken], work.handled[taken], work.enqueued[taken]
    )
    full = servers.at_least(work.dequeued[taken], ends[taken], work.handlers)
    found_free = full.within(work.enqueued - 1, work.enqueued) == 0
    wake, turn = work.wait.copy(), ends - work.handled
    known = np.flatnonzero(found_free)
    others = np.flatnonzero(~found_free)
    wake[others] = np.resize(wake[known], len(others)) if len(known) else 0
    stayed = np.flatnonzero(turn > 0)
    rest = np.flatnonzero(turn == 0)
    turn[rest] = np.resize(turn[stayed], len(rest)) if len(stayed) else 0
    return wake, turn
