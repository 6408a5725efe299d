"""What makes the dash-cam write, and how often."""

import pytest

from mpbroker.trace import dump_cause
from mpbroker.trace.dump_trigger import DumpTrigger, TriggerLimits
from mpbroker.trace.record import CLOCK, NOT_REACHED, SATURATED, TraceRecord
from tests.unit.trace.traces import full_request

SECOND_NS, TICKS_OF_A_MS = 1_000_000_000, 15_625
LIMITS = TriggerLimits(latency_ms=-1, error_percent=0, rest_ms=60_000, after_ms=700)


def _seen(trigger, records, now_ns=5 * SECOND_NS):
    trigger.see(memoryview(b"".join(one.pack() for one in records)), now_ns)
    return trigger.take(now_ns)


def _taking(ms, **fields):
    return full_request(1, send_done=ms * TICKS_OF_A_MS, **fields)


@pytest.mark.parametrize(
    "request_, fires",
    [
        (_taking(199), False),
        (_taking(200), True),
        (_taking(150)._replace(rx_wait=50 * TICKS_OF_A_MS), True),  # what it waited in the socket counts
        (
            _taking(500, purg_enter=TICKS_OF_A_MS, purg_leave=400 * TICKS_OF_A_MS)._replace(purg_kind=2),
            False,
        ),  # a Fetch
        (_taking(500, purg_enter=TICKS_OF_A_MS, purg_leave=400 * TICKS_OF_A_MS)._replace(purg_kind=3), True),
        (TraceRecord(t0_ns=1, kind=CLOCK, stage=(0xFFFFFFF0,) * 13), False),
        (full_request(1, send_done=NOT_REACHED), False),
    ],
)
def test_a_slow_request_is_a_trigger(request_, fires):
    cause = _seen(DumpTrigger(LIMITS._replace(latency_ms=200)), [full_request(0), request_])
    assert (cause is not None) == fires
    if fires:
        assert (cause.kind, cause.after_ms) == (dump_cause.LATENCY, 700)


def test_the_text_names_the_first_slow_request():
    slow = _taking(812)._replace(api_key=1, conn_id=0x30002)
    cause = _seen(DumpTrigger(LIMITS._replace(latency_ms=500)), [full_request(0), slow, _taking(900)])
    assert cause.text == "Fetch of connection 0x30002 took 812 ms; the limit is 500 ms"


def test_the_time_in_the_text_counts_from_when_the_request_was_there():
    slow = _taking(300)._replace(api_key=250, conn_id=7, rx_wait=250 * TICKS_OF_A_MS)
    cause = _seen(DumpTrigger(LIMITS._replace(latency_ms=500)), [slow])
    assert cause.text == "Api250 of connection 0x7 took 550 ms; the limit is 500 ms"
    waited_unknown = _taking(600)._replace(rx_wait=NOT_REACHED, conn_id=7)
    assert " took 600 ms;" in _seen(DumpTrigger(LIMITS._replace(latency_ms=500)), [waited_unknown]).text


def test_nothing_is_looked_at_when_nothing_is_asked_for():
    assert _seen(DumpTrigger(LIMITS), [_taking(100_000, error=7)] * 300) is None


@pytest.mark.parametrize("failed, of, fires", [(9, 100, False), (10, 100, True), (50, 99, False), (20, 200, True)])
def test_many_failed_requests_are_a_trigger(failed, of, fires):
    trigger = DumpTrigger(LIMITS._replace(error_percent=10))
    records = [full_request(n, error=3 if n >= of - failed else 0) for n in range(of)]
    half = len(records) // 2
    assert _seen(trigger, records[:half], 5 * SECOND_NS) is None
    cause = _seen(trigger, records[half:], 14 * SECOND_NS)
    assert (cause is not None) == fires
    if fires:
        assert cause.text == f"{failed} of {of} requests failed within 10 s"


def test_errors_of_more_than_ten_seconds_ago_do_not_count():
    trigger = DumpTrigger(LIMITS._replace(error_percent=10))
    assert _seen(trigger, [full_request(n, error=3) for n in range(90)], 5 * SECOND_NS) is None
    assert _seen(trigger, [full_request(n) for n in range(200)], 15 * SECOND_NS) is None


def test_a_sampled_request_counts_for_those_it_stands_for():
    trigger = DumpTrigger(LIMITS._replace(error_percent=10))
    kept = [full_request(n, error=3) for n in range(12)]
    sampled = [full_request(n)._replace(flags=4 << 12) for n in range(20)]  # each for 16
    assert _seen(trigger, [*kept, *sampled]) is None  # 12 of 332
    assert _seen(trigger, [full_request(n, error=3) for n in range(30)]).text == "42 of 362 requests failed within 10 s"


def test_it_rests_after_a_trigger_and_counts_what_it_leaves_out():
    trigger = DumpTrigger(LIMITS)
    for when_s, fires in ((100, True), (110, False), (159, False), (160, True)):
        trigger.died("handler 1 died: signal 9")
        assert (trigger.take(when_s * SECOND_NS) is not None) == fires
    assert trigger.left_out == 2
    assert trigger.take(1000 * SECOND_NS) is None


def test_a_minute_of_errors_is_one_trigger():
    """What made it counts no second time."""
    trigger = DumpTrigger(LIMITS._replace(error_percent=10, rest_ms=0))
    failed = [full_request(n, error=3) for n in range(100)]
    assert _seen(trigger, failed).text == "100 of 100 requests failed within 10 s"
    assert _seen(trigger, []) is None and _seen(trigger, failed[:99]) is None
    assert _seen(trigger, failed[:1]).text == "100 of 100 requests failed within 10 s"
    assert trigger.left_out == 0


def test_errors_are_added_up_second_by_second():
    """Of the last ten seconds, and of one second however many pieces it came in."""
    trigger = DumpTrigger(LIMITS._replace(error_percent=100))
    for second in range(4, 15):
        assert _seen(trigger, [full_request(n, error=3) for n in range(9)], second * SECOND_NS) is None
    ten = [full_request(n, error=3) for n in range(9)]
    assert _seen(trigger, ten, 14 * SECOND_NS + 5) is None
    assert _seen(trigger, ten[:1], 15 * SECOND_NS - 1).text == "100 of 100 requests failed within 10 s"


@pytest.mark.parametrize(("latency_ms", "fires"), [(-1, False), (0, True), (1, True), (2, False)])
@pytest.mark.parametrize("error_percent", [0, 100])
def test_a_limit_of_no_time_at_all_is_one(latency_ms, fires, error_percent):
    """-1 is none: then a request may take as long as it likes, and its errors count all the same."""
    trigger = DumpTrigger(LIMITS._replace(latency_ms=latency_ms, error_percent=error_percent))
    assert (_seen(trigger, [_taking(1)]) is not None) is fires


@pytest.mark.parametrize(("ticks", "fires"), [(SATURATED - 1, False), (SATURATED, True)])
def test_a_limit_that_no_record_can_say_is_the_longest_one_can(ticks, fires):
    trigger = DumpTrigger(LIMITS._replace(latency_ms=1 << 40))
    assert (_seen(trigger, [full_request(1, send_done=ticks)]) is not None) is fires


def test_the_first_of_a_turn_stands_for_all():
    trigger = DumpTrigger(LIMITS._replace(latency_ms=200))
    trigger.died("handler 1 died")
    trigger.died("handler 2 died")
    assert _seen(trigger, [_taking(300)]).text == "handler 1 died" and trigger.left_out == 0
