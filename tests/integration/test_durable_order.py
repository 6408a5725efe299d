"""What stands on disk before what: a power cut at any moment must find every promise kept. A real broker whose calls to
the disk are recorded."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, RECOVERY_POINT, read_checkpoint
from mpbroker.log.clean_shutdown import MARKER
from tests.harness.broker import wait_until
from tests.harness.disk_calls import Call, DiskCalls, build, last, place
from tests.harness.peer import Peer, batch, create_topic, fetch, produce

STORE = "metadata.db-wal"
FILES = (".log", ".index", ".timeindex")
SMALL = {"log.segment.bytes": 1000, "log.index.interval.bytes": 1}
BATCHES = 6  # two of them fill a segment
ABORTS = 3


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("preload"))


@pytest.fixture
def disk(library, tmp_path):
    return DiskCalls(library, tmp_path)


def _fill(broker):
    with Peer(broker.port()) as peer:
        assert create_topic(peer, "t").error_code == 0
        for _ in range(BATCHES):
            assert produce(peer, "t", batch(b"x" * 300)).error_code == 0


def test_the_directories_of_a_topic_are_on_disk_before_the_store_knows_it(disk, tmp_path):
    with disk.broker(tmp_path) as broker, Peer(broker.port()) as peer:
        for name in ("t", "u"):
            disk.clear()
            assert create_topic(peer, name, 2).error_code == 0
            calls = disk.all()
            made = max(place(calls, "mkdir", f"{name}-{partition}") for partition in range(2))
            written = place(calls, "write", STORE, made)
            assert written < place(calls, "sync", STORE, written), "and the commit is durable before the answer"
            assert made < place(calls, "sync", ".", made) < written


def test_a_clean_stop_says_so_when_everything_else_is_on_disk(disk, tmp_path):
    with disk.broker(tmp_path, **SMALL) as broker:
        _fill(broker)
    calls = disk.all()
    marked = place(calls, "rename", MARKER)
    assert place(calls, "sync", f"{MARKER}.tmp") < marked < place(calls, "sync", ".", marked)
    segments = sorted({call.path for call in calls if call.kind == "write" and call.path.startswith("t-0/0")})
    assert len([path for path in segments if path.endswith(".log")]) == BATCHES // 2
    pointed = last(calls, "rename", RECOVERY_POINT)
    indexes_in_use = {f"t-0/{BATCHES - 2:020d}{suffix}" for suffix in FILES[1:]}  # the next start looks at them
    for path in segments:
        if path.endswith(FILES) and path not in indexes_in_use:
            assert last(calls, "write", path) < last(calls, "sync", path) < pointed < marked, path
    created = last(calls, "create", f"t-0/{BATCHES - 2:020d}.log")
    assert created < place(calls, "sync", "t-0", created) < pointed, "the names of the segments, too"
    for name in (RECOVERY_POINT, HIGH_WATERMARK):
        renamed = last(calls, "rename", name)
        assert last(calls, "sync", f"{name}.tmp") < renamed < place(calls, "sync", ".", renamed) < marked


def test_what_was_aborted_is_on_disk_before_the_log_is_believed(disk, tmp_path):
    """Without the entry in .txnindex, which a clean start does not look for, readers of committed records would get it:
    of a segment that was rolled, and of the one in use."""
    with disk.broker(tmp_path, **SMALL) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t").error_code == 0
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port()}", "transactional.id": "aborts"})
        producer.init_transactions(20)
        for _ in range(ABORTS):
            producer.begin_transaction()
            producer.produce("t", b"x" * 300, partition=0)
            producer.flush(20)
            producer.abort_transaction(20)
    calls = disk.all()
    marked, pointed = place(calls, "rename", MARKER), last(calls, "rename", RECOVERY_POINT)
    paths = {call.path for call in calls if call.path.startswith("t-0/") and call.path.endswith(".txnindex")}
    written = sorted(path for path in paths if any(call == Call("write", path) for call in calls))
    assert len(written) > 1, "one of them of a rolled segment"
    for path in written:
        assert last(calls, "write", path) < last(calls, "sync", path) < pointed < marked, path
        created = last(calls, "create", path)
        assert created < place(calls, "sync", "t-0", created) < pointed, f"the name of {path}, too"


def test_a_marker_is_gone_for_good_before_anything_is_written(disk, tmp_path):
    with disk.broker(tmp_path) as broker:
        _fill(broker)
    disk.clear()
    with disk.broker(tmp_path) as broker, Peer(broker.port()) as peer:
        produce(peer, "t", batch(b"x"))
    calls = [call for call in disk.all() if not call.path.startswith(("traces", ".")) or call.path in (".", MARKER)]
    gone = place(calls, "unlink", MARKER)
    assert calls[gone + 1] == Call("sync", "."), "a marker that came back would have unsynced records believed"
    assert gone < place(calls, "write", f"t-0/{0:020d}.log")


def _crash_with_synced_segments(disk, tmp_path):
    """Two segments of t-0 are below the recovery point when everything is killed."""
    broker = disk.broker(tmp_path, **SMALL | {"log.flush.offset.checkpoint.interval.ms": 100}).start()
    _fill(broker)
    points = broker.data_dir / RECOVERY_POINT
    wait_until(lambda: read_checkpoint(str(points)).get(("t", 0), 0) >= BATCHES - 2, "the checkpoint", 20)
    broker.destroy()
    disk.clear()
    return broker


def test_recovery_syncs_what_nobody_will_look_at_again_and_what_it_cut(disk, tmp_path):
    broker = _crash_with_synced_segments(disk, tmp_path)
    (broker.data_dir / "t-0" / f"{0:020d}.index").unlink()
    active = f"t-0/{BATCHES - 2:020d}.log"
    size = (broker.data_dir / active).stat().st_size
    with open(broker.data_dir / active, "ab") as file:
        file.write(b"no batch")
    with disk.broker(tmp_path, **SMALL) as again, Peer(again.port()) as peer:
        assert fetch(peer, "t", 0).high_watermark == BATCHES
        before = disk.all()
        assert produce(peer, "t", batch(b"x")).base_offset == BATCHES
    for suffix in FILES:
        rebuilt = f"t-0/{0:020d}{suffix}"
        assert place(before, "sync", rebuilt), "the log keeper never syncs below the recovery point"
    written = last(before, "write", f"t-0/{0:020d}.index")
    assert written < place(before, "sync", f"t-0/{0:020d}.index", written)
    aside = f"{active}.{size}.cut"
    kept, cut = place(before, "sync", aside), place(before, "cut", active)
    assert last(before, "write", aside) < kept < cut < place(before, "sync", "t-0", cut)
