"""Where a request's time goes: every duration's name and the stages it lies between, as data. Pure.

Both engines, the compacted files and the documents take their names from here. Units: ticks of 64 ns in files,
nanoseconds (ticks << 6) in frames. A duration whose stages were not both reached is missing: -1 in files, null in
frames, and counted nowhere.
"""

from typing import NamedTuple

from mpbroker.trace.record import STAGES

MISSING_TICKS = -1
#: Durations of 2**31 - 1 ticks (137 s) stand for "at least that": files keep signed 32-bit numbers. The request then
#: has the flag HAS_SATURATED, and engines count it.
MAX_TICKS = (1 << 31) - 1
#: Set in the frame's `flags` (beyond the record's 16 bits) when a stage lies before its predecessor: a defect of the
#: trace. The duration counts as 0.
BACKWARDS = 1 << 16


class Span(NamedTuple):
    """From the first of `starts` that was reached (None: t0, always reached) to `end`."""

    starts: tuple[str | None, ...]
    end: str


class Sum(NamedTuple):
    """Sum of durations. Missing when one of `parts` or `less` is missing; `optional` and `less_optional` ones then
    count as 0. `less` and `less_optional` are taken off."""

    parts: tuple[str, ...]
    optional: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    less_optional: tuple[str, ...] = ()


#: What is served in C has no handler_start, and its io_done only where the log was read or written: the next stage's
#: time then begins where the handler claimed the request. Stored in compacted files as `<name>_ticks`, beside rx_wait,
#: which is a field of the record.
SPANS: dict[str, Span] = {
    "read": Span((None,), "frame_done"),
    "parse": Span(("frame_done",), "parsed"),
    "ring_block": Span(("parsed",), "enqueued"),
    "queue": Span(("enqueued",), "dequeued"),
    "dispatch": Span(("dequeued",), "handler_start"),
    "io": Span(("handler_start", "dequeued"), "io_done"),
    "local": Span(("io_done", "handler_start", "dequeued"), "local_done"),
    "purgatory": Span(("purg_enter",), "purg_leave"),
    "resp_prep": Span(("purg_leave", "local_done"), "resp_enq"),
    "resp_queue": Span(("resp_enq",), "resp_deq"),
    "send_wait": Span(("resp_deq",), "send_start"),
    "send": Span(("send_start",), "send_done"),
    "total": Span((None,), "send_done"),
}
STORED = ("rx_wait", *SPANS)

#: Purgatories in which a request waits because its client asked for that: a fetch for data (`fetch.min.bytes`,
#: `fetch.max.wait.ms`), a member for its group. A produce request with acks=all waits for replicas: that is latency.
ASKED_KINDS = ("fetch", "join")
#: Time in such a purgatory; missing for requests that were in none.
ASKED_WAIT = "asked_wait"

#: Derived from stored ones. true_total begins when the kernel received the request; active_total is that without the
#: time in a purgatory that the client asked for, and what studies mean by latency; the others are Kafka's own metrics.
SUMS: dict[str, Sum] = {
    "true_total": Sum(("rx_wait", "total")),
    "active_total": Sum(("total",), optional=("rx_wait",), less_optional=(ASKED_WAIT,)),
    "kafka_total": Sum(("total",), less=("read",)),
    "request_queue": Sum(("parse", "ring_block", "queue")),
    "local_time": Sum(("local",), optional=("dispatch", "io")),
    "response_send": Sum(("send_wait", "send")),
}
#: Columns `<name>_ns` of the requests frame.
FRAME_DURATIONS = (*STORED, ASKED_WAIT, "true_total", "active_total", "kafka_total")
#: Stages of a rollup: everything. The rest of Kafka's view has the same numbers under our names.
ROLLUP_STAGES = (*STORED, ASKED_WAIT, *SUMS)
#: Kafka's RequestMetrics (without Ms) → rollup stage.
KAFKA_VIEW = {
    "RequestQueueTime": "request_queue",
    "LocalTime": "local_time",
    "RemoteTime": "purgatory",
    "ResponseQueueTime": "resp_queue",
    "ResponseSendTime": "response_send",
    "TotalTime": "kafka_total",
}
#: The parts that add up to true_total of an ordinary request, in its order.
PIPELINE = (
    "rx_wait",
    "read",
    "parse",
    "ring_block",
    "queue",
    "dispatch",
    "io",
    "local",
    "purgatory",
    "resp_prep",
    "resp_queue",
    "send_wait",
    "send",
)
#: What a handler was busy with: `handler_ns` of an activity table (purgatory is waiting, not work).
HANDLER_TIME = Sum(("local",), optional=("dispatch", "io", "resp_prep"))

assert all(end in STAGES for _, end in SPANS.values())
