"""Control requests and what handlers did while they waited: the first half of the study `priority`. Pure but for the
engine.

A control request is one that came over the control plane's listener, has an API of the controller, or comes from a
client that uses the control plane in any run of the input (so that a run without such a listener can be compared with
it). Its wait lasts from its arrival in the kernel (from its first read where the kernel does not tell) to a handler's
taking it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine, Where
from mpbroker.analysis.engine.mathematics import moments, overtaking
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.mathematics.moments import Moments
from mpbroker.analysis.engine.mathematics.windows import Extent, extent
from mpbroker.analysis.engine.running import phases
from mpbroker.analysis.engine.running.phases import Phase
from mpbroker.trace.record import PURGATORY_TIMEOUT

CONTROL_APIS = (
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "AlterPartition",
    "BrokerHeartbeat",
)
NOT_LEADER, TIMED_OUT = 6, 7
WAITS = ("rx_wait", "read", "parse", "ring_block", "queue")
SLICE_REQUESTS = 1_000_000
MAX_REQUESTS = 20_000_000
MAX_HUNG = 10_000
_WHERE = ("run", "broker")
COLUMNS = (
    *_WHERE,
    "epoch_ns",
    "plane",
    "api",
    "client",
    "client_hash",
    "corr_id",
    "conn_id",
    "topic",
    "error",
    "flags",
    "handler",
    "purg_kind",
    *moments.COLUMNS,
)


@dataclass
class BrokerWaits:
    """Of one broker in one run.

    control         a row per control request, and per request of a client that was named to be looked at like one
    named           how many of them are no control requests: only their client was named
    data, data_*    of data requests, by the time of taking
    hung            produce requests that waited in vain for a leader, at most MAX_HUNG
    phases, variants    the phases of the run, and what each is called beside other runs
    """

    run: str
    broker: int
    control: list[dict[str, Any]] = field(default_factory=list)
    named: int = 0
    data: overtaking.Served = field(default_factory=lambda: overtaking.Served(*(np.empty(0, np.int64),) * 3))
    data_handler: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    data_epoch: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    hung: list[dict[str, Any]] = field(default_factory=list)
    hung_left_out: int = 0
    phases: list[Phase] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)

    def variant_at(self, epoch_ns: Int64s) -> npt.NDArray[Any]:
        """The variant that holds each moment; after a marker "end" none does ("")."""
        place = np.searchsorted([phase.from_ns for phase in self.phases], epoch_ns, side="right") - 1
        ends = np.array([phase.to_ns for phase in self.phases])
        return np.where((place >= 0) & (epoch_ns < ends[place]), np.array([*self.variants], object)[place], "")

    @property
    def data_wait(self) -> Int64s:
        """How long each data request waited."""
        return self.data.dequeued - self.data.arrival


def read(engine: Engine, named_clients: Sequence[str] = ()) -> tuple[list[BrokerWaits], str]:
    """All brokers of all runs with control and data requests, and a sentence about what was left out (or "")."""
    found = extent(engine.activity(0, ()))
    if found is None:
        return [], ""
    hashes, names = _control_clients(engine), set(named_clients)
    brokers: dict[tuple[str, int], BrokerWaits] = {}
    pieces: dict[tuple[str, int], list[npt.NDArray[Any]]] = {}
    upto, left_out = _bound(found)
    for table in _slices(engine, found, upto):
        when, is_control = moments.of(table), _is_control(table, hashes)
        is_named = _is_named(table, names) & ~is_control
        for key, rows in moments.groups(table, _WHERE):
            one = brokers.setdefault(key, BrokerWaits(*key))
            one.named += int(is_named[rows].sum())
            first = is_control | is_named
            one.control += _control_rows(table, when, rows[first[rows]])
            pieces.setdefault(key, []).append(_data_rows(table, when, rows[~first[rows]]))
            _add_hung(one, table, when, rows[~first[rows]])
    for key, one in brokers.items():
        _finish(one, np.concatenate(pieces[key], axis=1))
    found_brokers = [one for _, one in sorted(brokers.items()) if one.control or len(one.data_epoch)]
    _name_variants(engine, found_brokers)
    return found_brokers, left_out


def _bound(found: Extent) -> tuple[int, str]:
    if found.n <= MAX_REQUESTS:
        return found.last_ns + 1, ""
    upto = found.first_ns + int((found.last_ns - found.first_ns) * MAX_REQUESTS / found.n)
    return upto, (
        f"Looked at the first {(upto - found.first_ns) / 1e9:.0f} s, about {MAX_REQUESTS:,} of {found.n:,} requests; "
        "choose another time with --from and --to."
    )


def _slices(engine: Engine, found: Extent, upto: int) -> Iterator[pa.Table]:
    number = -(-min(found.n, MAX_REQUESTS) // SLICE_REQUESTS)
    edges = np.linspace(found.first_ns, upto, number + 1).astype(np.int64)
    edges[0], edges[-1] = found.first_ns, upto
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield engine.requests(COLUMNS, Where(begin, end))


def _control_clients(engine: Engine) -> Int64s:
    seen = engine.requests(["client_hash"], Where(planes=("control",)))["client_hash"]
    return np.unique(np.asarray(seen.to_numpy(), np.int64))


def _is_control(table: pa.Table, hashes: Int64s) -> npt.NDArray[np.bool_]:
    plane = pc.equal(table["plane"], "control").to_numpy()
    api = pc.is_in(table["api"], pa.array(CONTROL_APIS)).to_numpy()
    client = np.isin(table["client_hash"].to_numpy(), hashes[hashes != 0])
    return np.asarray(plane | api | client, np.bool_)


def _is_named(table: pa.Table, names: set[str]) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_in(table["client"], pa.array(sorted(names), pa.string())).to_numpy(), np.bool_)


def _control_rows(table: pa.Table, when: Moments, rows: Int64s) -> list[dict[str, Any]]:
    taken = rows[moments.present(table, "queue_ns")[rows]]
    picked = table.select(
        ["run", "broker", "epoch_ns", "client", "api", "plane", "corr_id", *(f"{one}_ns" for one in WAITS)]
    )
    found: list[dict[str, Any]] = picked.take(taken).to_pylist()
    epoch = _arrival_epoch(table, when)
    for row, place in zip(found, taken.tolist(), strict=True):
        row |= {
            "epoch_ns": int(epoch[place]),
            "arrival": int(when.arrival[place]),
            "dequeued": int(when.dequeued[place]),
            "local_done": int(when.local_done[place]),
        }
    return found


def _data_rows(table: pa.Table, when: Moments, rows: Int64s) -> npt.NDArray[Any]:
    """Rows arrival, dequeued, busy, handler, epoch; of requests that a handler took."""
    taken = rows[moments.present(table, "queue_ns")[rows]]
    handler = table["handler"].fill_null(-1).to_numpy()[taken]
    return np.stack(
        [
            when.arrival[taken],
            when.dequeued[taken],
            when.handled[taken] - when.dequeued[taken],
            handler.astype(np.int64),
            _arrival_epoch(table, when)[taken],
        ]
    )


def _arrival_epoch(table: pa.Table, when: Moments) -> Int64s:
    """Nanoseconds since 1970 of the arrival: a request belongs to the phase in which it was sent."""
    return np.asarray(table["epoch_ns"].to_numpy() - table["t0_ns"].to_numpy() + when.arrival, np.int64)


def _add_hung(one: BrokerWaits, table: pa.Table, when: Moments, rows: Int64s) -> None:
    """Produce requests that left the purgatory with NOT_LEADER_OR_FOLLOWER or by timeout: they waited for a leader in
    vain."""
    error, flags = table["error"].to_numpy()[rows], table["flags"].to_numpy()[rows]
    parked = moments.present(table, "purgatory_ns")[rows] & pc.equal(table["api"], "Produce").to_numpy()[rows]
    hung = rows[parked & (np.isin(error, (NOT_LEADER, TIMED_OUT)) | (flags & PURGATORY_TIMEOUT != 0))]
    one.hung_left_out += max(0, len(one.hung) + len(hung) - MAX_HUNG)
    hung = hung[: max(0, MAX_HUNG - len(one.hung))]
    picked = table.select(["run", "broker", "epoch_ns", "client", "topic", "error", "corr_id", "purgatory_ns"]).take(
        hung
    )
    for row, place in zip(picked.to_pylist(), hung.tolist(), strict=True):
        leave = int(when.purg_leave[place])
        one.hung.append({**row, "purg_enter": leave - row["purgatory_ns"], "purg_leave": leave})


def _finish(one: BrokerWaits, data: npt.NDArray[Any]) -> None:
    """Order the data requests, then give every control request its share of them and of the hung ones."""
    data = data[:, np.argsort(data[1], kind="stable")]
    one.data, one.data_handler, one.data_epoch = overtaking.Served(*data[:3]), data[3], data[4]
    begins, ends, handled = (
        np.array([row[name] for row in one.control], np.int64) for name in ("arrival", "dequeued", "local_done")
    )
    during = overtaking.during(begins, ends, one.data)
    for place, row in enumerate(one.control):
        row |= {
            "wait_ns": row["dequeued"] - row["arrival"],
            "served": int(during.served[place]),
            "hung": 0,
            "hung_ns": 0,
            "served_handler_ns": int(during.busy[place]),
            "overtook": int(during.overtook[place]),
        }
    for row in one.hung:
        first = overtaking.first_overlapping(row["purg_enter"], row["purg_leave"], begins, handled)
        row["control_corr_id"] = None if first is None else one.control[first]["corr_id"]
        if first is not None:
            one.control[first]["hung"] += 1
            one.control[first]["hung_ns"] += row["purgatory_ns"]


def _name_variants(engine: Engine, brokers: Sequence[BrokerWaits]) -> None:
    """A variant is a run where there are several, and a phase where there are markers."""
    labels, several = phases.run_labels(engine.input), len({one.run for one in brokers}) > 1
    for one in brokers:
        epochs = [*(row["epoch_ns"] for row in one.control), *one.data_epoch.tolist()]
        label = labels.get(one.run, one.run[-8:]) if several else ""
        one.phases = phases.phases(engine.input, min(epochs), max(epochs) + 1, one.run)
        one.variants = [_variant(label, phase.name) for phase in one.phases]
        for row in (*one.control, *one.hung):
            row["variant"] = one.variant_at(np.array([row["epoch_ns"]]))[0]


def _variant(label: str, phase: str) -> str:
    return phase if not label else label if phase == phases.ALL else f"{label}, {phase}"
