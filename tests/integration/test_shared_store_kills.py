"""A SQLite store that several processes share, while they are killed: nothing committed is lost or seen by halves."""

import os
import random
import signal
import time

import pytest

from mpbroker.metadata.meta_store import Committed, Put, StoreTimeout, Version
from mpbroker.metadata.sqlite_shared_store import WAL_IS_SAFE, SharedSqliteStore

pytestmark = pytest.mark.slow
WRITERS, KILLS, COMMITS = 3, 12, 20
LONG = bool(os.environ.get("LONG"))


def _write_for_ever(path, library, told):
    """Count up, with a second key that must always say the same; each success goes through the pipe."""
    store = SharedSqliteStore(path, library=library)
    while True:
        try:
            _, entry = store.get("n")
            number = str(int(entry.value) + 1).encode()
            outcome = store.txn([Version("n", entry.version)], [Put("n", number), Put("same", number)], tag="n")
        except StoreTimeout:
            continue
        if isinstance(outcome, Committed):
            os.write(told, b"%d %d\n" % (outcome.rev, int(number)))


def _fork_writer(path, library, told):
    pid = os.fork()
    if pid == 0:
        try:
            _write_for_ever(path, library, told)
        finally:
            os._exit(1)
    return pid


def _told_so_far(reading):
    try:
        return os.read(reading, 1 << 16)
    except BlockingIOError:
        return b""


def _the_rest(watch):
    """It gives only so many at once, and this machine may have paused for more."""
    return [batch for batches in iter(watch.take, []) for batch in batches]


@pytest.mark.parametrize("journal", ["persist", "wal"])
def test_writers_killed_at_any_moment(tmp_path, journal):
    # With SQLite before 3.51.3 the write-ahead log is not for this; here it is opened by few, who check-point rarely.
    library = WAL_IS_SAFE if journal == "wal" else (3, 40, 1)
    store = SharedSqliteStore(tmp_path / "metadata.db", library=library, history_revisions=200)
    store.txn([], [Put("n", b"0"), Put("same", b"0")], tag="first")
    watch = store.open_watch("", 2)
    reading, told = os.pipe()
    os.set_blocking(reading, False)
    rng, kills = random.Random(7), KILLS * (20 if LONG else 1)
    writers = [_fork_writer(tmp_path / "metadata.db", library, told) for _ in range(WRITERS)]
    seen, said = [], b""
    try:
        for number in range(50 * kills):
            if number >= kills and said.count(b"\n") > COMMITS:
                break  # a slow machine commits less between two kills
            until = time.monotonic() + rng.uniform(0.01, 0.15)
            while time.monotonic() < until:
                seen += watch.take(10)
            said += _told_so_far(reading)
            at = rng.randrange(WRITERS)
            os.kill(writers[at], signal.SIGKILL)
            os.waitpid(writers[at], 0)
            writers[at] = _fork_writer(tmp_path / "metadata.db", library, told)
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    os.close(told)
    while rest := os.read(reading, 1 << 16):
        said += rest
    os.close(reading)
    acknowledged = dict(map(int, line.split()) for line in said.splitlines())
    seen += _the_rest(watch)
    watch.close()
    rev, last = store.get("n")
    assert store.get("same")[1].value == last.value
    assert len(acknowledged) > COMMITS
    assert [batch.rev for batch in seen] == list(range(2, rev + 1))
    values = {batch.rev: {int(event.entry.value) for event in batch.events} for batch in seen}
    assert all(values[at] == {number} for at, number in acknowledged.items())
    assert [values[at] for at in sorted(values)] == [{number} for number in range(1, int(last.value) + 1)]
    store.verify()
    store.close()
