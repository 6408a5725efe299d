"""OpenTelemetry's own messages read what is exported, from a file and at a collector."""

import base64
import gzip
import json
import math
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.export import otlp, otlp_send
from tests.harness.event_model import Scenario
from tests.harness.golden_trace import golden

SCENARIO = Scenario(duration_ms=1200, rate=150, service_ms=5)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with golden(tmp_path_factory.mktemp("otlp") / "traces", SCENARIO) as (engine, _):
        yield engine


@pytest.fixture(scope="module")
def rows(engine):
    return engine.requests((*otlp.SPAN_COLUMNS, "active_total_ns"), Where(order="epoch_ns")).to_pylist()


def _protobuf(line, kind):
    """OTLP's JSON writes ids in hexadecimal where protobuf's own has base64; everything else is protobuf's."""

    def fixed(value):
        if isinstance(value, dict):
            return {name: base64.b64encode(bytes.fromhex(one)).decode()
                    if name in ("traceId", "spanId", "parentSpanId") else fixed(one)
                    for name, one in value.items()}  # fmt: skip
        return [fixed(one) for one in value] if isinstance(value, list) else value

    return json_format.ParseDict(fixed(json.loads(line)), kind())


def _spans(path):
    messages = [_protobuf(line, ExportTraceServiceRequest) for line in path.read_text().splitlines()]
    return [span for message in messages for one in message.resource_spans
            for scope in one.scope_spans for span in scope.spans]  # fmt: skip


def test_a_request_is_a_span_with_its_stages_below(engine, rows, tmp_path):
    written = otlp_send.export_spans(engine, tmp_path / "spans.jsonl", None)
    spans = _spans(tmp_path / "spans.jsonl")
    whole = [span for span in spans if not span.parent_span_id]
    assert len(whole) == len(rows) and written.what == f"{len(rows)} requests as spans"
    assert Counter(span.name for span in whole) == Counter(row["api"] for row in rows)
    assert len({span.trace_id for span in whole}) == len(whole) == len({span.span_id for span in whole})
    by_id = {span.span_id: span for span in whole}
    parts = Counter()
    for span in spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            parts[span.parent_span_id] += span.end_time_unix_nano - span.start_time_unix_nano
            assert span.trace_id == parent.trace_id and span.kind == Span.SPAN_KIND_INTERNAL
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano
    assert all(span.kind == Span.SPAN_KIND_SERVER for span in whole)
    lengths = [span.end_time_unix_nano - span.start_time_unix_nano for span in whole]
    assert sum(lengths) == sum(row["total_ns"] + (row["rx_wait_ns"] or 0) for row in rows)
    assert 0.98 * sum(lengths) < sum(parts.values()) <= sum(lengths)


def test_a_request_that_failed_is_an_error(engine, rows, tmp_path):
    failing = [dict(rows[0], error=6), dict(rows[1], error=0)]
    first, second = (
        json.loads(json.dumps(spans[0]))
        for spans in (message["resourceSpans"][0]["scopeSpans"][0]["spans"] for message in
                      (next(otlp.span_messages([row])) for row in failing))
    )  # fmt: skip
    assert first["status"] == {"code": 2, "message": "NOT_LEADER_OR_FOLLOWER"} and "status" not in second
    assert {"key": "kafka.error_code", "value": {"intValue": "6"}} in first["attributes"]


def test_messages_are_of_one_broker_and_bounded(rows):
    many = [dict(row, broker=number % 3) for number, row in enumerate(rows * 3)]
    messages = list(otlp.span_messages(many))
    brokers = Counter()
    for message in messages:
        (resource,) = message["resourceSpans"]
        spans = resource["scopeSpans"][0]["spans"]
        whole = [span for span in spans if "parentSpanId" not in span]
        assert len(whole) <= otlp.REQUESTS_A_MESSAGE
        brokers[resource["resource"]["attributes"][1]["value"]["stringValue"]] += len(whole)
    assert brokers == {"0": len(rows), "1": len(rows), "2": len(rows)}


def test_histograms_hold_every_request_in_the_bucket_of_its_latency(engine, rows, tmp_path):
    otlp_send.export_histograms(engine, tmp_path / "m.jsonl", None, 60_000)
    points = [
        point
        for line in (tmp_path / "m.jsonl").read_text().splitlines()
        for metric in _protobuf(line, ExportMetricsServiceRequest).resource_metrics[0].scope_metrics[0].metrics
        for point in metric.exponential_histogram.data_points
    ]
    for api in {row["api"] for row in rows}:
        named = {"api": api, "stage": "latency"}
        mine = [p for p in points if {a.key: a.value.string_value for a in p.attributes} == named]
        exact = [row["active_total_ns"] for row in rows if row["api"] == api]
        assert sum(point.count for point in mine) == len(exact)
        assert sum(point.sum for point in mine) == sum(exact) and max(point.max for point in mine) == max(exact)
        held, base = Counter(), 2 ** (2 ** -mine[0].scale)
        for point in mine:
            for number, count in enumerate(point.positive.bucket_counts):
                held[point.positive.offset + number] += count
        want = Counter(math.ceil(math.log(ns + 1, base) - 1e-9) - 1 for ns in exact)
        off = sum((held - want).values())  # on a boundary OTLP's bucket is the one below
        assert off <= len(exact) // 50 and sum(held.values()) == len(exact)


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.end_headers()
        self.wfile.write(b"these are its words")

    def log_message(self, *_):
        pass


@pytest.fixture
def collector(monkeypatch):
    monkeypatch.setattr(otlp_send.time, "sleep", lambda _: None)
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    server.asked, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collector_gets_the_same_and_is_asked_again_when_it_is_busy(engine, collector, tmp_path):
    collector.answers += [503, 429]
    url = f"http://127.0.0.1:{collector.server_port}/"
    written = otlp_send.export_spans(engine, None, url)
    otlp_send.export_spans(engine, tmp_path / "spans.jsonl", None)
    assert {asked[:2] for asked in collector.asked} == {("/v1/traces", "application/json")}
    bodies = [body.decode() for _, _, body in collector.asked]
    assert bodies[0] == bodies[1] == bodies[2] and bodies[2:] == (tmp_path / "spans.jsonl").read_text().splitlines()
    assert written.path == f"{url}v1/traces"


@pytest.mark.parametrize("answers, tries", [([400], 1), ([503] * 9, otlp_send.TRIES)])
def test_a_refusal_ends_it_with_the_collectors_words(engine, collector, answers, tries):
    collector.answers += answers
    with pytest.raises(otlp_send.CollectorRefused, match=f"answered {answers[0]}: these are its words"):
        otlp_send.export_histograms(engine, None, f"http://127.0.0.1:{collector.server_port}", 60_000)
    assert len(collector.asked) == tries


def test_nobody_there_is_one_sentence(engine):
    with pytest.raises(otlp_send.CollectorRefused, match="cannot be reached"):
        otlp_send.export_spans(engine, None, "http://127.0.0.1:1")
