"""A data directory that something else has been at: one sentence and exit code 2, or a log that is repaired and says
so."""

import subprocess

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, fetched, produce_request, produced, records_in

BATCHES = 5


@pytest.fixture
def broker(tmp_path):
    """A stopped broker whose topic t has five batches of one record."""
    stopped = Broker(tmp_path)
    with stopped as running:
        with connect(running.bootstrap) as client:
            create_topic(client, "t", 1, {})
        with RawConnection(running.port()) as connection:
            for n in range(BATCHES):
                _, body = connection.ask(produce_request(n, "t", 0, batch([b"%d" % n])))
                assert produced(body) == (0, n)
    return stopped


def _refused(broker):
    found = subprocess.run(broker.command(), capture_output=True, text=True, timeout=30)
    assert found.stdout == "" and "Traceback" not in found.stderr
    return found.returncode, found.stderr


def _values(broker):
    with RawConnection(broker.port()) as connection:
        _, body = connection.ask(fetch_request(9, "t", 0, 0))
        return [value for _, value in records_in(fetched(body).records)]


def test_damage_after_a_clean_stop_is_kept_for_the_consumer_to_find(broker):
    """As in Kafka: what was synced is not given up for a wrong checksum."""
    segment = broker.data_dir / "t-0" / f"{0:020d}.log"
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    with broker:
        line = next(line for line in broker.log().splitlines() if "log_cut" in line)
        assert "(offset 4); kept" in line and segment.read_bytes() == bytes(damaged)
        with pytest.raises(AssertionError, match="a damaged batch at offset 4 was served"):
            _values(broker)
        with RawConnection(broker.port()) as connection:
            assert produced(connection.ask(produce_request(1, "t", 0, batch([b"new"])))[1]) == (0, 5)


def test_a_damaged_last_batch_is_cut_with_a_line_that_says_so(broker):
    segment = broker.data_dir / "t-0" / f"{0:020d}.log"
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (broker.data_dir / ".kafka_cleanshutdown").unlink()
    with broker:
        assert _values(broker) == [b"0", b"1", b"2", b"3"]
        line = next(line for line in broker.log().splitlines() if "log_cut" in line)
        cut_to = len(content) * (BATCHES - 1) // BATCHES
        assert f"t-0/{0:020d}.log: cut from {len(content)} to {cut_to} bytes (offset 4)" in line
        with RawConnection(broker.port()) as connection:
            assert produced(connection.ask(produce_request(1, "t", 0, batch([b"new"])))[1]) == (0, 4)


def test_indexes_are_made_again_from_the_log(broker):
    for suffix in ("index", "timeindex"):
        (broker.data_dir / "t-0" / f"{0:020d}.{suffix}").write_bytes(b"no index")
    with broker:
        assert _values(broker) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_metadata_store_that_is_none_stops_the_start(broker):
    for name in ("metadata.db-wal", "metadata.db-shm"):
        (broker.data_dir / name).unlink(missing_ok=True)
    (broker.data_dir / "metadata.db").write_bytes(b"no database" * 1000)
    code, told = _refused(broker)
    assert code == 2
    assert f"{broker.data_dir}/metadata.db cannot be read as a metadata store" in told
    assert "Nothing was changed" in told and "worker_died" not in told


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "version is missing; it must be 0 or 1"),
        ("garbage", "version is missing; it must be 0 or 1"),
        ("version=1\nnode.id=x\ncluster.id=c\n", "node.id=x must be the number of the node, 0 to 2147483647"),
    ],
)
def test_meta_properties_without_an_identity_stop_the_start(broker, content, sentence):
    (broker.data_dir / "meta.properties").write_text(content)
    code, told = _refused(broker)
    assert code == 2
    assert told.splitlines()[-1] == (
        f"mpbroker: {broker.data_dir}/meta.properties: {sentence}; correct that line, or put a copy of the file back"
    )


def test_what_a_clean_stop_would_not_leave_is_repaired_with_one_line_each(broker):
    for suffix in ("index", "timeindex"):
        (broker.data_dir / "t-0" / f"{0:020d}.{suffix}").write_bytes(b"no index")
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (broker.data_dir / name).write_bytes(b"no checkpoint")
    told_before = len(broker.log())
    with broker:
        assert _values(broker) == [b"0", b"1", b"2", b"3", b"4"]
        told = broker.log()[told_before:]
    assert told.count("checkpoint_not_understood") == 2
    assert told.count("indexes_rebuilt") == 1 and f"t-0/{0:020d}.index" in told


def test_a_stop_that_cannot_write_everything_down_is_no_success(tmp_path):
    broker = Broker(tmp_path).start()
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", 1, {})
    with RawConnection(broker.port()) as connection:
        assert produced(connection.ask(produce_request(1, "t", 0, batch([b"a"])))[1]) == (0, 0)
    (broker.data_dir / "t-0" / f"{1:020d}.snapshot.tmp").mkdir()  # as good as a full disk
    assert broker.stop(check=False) == 1
    broker.assert_nothing_left()
    told = broker.log()
    assert told.count("not_stopped_cleanly") == 1 + told.count("data_not_stopped_cleanly") == 2
    assert 'why="a producer snapshot could not be written"' in told
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
