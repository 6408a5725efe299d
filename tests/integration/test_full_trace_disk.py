"""A trace directory in which nothing can be written: the broker starts and serves; traces go on once it can be."""

from confluent_kafka import Producer

from tests.harness.broker import Broker, wait_until


def produce(broker: Broker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for _ in range(count):
        producer.produce("t", b"v")
    assert producer.flush(15) == 0


def test_a_manifest_that_cannot_be_written_forbids_no_start(tmp_path):
    """As on a full disk: what a start writes first is the manifest's lines for the segments of the last run."""
    broker = Broker(tmp_path)
    traces = broker.data_dir / "traces"
    with broker:
        produce(broker, 20)
    segments = len(list(traces.glob("b*")))
    (traces / "manifest.jsonl").unlink()
    (traces / "manifest.jsonl").mkdir()
    for _ in range(2):
        with broker:
            produce(broker, 20)
            wait_until(lambda: "trace_write_failed" in broker.log(), "the line about the traces")
            assert all(row["restarts"] == 0 for row in broker.status()["processes"])
    with broker:
        produce(broker, 20)
        (traces / "manifest.jsonl").rmdir()
        wait_until(lambda: "trace_writing_again" in broker.log(), "the tracer to begin again", 15)
        produce(broker, 20)
    assert len(list(traces.glob("b*"))) > segments
