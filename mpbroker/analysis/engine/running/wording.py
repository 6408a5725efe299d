"""Numbers as a person says them, and the sentences that say how far they can be trusted. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpbroker.analysis.engine.input.trace_input import TraceInput

#: What a request does in a stage, as the end of a sentence "71 % of it is …".
DOING = {
    "rx_wait": "waiting in the socket until a processor reads it",
    "read": "waiting behind earlier requests of the same connection, or for the rest of the frame",
    "parse": "parsing the header",
    "ring_block": "waiting for room in the request ring",
    "queue": "waiting in the request ring",
    "dispatch": "passing from the ring to a handler",
    "io": "reading or writing the log",
    "local": "the handler's own work",
    "purgatory": "waiting in purgatory (for data, replicas or a timeout)",
    "resp_prep": "preparing the answer",
    "resp_queue": "waiting in the response ring",
    "send_wait": "waiting for the socket to take the answer",
    "send": "sending the answer",
    "unattributed": "between two stages",
}
#: Stages as legends and tables call them.
STAGE_NAMES = {
    "rx_wait": "waiting in the socket",
    "read": "behind own earlier requests",
    "parse": "parsing",
    "ring_block": "request ring full",
    "queue": "waiting in the request ring",
    "dispatch": "handing over to the handler",
    "io": "reading or writing the log",
    "local": "handler's own work",
    "purgatory": "in purgatory",
    "asked_wait": "waiting as its client asked",
    "resp_prep": "preparing the answer",
    "resp_queue": "waiting in the response ring",
    "send_wait": "waiting for the socket",
    "send": "sending",
    "unattributed": "between two stages",
    "total": "whole request, from its first read",
    "true_total": "whole request, with all waiting",
    "active_total": "whole request",
    "kafka_total": "Kafka's TotalTime",
    "request_queue": "Kafka's RequestQueueTime",
    "local_time": "Kafka's LocalTime",
    "response_send": "Kafka's ResponseSendTime",
}
#: Fewer requests than this in a window, and it has no such percentile: it would be the slowest one or two of them.
MIN_IN_WINDOW = {"p50": 10, "p99": 100, "p99.9": 1000}
#: Fewer durations than this beyond a percentile, and it says little.
MIN_BEYOND = 10


def duration(nanoseconds: float) -> str:
    """`840 ns`, `4.2 ms`, `61 s`: two digits, three from 100 on."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(nanoseconds) >= unit * 0.9995:
            return f"{_digits(nanoseconds / unit)} {name}"
    return f"{nanoseconds:.0f} ns"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.2g}"


def share(value: float) -> str:
    """`71 %`; `0.4 %` below 1."""
    percent = value * 100
    return f"{percent:.0f} %" if abs(percent) >= 0.95 or percent == 0 else f"{percent:.1g} %"


def count(value: float) -> str:
    """`12,345`."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def counted(value: int, one: str, many: str = "") -> str:
    """`1 request`, `12 requests`."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def megabytes(bytes_per_second: float) -> str:
    """`45.6 MB/s`, of a million bytes."""
    value = bytes_per_second / 1e6
    return (
        f"{value:.0f} MB/s"
        if value >= 99.5
        else f"{value:.2g} MB/s"
        if value >= 0.01
        else f"{bytes_per_second:.0f} B/s"
    )


def percentile_name(q: float) -> str:
    """0.999 → `p99.9`."""
    return f"p{q * 100:.6g}"


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""


def nothing(study: str) -> str:
    """The verdict on a trace without requests."""
    return (
        f"There is nothing to say about {study}: the trace holds no finished request in the time, APIs and "
        "brokers asked for."
    )


def caveats(source: "TraceInput") -> list[str]:
    """Sentences on loss and sampling; empty when every request has its record."""
    loss, found = source.loss, []
    if loss.dropped:
        found.append(
            f"{counted(loss.dropped, 'record')} of {count(loss.finished)} finished requests "
            f"({share(loss.dropped / max(1, loss.finished))}) were lost by the tracer; loss is likeliest under the "
            "highest load, so that what is missing was probably slower than what is here."
        )
    if source.is_sampled:
        found.append(
            f"The trace is sampled: {count(loss.records)} records stand for {count(loss.finished - loss.dropped)} "
            "requests (control, failed and slow ones are all kept); counts of the others are estimates."
        )
    return found
