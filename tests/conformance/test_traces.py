"""Every request leaves a record, and the record says what it was and who did it."""

from mpbroker.trace import manifest, segment, statistics
from mpbroker.trace.record import RECORD_BYTES, REQUEST, TraceRecord, unpack
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, fetch, fetch_request, produce

PRODUCE, FETCH = 0, 1
REQUESTS = 30


def _records(broker: Broker) -> list[TraceRecord]:
    found = []
    for info in manifest.segments(broker.data_dir / "traces", complaints=[]):
        for chunk in segment.read_chunks(info):
            found += [unpack(chunk, at) for at in range(0, len(chunk), RECORD_BYTES)]
    return [record for record in found if record.kind == REQUEST]


def test_every_request_is_a_record_that_names_what_it_was(tmp_path):
    with Broker(tmp_path, overrides={"num.network.threads": 2, "num.io.threads": 2}) as broker:
        with Peer(broker.port(), client_id="traced") as peer, Peer(broker.port()) as other:
            assert create_topic(peer, "t").error_code == 0
            for _ in range(REQUESTS):
                produce(peer, "t", batch(b"x"))
            fetch(other, "t")
            fetch(other, "t", partition=9)
            other.ask(fetch_request("t", {0: REQUESTS}, max_wait_ms=50), 11)
        wait_until(
            lambda: (
                sum(record.api_key == FETCH for record in _records(broker)) == 3
                and sum(record.api_key == PRODUCE for record in _records(broker)) == REQUESTS
            ),
            "the tracer to write the records",
        )
        records = _records(broker)
    produced = [record for record in records if record.api_key == PRODUCE]
    assert [record.corr_id for record in sorted(produced, key=lambda record: record.t0_ns)] == list(
        range(2, REQUESTS + 2)
    )
    assert {
        (record.api_version, record.error, record.flags & 3, record.nparts, record.plane, record.listener)
        for record in produced
    } == {(7, 0, 1, 1, 0, 0)}
    assert len({(record.conn_id, record.client_hash, record.proc_id) for record in produced}) == 1
    assert all(record.handler_id in (0, 1) and record.req_bytes > 60 and record.resp_bytes > 30 for record in produced)
    fetched = sorted((record for record in records if record.api_key == FETCH), key=lambda record: record.t0_ns)
    assert [record.error for record in fetched] == [0, 3, 0]
    assert fetched[2].purg_kind and not fetched[0].purg_kind
    assert fetched[0].conn_id != produced[0].conn_id


def test_finished_requests_are_records_dropped_or_sampled_out(tmp_path):
    with Broker(tmp_path, overrides={"num.network.threads": 1, "num.io.threads": 1}) as broker:
        with Peer(broker.port()) as peer:
            for _ in range(REQUESTS):
                assert peer.answers()
        with Peer(broker.port()) as leaving:
            leaving.send(fetch_request("none", {}, max_wait_ms=0), 11)
        assert broker.stop() == 0
        result = statistics.collect(manifest.segments(broker.data_dir / "traces", complaints=[]))
    assert result.finished == result.records + result.dropped + result.sampled_out
    assert result.finished >= REQUESTS + 1
