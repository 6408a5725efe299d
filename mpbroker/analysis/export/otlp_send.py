"""OTLP's messages to a file or to a collector (OTLP/HTTP with JSON). Runs in the process of a command.

A collector that is busy (429, 502, 503, 504) is asked again a few times, as the protocol wants; any other refusal ends
the export with its words.
"""

import gzip
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.export import otlp
from mpbroker.analysis.export.written import MAX_REQUESTS, Written, opened, requests
from mpbroker.errors import MpbrokerError

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.engine import Engine

TIMEOUT_S = 10.0
TRIES = 5
_BUSY = {429, 502, 503, 504}
_LONGEST_REASON = 300


class CollectorRefused(MpbrokerError):
    """The collector did not take a message."""


def export_spans(engine: "Engine", out: Path | None, endpoint: str | None, most: int = MAX_REQUESTS) -> Written:
    """The requests of the engine's slice as spans, to a file or to ENDPOINT/v1/traces."""
    rows, found, said = requests(engine, otlp.SPAN_COLUMNS, most)
    place = _put(otlp.span_messages(rows), out, endpoint, "traces")
    return Written(place, f"{found:,} requests as spans", said)


def export_histograms(engine: "Engine", out: Path | None, endpoint: str | None, window_ms: int) -> Written:
    """Histograms by window, broker, API and stage, to a file or to ENDPOINT/v1/metrics."""
    messages = list(otlp.histogram_messages(engine, window_ms))
    place = _put(messages, out, endpoint, "metrics")
    count = sum(
        len(metric["exponentialHistogram"]["dataPoints"])
        for message in messages
        for metric in message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    )
    return Written(place, f"{count:,} histograms", [])


def _put(messages: Iterable[dict[str, Any]], out: Path | None, endpoint: str | None, kind: str) -> str:
    if endpoint is not None:
        url = f"{endpoint.rstrip('/')}/v1/{kind}"
        for message in messages:
            _post(url, json.dumps(message, separators=(",", ":")).encode())
        return url
    assert out is not None
    with opened(out) as file:
        for message in messages:
            file.write(json.dumps(message, separators=(",", ":")) + "\n")
    return str(out)


def _post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    asked = urllib.request.Request(url, gzip.compress(body, 1), headers)
    for left in range(TRIES - 1, -1, -1):
        try:
            with urllib.request.urlopen(asked, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read(_LONGEST_REASON).decode("utf-8", "replace")
            if error.code not in _BUSY or not left:
                raise CollectorRefused(f"{url} answered {error.code}: {reason or error.reason}") from None
            time.sleep(0.2 * (TRIES - left))
        except OSError as error:
            raise CollectorRefused(f"{url} cannot be reached: {error}") from None
