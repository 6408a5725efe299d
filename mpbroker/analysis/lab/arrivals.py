"""When answers arrived and when requests might go, as exact as client log and trace together know it. Pure (numpy).

The kernel's stamp of an answer that nobody has read yet moves on with whatever is joined to it in the socket buffer, so
a generator that stalls finds all its answers stamped with the last one. The broker's own record is better there: once
the broker's send returned (`send_done`), the answer lay in this machine's socket buffer of the client.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def arrived_ns(stamped: Int64s, done: Int64s, sent: Int64s, send_done: Int64s) -> Int64s:
    """Arrival of each answer: the earlier of the kernel's stamp and the broker's send_done; -1: never, or not known
    (arguments likewise)."""
    late = np.where(done >= 0, done, np.iinfo(np.int64).max)
    known = np.minimum(np.where(stamped >= 0, stamped, late), np.where(send_done >= 0, send_done, late))
    found = np.maximum(np.minimum(known, late), sent)
    return np.where((done >= 0) & ((stamped >= 0) | (send_done >= 0)), found, -1)


def ready_ns(
    connection: Int64s, corr_id: Int64s, in_flight: int, ready: Int64s, stamped: Int64s, arrived: Int64s, least: Int64s
) -> Int64s:
    """`ready` again, where it was the arrival of the answer `in_flight` requests earlier: by that answer's `arrived`
    instead of what the generator knew (`stamped`: the kernel's stamp, or when it was read). Not before `least`, the
    intended time. Requests of one connection count in the order of their correlation ids."""
    order = np.lexsort((corr_id, connection))
    earlier = order[:-in_flight] if in_flight < len(order) else order[:0]
    later = order[in_flight:]
    held = (connection[earlier] == connection[later]) & (ready[later] == stamped[earlier]) & (arrived[earlier] >= 0)
    found = ready.copy()
    found[later[held]] = np.maximum(arrived[earlier[held]], least[later[held]])
    return np.minimum(found, ready)
