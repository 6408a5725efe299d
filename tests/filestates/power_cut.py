"""The power fails after any call to the disk: `python -m tests.filestates.power_cut`, a part of `make filestates`.

Real brokers create topics, roll segments, checkpoint, stop cleanly, cut a torn tail, delete a topic; every call is
recorded with what it wrote. Each prefix of the record is replayed into a directory, in the worst cases of what was not
synced and one by chance, and a start on it has to keep every promise that had been given by then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from mpbroker.log.checkpoint_file import RECOVERY_POINT, read_checkpoint
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.record.batch_builder import encode_batch
from tests.filestates.bases import EAGER, SETTINGS, walk
from tests.filestates.started import InProcess, Refused, started_here
from tests.harness.broker import Broker, wait_until
from tests.harness.disk_calls import DiskCalls, build
from tests.harness.disk_replay import CASES, Disk, Left, calls, put
from tests.harness.peer import Peer, create_topic, produce

COMMIT = {"mpbroker.log.flush": "commit"}
SHARED_MEMORY = Path("/dev/shm")


class Cut(NamedTuple):
    """A power cut behind the call at `position`, in one of the cases; what was promised and acknowledged then."""

    position: int
    case: str
    left: dict[str, Left | None]
    promised: frozenset[str]
    acknowledged: frozenset[str]


class Session:
    """Brokers one after another on one data directory, and what they promised, in the record beside their calls."""

    def __init__(self, directory: Path, *, commit: bool) -> None:
        self.directory = directory
        self._commit = commit
        directory.mkdir()
        self._calls = DiskCalls(build(directory), directory, data=True)
        self._acknowledged: list[str] = []
        self._number = 0
        self.begun_ns = time.time_ns() - 3600 * 10**9

    def start(self) -> Broker:
        """A broker whose calls are recorded."""
        return self._calls.broker(self.directory, **SETTINGS, **EAGER, **(COMMIT if self._commit else {})).start()

    def create(self, peer: Peer, topic: str, partitions: int) -> None:
        """A topic that has to be there from now on."""
        assert create_topic(peer, topic, partitions).error_code == 0
        self._note("promise", *(f"+{topic}-{partition}" for partition in range(partitions)))

    def delete(self, peer: Peer, topic: str) -> None:
        """A topic that may be gone from the request on, and must be from the answer on."""
        self._note("promise", f"~{topic}-0")
        answer = peer.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
        assert answer.responses[0].error_code == 0
        self._note("promise", f"-{topic}-0")

    def write(self, peer: Peer, directory: str, count: int) -> None:
        """Batches of one record; promised at once where each is synced before its acknowledgement."""
        topic, _, partition = directory.rpartition("-")
        for _ in range(count):
            self._number += 1
            value = b"%d/" % self._number + bytes(150)
            batch = encode_batch([(None, value, time.time_ns() // 1_000_000)])
            answer = produce(peer, topic, batch, int(partition))
            assert answer.error_code == 0, answer
            said = f"{directory}@{answer.base_offset}={self._number}"
            self._acknowledged.append(said)
            self._note("promise" if self._commit else "acknowledged", said)

    def tear(self, file: str, tail: bytes) -> None:
        """Half a batch behind a log, as a machine that went down leaves it; it is synced."""
        path = self.directory / "data" / file
        with open(path, "r+b") as log:
            at = log.seek(0, 2)
            log.write(tail)
        line = f"pwrite\t{path}\t\t{at}\t{len(tail)}\n".encode()
        with open(self._calls.record, "ab") as record:
            record.write(line + tail)
            record.write(f"fsync\t{path}\t\t{record.tell()}\t0\n".encode())

    def stop(self, broker: Broker) -> None:
        """A clean stop: whatever was acknowledged is promised."""
        broker.stop()
        self._note("promise", *self._acknowledged)

    def _note(self, kind: str, *said: str) -> None:
        with open(self._calls.record, "ab") as record:
            record.write(f"{kind}\t{' '.join(said)}\t\t0\t0\n".encode())

    @property
    def record(self) -> bytes:
        """Every call so far."""
        return self._calls.record.read_bytes()

    def cuts(self) -> Iterator[Cut]:
        """Every power cut that leaves something new."""
        disk, promised, acknowledged = Disk(), set[str](), set[str]()
        before: dict[str, object] = {}
        for position, call in calls(self.record, str(self.directory / "data")):
            if call.kind in ("promise", "acknowledged"):
                acknowledged |= set(call.path.split())
                promised |= set(call.path.split()) if call.kind == "promise" else set()
                continue
            disk.apply(position, call)
            for case in CASES:
                left = disk.left(case, Random(position))
                now = ({name: file.data if file else None for name, file in left.items()}, len(promised))
                if before.get(case) != now:
                    before[case] = now
                    yield Cut(position, case, left, frozenset(promised), frozenset(acknowledged))


def record_synced(directory: Path) -> Session:
    """Acknowledgements that wait for the disk."""
    session = Session(directory, commit=True)
    broker = session.start()
    with Peer(broker.port()) as peer:
        session.create(peer, "t", 2)
        session.write(peer, "t-0", 14)
        session.create(peer, "u", 1)
        session.write(peer, "u-0", 2)
        session.write(peer, "t-1", 2)
        session.delete(peer, "u")
    session.stop(broker)
    broker = session.start()
    with Peer(broker.port()) as peer:
        session.write(peer, "t-0", 3)
    broker.destroy()
    return session


def record_unsynced(directory: Path) -> Session:
    """Acknowledgements before the disk; a torn tail that recovery sets aside; a clean stop."""
    session = Session(directory, commit=False)
    broker = session.start()
    with Peer(broker.port()) as peer:
        session.create(peer, "t", 2)
        session.write(peer, "t-0", 14)
        session.write(peer, "t-1", 3)
        points = broker.data_dir / RECOVERY_POINT
        wait_until(lambda: read_checkpoint(str(points)).get(("t", 0), 0) > 0, "a checkpoint", 20)
    broker.destroy()
    active = max((broker.data_dir / "t-0").glob("*.log"))
    session.tear(f"t-0/{active.name}", b"half a batch")
    broker = session.start()
    with Peer(broker.port()) as peer:
        session.write(peer, "t-0", 8)
    session.stop(broker)
    broker = session.start()
    with Peer(broker.port()) as peer:
        session.write(peer, "t-0", 2)
    broker.destroy()
    return session


RECORDINGS: tuple[Callable[[Path], Session], ...] = (record_synced, record_unsynced)


def broken(cut: Cut, path: Path, begun_ns: int) -> list[str]:
    """Promises that a start after the power cut does not keep."""
    put(cut.left, path, begun_ns)
    try:
        with started_here(path, clean_stop=False) as running:
            shown = running.partitions()
            wanted = cut.acknowledged if cut.case == "everything" else cut.promised
            gone = {one[1:] for one in wanted if one.startswith("~")}
            return [said for one in sorted(wanted) if (said := _broken(running, shown, one, gone))]
    except Refused as error:
        return [f"the start was refused: {error}"]
    except Exception as error:
        return [f"the start failed: {error!r}"]


def _broken(running: InProcess, shown: dict[str, bool], promise: str, gone: set[str]) -> str:
    if promise.startswith("-"):
        return f"{promise[1:]} is still there" if promise[1:] in shown else ""
    directory, _, rest = promise.lstrip("+~").partition("@")
    if directory in gone:
        return ""
    if not shown.get(directory):
        return f"{directory} is offline or not there"
    if not rest:
        return ""
    offset, _, number = rest.partition("=")
    found = walk(running.read(directory, int(offset)).data)
    if not found or found[0].first != int(offset) or b"%s/" % number.encode() not in found[0].data:
        return f"{directory}: offset {offset} does not hold record {number}"
    return ""


def run(directory: Path, sample: int | None, seed: int) -> tuple[int, list[str]]:
    """Try all power cuts of all recordings, or a sample of each; (how many, what went wrong)."""
    tried, wrong = 0, []
    for record in RECORDINGS:
        session = record(directory / record.__name__)
        cuts = list(session.cuts())
        chosen = cuts if sample is None else Random(seed).sample(cuts, min(sample, len(cuts)))
        for number, cut in enumerate(chosen):
            with tempfile.TemporaryDirectory(dir=directory) as place:
                found = broken(cut, Path(place) / "data", session.begun_ns)
            wrong += [f"{record.__name__}, cut at {cut.position}, {cut.case}: {one}" for one in found[:3]]
            if number % 500 == 499:
                print(f"{number + 1} of {len(chosen)} power cuts", file=sys.stderr, flush=True)
        tried += len(chosen)
    return tried, wrong


def main() -> int:
    """All of them, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="so many of each recording; without it, all")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="power-cut-", dir=SHARED_MEMORY) as directory:
        tried, wrong = run(Path(directory), arguments.sample, arguments.seed)
    print("\n".join(wrong))
    print(f"{tried} power cuts in {time.monotonic() - begun:.0f} s; {len(wrong)} promises broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
