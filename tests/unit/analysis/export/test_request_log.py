"""A line per request in the form of Kafka's request log, with the model's times."""

import gzip
import json
import re

import pytest

from mpbroker.analysis.export import request_log
from mpbroker.trace import manifest, record, segment
from tests.harness.event_model import Scenario
from tests.harness.golden_trace import golden

LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] DEBUG Completed request:(\{.*\}) \(kafka\.request\.logger\)\n"
)


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    place = tmp_path_factory.mktemp("log")
    with golden(place / "traces", Scenario(duration_ms=900, rate=150, service_ms=5)) as (engine, _):
        written = request_log.export(engine, place / "kafka-request.log")
        cut = request_log.export(engine, place / "cut.log.gz", most=10)
    records = [
        record.unpack(chunk, at)
        for info in manifest.segments(place / "traces")
        for chunk in segment.read_chunks(info)
        for at in range(0, len(chunk), 128)
    ]
    lines = (place / "kafka-request.log").read_text().splitlines(keepends=True)
    return lines, [one for one in records if one.kind == record.REQUEST], written, cut, place


def test_every_request_has_a_line_of_kafkas_form(logged):
    lines, records, written, _, _ = logged
    found = [json.loads(LINE.fullmatch(line)[1]) for line in lines]
    assert len(found) == len(records) and written.what == f"{len(records):,} requests"
    assert sorted(one["requestHeader"]["correlationId"] for one in found) == sorted(one.corr_id for one in records)
    kafkas = ["isForwarded", "requestHeader", "request", "response", "connection", "totalTimeMs", "requestQueueTimeMs",
              "localTimeMs", "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs", "securityProtocol",
              "principal", "listener", "clientInformation"]  # fmt: skip
    assert {tuple(one) for one in found} == {tuple(kafkas)}


def _ms(one, begin, end):
    ticks = [one.stage[record.STAGES.index(name)] for name in (begin, end)]
    return 0.0 if record.NOT_REACHED in ticks else ((ticks[1] - ticks[0]) * 64 // 1000) / 1000


def test_its_times_are_kafkas_parts_of_the_total(logged):
    lines, records, *_ = logged
    by_id = {(one.conn_id, one.corr_id): one for one in records}
    checked = 0
    for line in lines:
        said = json.loads(LINE.fullmatch(line)[1])
        one = by_id[int(said["connection"].rpartition("-")[2]), said["requestHeader"]["correlationId"]]
        assert said["requestHeader"]["requestApiKey"] == one.api_key
        assert said["totalTimeMs"] == _ms(one, "frame_done", "send_done")
        assert said["requestQueueTimeMs"] == _ms(one, "frame_done", "dequeued")
        assert said["localTimeMs"] == _ms(one, "dequeued", "local_done")
        assert said["remoteTimeMs"] == _ms(one, "purg_enter", "purg_leave")
        assert said["responseQueueTimeMs"] == _ms(one, "resp_enq", "resp_deq")
        assert said["sendTimeMs"] == _ms(one, "resp_deq", "send_done")
        assert said["response"]["errorCode"] == one.error
        checked += said["totalTimeMs"] > 0
    assert checked > 100


def test_lines_stand_in_the_order_requests_came_and_what_is_cut_is_said(logged):
    _, records, _, cut, place = logged
    kept = gzip.decompress((place / "cut.log.gz").read_bytes()).decode().splitlines(keepends=True)
    ids = [json.loads(LINE.fullmatch(line)[1])["requestHeader"]["correlationId"] for line in kept]
    assert ids == [one.corr_id for one in sorted(records, key=lambda one: one.t0_ns)[:10]]
    assert cut.what == "10 requests" and "Cut after the first 10 requests" in cut.sentences[0]


@pytest.mark.parametrize(
    "api, constant",
    [("Produce", "PRODUCE"), ("ListOffsets", "LIST_OFFSETS"), ("AddPartitionsToTxn", "ADD_PARTITIONS_TO_TXN"),
     ("LeaderAndIsr", "LEADER_AND_ISR"), ("InitProducerId", "INIT_PRODUCER_ID"), ("ApiVersions", "API_VERSIONS")],
)  # fmt: skip
def test_apis_are_named_as_kafkas_constants(api, constant):
    assert request_log.key_name(api) == constant
