"""The MetaStore in an etcd cluster (3.5 or later), for brokers of several machines. Opened by each broker's agent, and
by its cluster controller; speaks the JSON gateway with the standard library alone.

etcd's revisions, versions and leases are the interface's: a session is a lease, a transaction is one of etcd's, with
the entries of all checked keys as its other branch. Reads are linearizable. A transaction whose answer is lost is
Unknown: the caller re-reads.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mpbroker.metadata.etcd_gateway import EndPoint, EtcdGateway, EtcdRefused, OutcomeUnknown, encode, entry_of
from mpbroker.metadata.etcd_watch import EtcdWatch
from mpbroker.metadata.meta_store import (
    WATCH_MS,
    Absent,
    Batch,
    Check,
    Committed,
    Compacted,
    Conflict,
    Delete,
    DeletePrefix,
    Entry,
    Health,
    Limits,
    ModRev,
    Op,
    Page,
    Progress,
    Put,
    Session,
    StoreError,
    StoreTimeout,
    Unknown,
    Value,
    Version,
    check_request,
    prefix_end,
)

MAX_OPS: Final = 128  # --max-txn-ops
MAX_BYTES: Final = 1 << 20  # of the 1.5 MiB of --max-request-bytes
OLDEST: Final = (3, 5)
_KV, _LEASE = "/v3/kv", "/v3/lease"


class EtcdStore:
    """A ClusterStore. `timeout_ms` bounds every call."""

    def __init__(self, end_points: Iterable[EndPoint], *, timeout_ms: int = 5000) -> None:
        self.limits = Limits(MAX_OPS, MAX_BYTES)
        self._pid = os.getpid()
        self._gateway = EtcdGateway(end_points, timeout_ms)
        self._refuse_old()

    def _refuse_old(self) -> None:
        version = self.health().version
        numbers = version.split(".")
        if not (len(numbers) > 1 and numbers[0].isdigit() and numbers[1].isdigit()):
            raise StoreError(f"{self._gateway.end_point.address} does not say which version of etcd it is: {version!r}")
        if (int(numbers[0]), int(numbers[1])) < OLDEST:
            raise StoreError(f"etcd {version} at {self._gateway.end_point.address} is too old: use 3.5 or later")

    def _own(self) -> EtcdGateway:
        if os.getpid() != self._pid:
            raise StoreError("a MetaStore must be opened by the process that uses it")
        return self._gateway

    # ---- reading

    def revision(self) -> int:
        """Revision of the last change; linearizable."""
        return self._range({"key": encode("\0"), "count_only": True})[0]

    def get(self, key: str) -> tuple[int, Entry | None]:
        """(store revision, entry or None); linearizable."""
        rev, entries, _ = self._range({"key": encode(key)})
        return rev, entries[0] if entries else None

    def scan(self, prefix: str, *, at: int | None = None, page: int = 5000) -> Iterator[Page]:
        """All entries below a prefix in key order, all at one revision. Compacted."""
        key, end = bounds(prefix)
        while True:
            request: dict[str, Any] = {"key": encode(key), "range_end": encode(end), "limit": page}
            if at is not None:
                request["revision"] = at
            rev, entries, more = self._range(request)
            at = rev if at is None else at
            yield Page(at, tuple(entries))
            if not more or not entries:
                return
            key = entries[-1].key + "\0"

    def _range(self, request: dict[str, Any]) -> tuple[int, list[Entry], bool]:
        try:
            answer = self._own().read(f"{_KV}/range", request)
        except EtcdRefused as error:
            if error.out_of_range:
                raise Compacted(self.revision()) from error
            raise
        return _revision(answer), [entry_of(kv) for kv in answer.get("kvs", ())], bool(answer.get("more"))

    # ---- writing

    def txn(self, checks: Sequence[Check], ops: Sequence[Op], *, tag: str) -> Committed | Conflict | Unknown:
        """Apply all ops if all checks hold."""
        gateway = self._own()
        check_request(self.limits, checks, ops)
        request = {
            "compare": [_compare(check) for check in checks],
            "success": [_operation(op) for op in ops],
            "failure": [{"request_range": {"key": encode(check.key)}} for check in checks],
        }
        try:
            answer = gateway.write(f"{_KV}/txn", request)
        except OutcomeUnknown:
            return Unknown(tag)
        except EtcdRefused as error:
            if error.not_found:
                raise StoreError(f"{tag}: a session has ended ({error})") from error
            raise
        if answer.get("succeeded"):
            return Committed(_revision(answer))
        found = [one.get("response_range", {}).get("kvs", ()) for one in answer.get("responses", ())]
        return Conflict(tuple(entry_of(kvs[0]) if kvs else None for kvs in found))

    # ---- watching

    def open_watch(self, prefix: str, start_rev: int) -> EtcdWatch:
        """Changes from `start_rev` on, as a stream."""
        key, end = bounds(prefix)
        return EtcdWatch(self._own(), key, end, start_rev)

    def watch(self, prefix: str, start_rev: int) -> Iterator[Batch | Progress]:
        """Changes from `start_rev` on; Progress after each wait without any."""
        watch = self.open_watch(prefix, start_rev)
        try:
            while True:
                batches = watch.take(WATCH_MS)
                yield from batches
                if not batches:
                    yield Progress(watch.rev)
        finally:
            watch.close()

    # ---- sessions

    def session_open(self, ttl_ms: int, owner: str) -> Session:
        """A lease; one whose grant was lost ends by itself."""
        try:
            answer = self._own().write(f"{_LEASE}/grant", {"TTL": -(-ttl_ms // 1000)})
        except OutcomeUnknown as error:
            raise StoreTimeout(f"no lease for {owner}: {error}") from error
        return Session(int(answer["ID"]), owner, ttl_ms)

    def session_find(self, session_id: int) -> Session | None:
        """A lease that lives. etcd does not know whose it is."""
        answer = self._own().read(f"{_LEASE}/timetolive", {"ID": str(session_id)})
        alive = int(answer.get("TTL", -1)) > 0
        return Session(session_id, "", 1000 * int(answer.get("grantedTTL", 0))) if alive else None

    def session_renew(self, session: Session) -> bool:
        """Keep it alive; False: it has ended and its keys are gone."""
        answer = self._own().read(f"{_LEASE}/keepalive", {"ID": str(session.id)})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    def session_close(self, session: Session) -> None:
        """End it now: its keys disappear in one transaction."""
        try:
            self._own().read(f"{_LEASE}/revoke", {"ID": str(session.id)})
        except EtcdRefused as error:
            if not error.not_found:
                raise

    def health(self) -> Health:
        """What the member that is asked first says of itself."""
        answer = self._own().read("/v3/maintenance/status", {})
        member = answer.get("header", {}).get("member_id", "")
        lag = int(answer.get("raftIndex", 0)) - int(answer.get("raftAppliedIndex", answer.get("raftIndex", 0)))
        return Health(f"etcd {member}", int(answer.get("raftTerm", 0)), str(answer.get("version", "")), max(0, lag))

    def close(self) -> None:
        """Close connections; sessions end when nobody renews them."""
        if os.getpid() == self._pid:
            self._gateway.close()


def bounds(prefix: str) -> tuple[str, str]:
    """First key of a range and the one behind it, as etcd has them."""
    return (prefix, prefix_end(prefix)) if prefix else ("\0", "\0")


def _revision(answer: dict[str, Any]) -> int:
    return int(answer.get("header", {}).get("revision", 0))


def _compare(check: Check) -> dict[str, Any]:
    key = {"key": encode(check.key), "result": "EQUAL"}
    match check:
        case Absent():
            return key | {"target": "VERSION", "version": "0"}
        case Version(_, version):
            return key | {"target": "VERSION", "version": str(version)}
        case ModRev(_, mod_rev):
            return key | {"target": "MOD", "mod_revision": str(mod_rev)}
        case Value(_, value):
            return key | {"target": "VALUE", "value": encode(value)}


def _operation(op: Op) -> dict[str, Any]:
    match op:
        case Put(key, value, session):
            put = {"key": encode(key), "value": encode(value)}
            return {"request_put": put if session is None else put | {"lease": str(session)}}
        case Delete(key):
            return {"request_delete_range": {"key": encode(key)}}
        case DeletePrefix(prefix):
            key, end = bounds(prefix)
            return {"request_delete_range": {"key": encode(key), "range_end": encode(end)}}
