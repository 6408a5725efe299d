"""Metric families of requests: Kafka's RequestMetrics under the names that its JMX exporter gives them, and the same
durations as histograms of our own. Pure; used by the admin process.
"""

from collections.abc import Iterator
from typing import Final

from mpbroker.admin.exposition import COUNTER, HISTOGRAM, SUMMARY, Family, Sample, labelled
from mpbroker.errors import error_name
from mpbroker.protocol.api_keys import API_NAMES, ApiKey
from mpbroker.shm.request_metrics import STAGES, UPPER_ENDS_S, ApiMetrics, Histogram

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's histograms."""
_PREFIX: Final = "kafka_network_requestmetrics_"
_SENTENCES: Final = {
    "RequestQueueTimeMs": "Time a request waited for a handler.",
    "LocalTimeMs": "Time a handler worked on it.",
    "RemoteTimeMs": "Time it waited in the purgatory, for records, replicas or the controller.",
    "ResponseQueueTimeMs": "Time its answer waited for its processor.",
    "ResponseSendTimeMs": "Time it took to send the answer.",
    "TotalTimeMs": "Time from the last byte of the request to the last byte of the answer.",
}


def request_families(apis: list[ApiMetrics]) -> Iterator[Family]:
    """All families of requests. Durations are known only while requests are traced."""
    yield _requests(apis)
    yield _errors(apis)
    for stage in STAGES:
        yield _summary(stage, apis)
    yield _histograms(apis)
    yield _bytes("request", apis)
    yield _bytes("response", apis)
    yield from _totals(apis)


def api_name(key: int) -> str:
    """`Produce`; a key without a name as its number."""
    return API_NAMES.get(key, str(key))


def _requests(apis: list[ApiMetrics]) -> Family:
    samples = [
        labelled(count, request=api_name(api.api_key), version=version if version >= 0 else "higher")
        for api in apis
        for version, count in api.versions.items()
    ]
    return Family(f"{_PREFIX}requests_total", COUNTER, "Requests whose answer was sent or dropped.", samples)


def _errors(apis: list[ApiMetrics]) -> Family:
    samples = []
    for api in apis:
        name = api_name(api.api_key)
        samples.append(labelled(api.requests - sum(api.errors.values()) - api.other_errors, request=name, error="NONE"))
        samples += [labelled(count, request=name, error=error_name(code)) for code, count in sorted(api.errors.items())]
        if api.other_errors:
            samples.append(labelled(api.other_errors, request=name, error="OTHER"))
    return Family(f"{_PREFIX}errors_total", COUNTER, "Requests by the first error code of their answer.", samples)


def _summary(stage: str, apis: list[ApiMetrics]) -> Family:
    samples: list[Sample] = []
    for api in apis:
        durations, name = api.stages[stage], api_name(api.api_key)
        samples += [labelled(round(durations.quantile_s(q) * 1e3, 6), request=name, quantile=q) for q in QUANTILES]
        samples.append(labelled(durations.sum_s * 1e3, "_sum", request=name))
        samples.append(labelled(durations.total, "_count", request=name))
    return Family(_PREFIX + stage.lower(), SUMMARY, f"{_SENTENCES[stage]} Milliseconds, since the start.", samples)


def _histograms(apis: list[ApiMetrics]) -> Family:
    samples = [
        sample
        for api in apis
        for stage, durations in api.stages.items()
        for sample in _histogram(api_name(api.api_key), stage.removesuffix("TimeMs"), durations)
    ]
    sentence = "Time of requests by API and stage."
    return Family("mpbroker_request_stage_seconds", HISTOGRAM, sentence, samples)


def _histogram(api: str, stage: str, durations: Histogram) -> Iterator[Sample]:
    """Cumulative, as Prometheus has them; a stage that no request of this API reached has no samples."""
    if not durations.total:
        return
    seen = 0
    for end_s, count in zip((*UPPER_ENDS_S, float("inf")), durations.counts, strict=True):
        seen += count
        le = "+Inf" if end_s == float("inf") else f"{end_s:.9g}"
        yield labelled(seen, "_bucket", request=api, stage=stage, le=le)
    yield labelled(durations.sum_s, "_sum", request=api, stage=stage)
    yield labelled(seen, "_count", request=api, stage=stage)


def _bytes(which: str, apis: list[ApiMetrics]) -> Family:
    samples = [labelled(getattr(api, f"{which}_bytes"), request=api_name(api.api_key)) for api in apis]
    return Family(f"mpbroker_{which}_bytes_total", COUNTER, f"Bytes of {which} frames by API.", samples)


def _totals(apis: list[ApiMetrics]) -> Iterator[Family]:
    """What Kafka counts of Produce and Fetch over all topics."""
    for key, what in ((ApiKey.PRODUCE, "produce"), (ApiKey.FETCH, "fetch")):
        api = next((one for one in apis if one.api_key == key), None)
        requests = api.requests if api else 0
        failed = sum(api.errors.values()) + api.other_errors if api else 0
        prefix = "kafka_server_brokertopicmetrics_"
        name = f"{prefix}total{what}requests_total"
        yield Family(name, COUNTER, f"{what.capitalize()} requests.", [labelled(requests)])
        name, sentence = f"{prefix}failed{what}requests_total", f"{what.capitalize()} requests answered with an error."
        yield Family(name, COUNTER, sentence, [labelled(failed)])
