"""A trace for OpenTelemetry: spans of single requests, histograms of all, as OTLP's JSON. Pure; run by a command.

A file has one ExportTraceServiceRequest or ExportMetricsServiceRequest a line, which a collector's otlpjsonfile
receiver reads; `otlp_send` posts the same. A request is a span of kind SERVER with a span of each stage below it. Our
buckets, 32 to an octave, are those of an exponential histogram of scale 5, so that no value moves.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mpbroker import __version__
from mpbroker.analysis.engine.measures.errors_over_time import error_name
from mpbroker.analysis.engine.running.wording import STAGE_NAMES
from mpbroker.analysis.export.perfetto_tracks import COLUMNS, stages

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.engine import Engine

Json = dict[str, Any]
REQUESTS_A_MESSAGE = 200
POINTS_A_MESSAGE = 200
HISTOGRAM_SCALE = 5
HISTOGRAM_STAGES = ("queue", "local_time", "purgatory", "resp_queue", "response_send", "active_total")
_NS_PER_MS = 1_000_000
_INTERNAL, _SERVER = 1, 2
_STATUS_ERROR = 2
_DELTA = 1
_SCOPE = {"name": "mpbroker.trace", "version": __version__}
SPAN_COLUMNS = COLUMNS


def span_messages(rows: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
    """Requests as ExportTraceServiceRequest, of one broker each, at most REQUESTS_A_MESSAGE requests."""
    waiting: dict[int, list[list[Json]]] = {}
    for row in rows:
        of_broker = waiting.setdefault(row["broker"], [])
        of_broker.append(_spans(row))
        if len(of_broker) >= REQUESTS_A_MESSAGE:
            yield _span_message(row["broker"], waiting.pop(row["broker"]))
    for broker, of_broker in sorted(waiting.items()):
        yield _span_message(broker, of_broker)


def _span_message(broker: int, requests: list[list[Json]]) -> Json:
    spans = [span for request in requests for span in request]
    return _message("resourceSpans", "scopeSpans", "spans", broker, spans)


def histogram_messages(engine: "Engine", window_ms: int) -> Iterator[Json]:
    """Histograms by window, broker, API and stage as ExportMetricsServiceRequest."""
    points: dict[int, list[Json]] = {}
    for (window, broker, api, stage), rows in _groups(engine, window_ms).items():
        points.setdefault(broker, []).append(_point(window, window_ms, api, stage, rows))
    for broker, of_broker in sorted(points.items()):
        for first in range(0, len(of_broker), POINTS_A_MESSAGE):
            metric = {
                "name": "mpbroker.request.duration",
                "unit": "ns",
                "description": "How long requests took, by API and stage; latency is without waiting asked for.",
                "exponentialHistogram": {
                    "aggregationTemporality": _DELTA,
                    "dataPoints": of_broker[first : first + POINTS_A_MESSAGE],
                },
            }
            yield _message("resourceMetrics", "scopeMetrics", "metrics", broker, [metric])


def _groups(engine: "Engine", window_ms: int) -> dict[tuple[int, int, str, str], list[Json]]:
    found: dict[tuple[int, int, str, str], list[Json]] = {}
    for row in engine.rollup(window_ms, ("broker", "api")).to_pylist():
        if row["stage"] in HISTOGRAM_STAGES:
            found.setdefault((row["window_ms"], row["broker"], row["api"], row["stage"]), []).append(row)
    return found


def _point(window: int, window_ms: int, api: str, stage: str, rows: list[Json]) -> Json:
    """One histogram; bucket 0 of ours, of 0 ns, is OTLP's count of zeros."""
    counts = {row["bucket"]: row["n"] for row in rows}
    positive = sorted(bucket for bucket in counts if bucket)
    offset = positive[0] if positive else 0
    dense = [counts.get(bucket, 0) for bucket in range(offset, positive[-1] + 1)] if positive else []
    return {
        "attributes": [_attribute("api", api), _attribute("stage", "latency" if stage == "active_total" else stage)],
        "startTimeUnixNano": str(window * _NS_PER_MS),
        "timeUnixNano": str((window + window_ms) * _NS_PER_MS),
        "count": str(sum(counts.values())),
        "sum": float(sum(row["sum_ns"] for row in rows)),
        "max": float(max(row["max_ns"] for row in rows)),
        "scale": HISTOGRAM_SCALE,
        "zeroCount": str(counts.get(0, 0)),
        "positive": {"offset": offset, "bucketCounts": [str(count) for count in dense]},
    }


def _spans(row: Mapping[str, Any]) -> list[Json]:
    identity = f"{row['run']}/{row['broker']}/{row['conn_id']}/{row['corr_id']}/{row['epoch_ns']}".encode()
    digest = hashlib.sha256(identity).hexdigest()
    trace_id, span_id = digest[:32], digest[32:48]
    parts = stages(row)
    begin_ns = min([row["epoch_ns"], *(part.start_ns for part in parts)])
    end_ns = max([row["epoch_ns"] + (row["total_ns"] or 0), *(part.end_ns for part in parts)])
    whole = _span(trace_id, span_id, str(row["api"]), _SERVER, begin_ns, end_ns)
    whole["attributes"] = _attributes(row)
    if row["error"]:
        whole["status"] = {"code": _STATUS_ERROR, "message": error_name(row["error"])}
    found = [whole]
    for number, part in enumerate(parts):
        part_id = hashlib.sha256(identity + b"/%d" % number).hexdigest()[:16]
        one = _span(trace_id, part_id, STAGE_NAMES[part.name], _INTERNAL, part.start_ns, part.end_ns)
        found.append(one | {"parentSpanId": span_id})
    return found


def _span(trace_id: str, span_id: str, name: str, kind: int, begin_ns: int, end_ns: int) -> Json:
    times = {"startTimeUnixNano": str(begin_ns), "endTimeUnixNano": str(end_ns)}
    return {"traceId": trace_id, "spanId": span_id, "name": name, "kind": kind, **times}


def _attributes(row: Mapping[str, Any]) -> list[Json]:
    """OpenTelemetry's names for messaging and RPC where there are some, else ours."""
    named = {
        "messaging.system": "kafka",
        "messaging.client.id": row["client"],
        "messaging.destination.name": row["topic"],
        "kafka.api.version": row["api_version"],
        "kafka.correlation_id": row["corr_id"],
        "kafka.error_code": row["error"] or None,
        "mpbroker.connection": row["conn_id"],
        "mpbroker.processor": row["processor"],
        "mpbroker.handler": row["handler"],
        "mpbroker.plane": row["plane"],
        "mpbroker.queued_ahead": row["req_q"],
        "mpbroker.request_bytes": row["req_bytes"],
        "mpbroker.response_bytes": row["resp_bytes"],
    }
    return [_attribute(name, value) for name, value in named.items() if value not in (None, "")]


def _attribute(name: str, value: str | int) -> Json:
    return {"key": name, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}


def _message(outer: str, scope: str, items: str, broker: int, found: list[Json]) -> Json:
    resource = {"attributes": [_attribute("service.name", "mpbroker"), _attribute("service.instance.id", str(broker))]}
    return {outer: [{"resource": resource, scope: [{"scope": _SCOPE, items: found}]}]}
