"""A trace as Kafka's request log (`kafka-request.log`, logger kafka.request.logger at DEBUG): a line per request.

Runs in the process of a command. Names and units are those of Kafka 3.9: milliseconds with three decimals, its parts of
TotalTimeMs. A trace has no bodies: `request` and `response` say what is known of them. Times of day are UTC.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.input import durations
from mpbroker.analysis.export.written import MAX_REQUESTS, Written, opened, requests

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.engine import Engine

_PARTS = {
    "totalTimeMs": durations.SUMS["kafka_total"],
    "requestQueueTimeMs": durations.SUMS["request_queue"],
    "localTimeMs": durations.SUMS["local_time"],
    "remoteTimeMs": durations.Sum(("purgatory",)),
    "throttleTimeMs": None,
    "responseQueueTimeMs": durations.Sum(("resp_queue",)),
    "sendTimeMs": durations.SUMS["response_send"],
}
_DURATIONS = sorted(
    {name for one in _PARTS.values() if one for name in (*one.parts, *one.optional, *one.less, *one.less_optional)}
)
COLUMNS = (
    "run", "broker", "epoch_ns", "conn_id", "client", "topic", "listener", "api", "api_key", "api_version", "error",
    "req_bytes", "resp_bytes", "nparts", "corr_id", "throttle_ms", *(f"{name}_ns" for name in _DURATIONS),
)  # fmt: skip
_NS_PER_US = 1000


def export(engine: "Engine", out: Path, most: int = MAX_REQUESTS) -> Written:
    """Write the requests of the engine's slice, by the time they came. OSError: `out` cannot be written."""
    rows, found, said = requests(engine, COLUMNS, most)
    peers = _connections(engine)
    with opened(out) as file:
        for row in rows:
            file.write(line(row, peers.get((row["run"], row["broker"], row["conn_id"]), {})))
    return Written(str(out), f"{found:,} requests", said)


def line(row: Mapping[str, Any], connection: Mapping[str, Any]) -> str:
    """One request, as log4j's pattern of Kafka's own configuration prints it, with its end of line."""
    software, _, version = (connection.get("software") or "unknown unknown").partition(" ")
    document = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": row["api_key"],
            "requestApiVersion": row["api_version"],
            "correlationId": row["corr_id"],
            "clientId": row["client"] or "",
            "requestApiKeyName": key_name(row["api"]),
        },
        "request": {"topic": row["topic"], "partitions": row["nparts"], "sizeInBytes": row["req_bytes"]},
        "response": {"errorCode": row["error"], "sizeInBytes": row["resp_bytes"]},
        "connection": f"{row['listener']}-{connection.get('peer') or '?'}-{row['conn_id']}",
        **{name: _ms(row, one) for name, one in _PARTS.items()},
        "securityProtocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "listener": row["listener"],
        "clientInformation": {"softwareName": software, "softwareVersion": version or "unknown"},
    }
    end_ns = row["epoch_ns"] + (row["total_ns"] or 0)
    return f"[{_moment(end_ns)}] DEBUG Completed request:{_text(document)} (kafka.request.logger)\n"


def key_name(api: str) -> str:
    """`ListOffsets` as Kafka's constants: `LIST_OFFSETS`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).upper()


def _connections(engine: "Engine") -> dict[tuple[str, int, int], dict[str, Any]]:
    return {(row["run"], row["broker"], row["conn_id"]): row for row in engine.input.connections().to_pylist()}


def _ms(row: Mapping[str, Any], one: durations.Sum | None) -> float:
    """A part of the time; 0 where a stage was not reached, as in Kafka."""
    if one is None:
        return float(row["throttle_ms"])
    parts = [row[f"{name}_ns"] for name in one.parts]
    less = [row[f"{name}_ns"] for name in one.less]
    if None in parts or None in less:
        return 0.0
    total: int = sum(parts) - sum(less) + sum(row[f"{name}_ns"] or 0 for name in one.optional)
    total -= sum(row[f"{name}_ns"] or 0 for name in one.less_optional)
    return max(0, total) // _NS_PER_US / 1000


def _moment(epoch_ns: int) -> str:
    seconds, rest = divmod(epoch_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") + f",{rest // 1_000_000:03d}"


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
