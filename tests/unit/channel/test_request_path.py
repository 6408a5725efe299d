"""The two ports against each other, in one process: what each call promises to processors and handlers."""

import os
import select
import signal
import sys
import threading
import time

import pytest

from mpbroker.channel.handler_port import HandlerPort, open_handler_port
from mpbroker.channel.planes import CONTROL, CONTROL_REQUESTS, DATA
from mpbroker.channel.processor_port import (
    ANSWER_CLOSE,
    ANSWER_EXTENT,
    ANSWER_INLINE,
    ANSWER_NONE,
    INLINE_PAYLOAD_BYTES,
    NO_ENTRY,
    NO_SPACE,
    PLANE_FULL,
    POISON,
    ProcessorPort,
)
from mpbroker.shm.cluster_table import held_payload
from mpbroker.shm.layout import MemoryPlan, ParkedKind
from tests.harness.small_core import small_core


def frame(api_key=0, version=7, correlation_id=1, body=b"", client=b"me"):
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big", signed=True)
    return head + len(client).to_bytes(2, "big") + client + body


class Pair:
    """A processor port and two handler ports on one small core."""

    def __init__(self, **plan):
        self.core = small_core(**plan).core
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK)
        self.processor = ProcessorPort(self.core, 0, self.eventfd)
        self.handlers = [HandlerPort(self.core, i) for i in range(2)]

    def submit(self, data, plane=DATA, connection=5):
        return self.processor.submit(plane, connection, 2, 1, data, time.monotonic_ns())

    def close(self):
        os.close(self.eventfd)


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.mark.parametrize("body", [0, 10, INLINE_PAYLOAD_BYTES - 12, INLINE_PAYLOAD_BYTES - 11, 5000, 200_000])
def test_a_request_arrives_as_it_was_sent(pair, body):
    data = frame(3, 8, -2, os.urandom(body))
    entry = pair.submit(data)
    assert entry >= 0
    request = pair.handlers[0].serve_or_claim()
    assert request.payload == data
    assert request.payload.readonly
    assert (request.entry, request.api_key, request.api_version, request.correlation_id) == (entry, 3, 8, -2)
    assert (request.listener, request.plane, request.connection, request.connection_generation) == (1, DATA, 5, 2)
    assert (request.attempts, request.parked_kind, request.cell_count, request.processor) == (0, 0, 0, 0)
    assert pair.handlers[1].serve_or_claim() is None


@pytest.mark.parametrize(
    ("length", "kind"), [(1, ANSWER_INLINE), (128, ANSWER_INLINE), (129, ANSWER_EXTENT), (100_000, ANSWER_EXTENT)]
)
def test_an_answer_arrives_as_it_was_given(pair, length, kind):
    answer = os.urandom(length)
    entry = pair.submit(frame())
    request = pair.handlers[0].serve_or_claim()
    assert pair.handlers[0].answer(request, answer)
    [(got, connection, generation, got_kind, view)] = pair.processor.collect(10)
    assert (got, connection, generation, got_kind, bytes(view)) == (entry, 5, 2, kind, answer)
    assert pair.processor.in_flight() == 1
    pair.processor.sent(entry, time.monotonic_ns())
    assert (pair.processor.in_flight(), pair.processor.collect(10)) == (0, [])
    with pytest.raises(ValueError, match="not being sent"):
        pair.processor.sent(entry)


def test_an_answer_written_into_the_arena(pair):
    pair.submit(frame())
    request = pair.handlers[0].serve_or_claim()
    view, token = pair.handlers[0].allocate(40_000)
    view[:3] = b"abc"
    assert pair.handlers[0].answer_extent(request, token, 3)
    [(entry, _, _, kind, got)] = pair.processor.collect(1)
    assert (kind, bytes(got)) == (ANSWER_EXTENT, b"abc")
    pair.processor.sent(entry)


def test_answers_without_bytes_and_with_a_closed_connection(pair):
    for _ in range(3):
        pair.submit(frame())
    handler = pair.handlers[0]
    handler.answer_none(handler.serve_or_claim())
    handler.answer_close(handler.serve_or_claim(), 42)
    handler.answer_close(handler.serve_or_claim(), 42, b"x" * 300)
    answers = [(kind, view if view is None else bytes(view)) for _, _, _, kind, view in pair.processor.collect(9)]
    assert answers == [(ANSWER_NONE, None), (ANSWER_CLOSE, None), (ANSWER_CLOSE, b"x" * 300)]


def test_an_answered_request_is_gone(pair):
    pair.submit(frame())
    handler = pair.handlers[0]
    request = handler.serve_or_claim()
    entry = request.entry
    handler.answer(request, b"1234")
    assert request.entry == entry
    for use in (
        lambda: request.payload,
        lambda: request.api_key,
        lambda: handler.answer(request, b"again"),
        lambda: handler.park(request, 1),
        lambda: request.stamp(4),
        lambda: handler.ensure_cells(request, 1),
    ):
        with pytest.raises(ValueError, match="answered already"):
            use()


def test_a_request_belongs_to_its_handler(pair):
    pair.submit(frame())
    request = pair.handlers[0].serve_or_claim()
    with pytest.raises(TypeError):
        pair.handlers[1].answer(request, b"1234")
    with pytest.raises(TypeError):
        pair.handlers[1].answer("no request", b"1234")


def test_the_planes_hold_exactly_their_bounds():
    assert CONTROL_REQUESTS == 20
    pair = Pair(entries_per_processor=600)
    try:
        for _ in range(500):
            assert pair.submit(frame()) >= 0
        assert pair.submit(frame(correlation_id=501)) == PLANE_FULL
        parked = pair.processor.parked_entry
        for _ in range(20):
            assert pair.submit(frame(), CONTROL) >= 0
        assert pair.submit(frame(), CONTROL) == PLANE_FULL
        assert pair.processor.abandon(pair.processor.parked_entry)
        assert pair.processor.retry(parked) == PLANE_FULL
        claimed = [pair.handlers[0].serve_or_claim() for _ in range(20)]
        assert {request.plane for request in claimed} == {CONTROL}
        assert pair.handlers[0].serve_or_claim().plane == DATA
        assert pair.processor.retry(parked) == parked
        assert pair.processor.in_flight() == 521
    finally:
        pair.close()


def test_a_parked_processor_is_rung_when_there_is_room():
    pair = Pair(data_requests=4)
    try:
        for _ in range(4):
            pair.submit(frame())
        assert pair.submit(frame()) == PLANE_FULL
        assert pair.processor.prepare_sleep()
        pair.handlers[0].serve_or_claim()
        assert select.select([pair.eventfd], [], [], 0)[0]
        assert pair.processor.retry(pair.processor.parked_entry) >= 0
    finally:
        pair.close()


def test_frames_and_entries_that_cannot_be_taken(pair):
    with pytest.raises(ValueError, match="a frame has 8 bytes"):
        pair.submit(b"1234567")
    assert pair.submit(bytes(2 << 20)) == NO_SPACE
    for _ in range(64):
        assert pair.submit(frame()) >= 0
    assert pair.submit(frame()) == NO_ENTRY
    with pytest.raises(ValueError, match="plane"):
        pair.submit(frame(), plane=2)


def test_a_large_frame_is_received_in_place(pair):
    data = frame(body=os.urandom(300_000))
    offset, view = pair.processor.reserve(len(data) + 5000)
    view[: len(data)] = data
    assert pair.processor.submit_reserved(DATA, 1, 1, 0, offset, len(data), 1) >= 0
    assert pair.handlers[0].serve_or_claim().payload == data
    with pytest.raises(ValueError, match="reserved"):
        pair.processor.release_reserved(offset)
    other, _ = pair.processor.reserve(1 << 18)
    pair.processor.release_reserved(other)
    assert pair.processor.reserve(2 << 20) is None


def test_what_was_reserved_and_not_needed_is_free_again(pair):
    """And nothing else: a request's bytes stay as they are while the next ones are received."""
    requests = []
    for number in range(6):
        data = frame(correlation_id=number, body=os.urandom(70_000))
        offset, view = pair.processor.reserve(len(data) + 60_000)
        view[: len(data)] = data
        assert pair.processor.submit_reserved(DATA, number, 1, 0, offset, len(data), 1) >= 0
        requests.append(data)
    assert [pair.handlers[0].serve_or_claim().payload for _ in requests] == requests


def test_queued_bytes_are_held_until_the_answer_is_sent(pair):
    data = frame(body=bytes(1000))
    entry = pair.submit(data)
    assert pair.processor.queued_bytes() == len(data)
    pair.handlers[0].answer(pair.handlers[0].serve_or_claim(), b"1234")
    pair.processor.collect(1)
    assert pair.processor.queued_bytes() == len(data)
    pair.processor.sent(entry, 0, True)
    assert pair.processor.queued_bytes() == 0


def test_a_handler_sleeps_until_a_request_comes(pair):
    """The other thread gets the interpreter when it does."""
    gate, interval_s = threading.Lock(), sys.getswitchinterval()
    gate.acquire()
    other = threading.Thread(target=lambda: gate.acquire() and pair.submit(frame()))
    other.start()
    sys.setswitchinterval(1000.0)
    gate.release()
    try:
        assert pair.handlers[0].serve_or_claim(-1.0).payload == frame()
    finally:
        sys.setswitchinterval(interval_s)
        other.join()


def test_control_comes_first_and_reserved_handlers_take_nothing_else():
    pair = Pair(reserved_handlers=1)
    try:
        pair.submit(frame(correlation_id=1))
        pair.submit(frame(correlation_id=2), CONTROL)
        pair.submit(frame(correlation_id=3), CONTROL)
        assert pair.handlers[1].serve_or_claim().correlation_id == 2
        assert pair.handlers[0].serve_or_claim().correlation_id == 3
        assert pair.handlers[0].serve_or_claim() is None
        assert pair.handlers[1].serve_or_claim(control_only=True) is None
        assert pair.handlers[1].serve_or_claim().correlation_id == 1
    finally:
        pair.close()


def test_a_push_wakes_a_sleeping_handler(pair):
    claimed = []
    thread = threading.Thread(target=lambda: claimed.append(pair.handlers[0].serve_or_claim(60_000)))
    thread.start()
    while not pair.core.sleepers:
        time.sleep(0.001)
    pair.submit(frame(correlation_id=9))
    thread.join()
    assert claimed[0].correlation_id == 9
    assert pair.core.sleepers == 0


def test_a_signal_ends_the_wait_early(pair):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        assert pair.handlers[0].serve_or_claim(60_000) is None
        assert seen == [signal.SIGUSR1]
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("ordinal", "told"), [(63, 63), (64, 64), (65, 65), (4095, 4095), (4096, 0), (4170, 74)])
def test_partitions_with_high_numbers_are_told_by_number_modulo_4096(ordinal, told):
    pair = Pair(partitions=5000)
    try:
        pair.handlers[0].watch(ordinal)
        pair.core.notify_partition(ordinal)
        assert pair.handlers[0].take_dirty() == (False, [told])
    finally:
        pair.close()


def test_watching_handlers_are_told_which_partition_moved(pair):
    watcher, other = pair.handlers
    assert watcher.take_dirty() == (False, [])
    watcher.watch(7)
    watcher.watch(9)
    pair.core.notify_partition(7)
    pair.core.notify_partition(7)
    assert watcher.serve_or_claim(60_000) is None
    assert watcher.take_dirty() == (False, [7])
    assert other.take_dirty() == (False, [])
    pair.core.notify_partition(7)
    assert watcher.take_dirty() == (False, [])
    pair.core.ring_handler(0)
    assert watcher.take_dirty() == (True, [])
    with pytest.raises(IndexError):
        watcher.watch(1_000_000)


def test_parked_requests_stay_claimed_and_are_answered_later(pair):
    pair.submit(frame())
    handler = pair.handlers[0]
    request = handler.serve_or_claim()
    for unknown in (ParkedKind.NOT, max(ParkedKind) + 1):
        with pytest.raises(ValueError, match="parked kind"):
            handler.park(request, unknown)
    handler.park(request, ParkedKind.FETCH)
    assert request.parked_kind == ParkedKind.FETCH
    assert handler.serve_or_claim() is None
    handler.resume(request)
    handler.answer(request, b"1234")
    assert len(pair.processor.collect(9)) == 1


def test_each_request_keeps_its_own_client_id(pair):
    for correlation_id in (1, 2):
        pair.submit(frame(correlation_id=correlation_id))
    handler = pair.handlers[0]
    first, second = handler.serve_or_claim(), handler.serve_or_claim()
    assert (first.client_id, second.client_id) == ("", "")
    first.client_id, second.client_id = "application", "__admin_client"
    handler.park(first, ParkedKind.FETCH)
    handler.answer(second, b"1234")
    assert (first.client_id, second.client_id) == ("application", "__admin_client")
    for wrong in (None, b"bytes", 1):
        with pytest.raises(TypeError):
            first.client_id = wrong
    with pytest.raises(TypeError):
        del first.client_id


def test_cells_are_made_once_and_read_when_filled(pair):
    pair.submit(frame())
    handler = pair.handlers[0]
    request = handler.serve_or_claim()
    assert handler.ensure_cells(request, 300)
    assert request.cell_count == 300
    assert handler.ensure_cells(request, 300)
    assert not handler.ensure_cells(request, 301)
    assert handler.cell(request, 0) is None
    assert handler.cell(request, 299) is None
    assert handler.cell(request, 300) is None


def test_a_dead_handlers_requests_go_to_another(pair):
    pair.submit(frame(correlation_id=1))
    pair.submit(frame(correlation_id=2))
    dead = pair.handlers[0]
    parked = dead.serve_or_claim()
    dead.park(parked, ParkedKind.PRODUCE)
    number = parked.fill_number
    dead.serve_or_claim()
    successor = HandlerPort(pair.core, 0)
    assert successor.recover() == {"requeued": 2, "hinted": 0, "closed": 0}
    assert pair.handlers[1].serve_or_claim() is None  # rung: look at everything that is parked
    assert pair.handlers[1].take_dirty() == (True, [])
    again = [pair.handlers[1].serve_or_claim(), pair.handlers[1].serve_or_claim()]
    assert [(request.correlation_id, request.attempts, request.parked_kind) for request in again] == [
        (1, 0, ParkedKind.PRODUCE),
        (2, 1, ParkedKind.NOT),
    ]
    assert again[0].fill_number == number
    with pytest.raises(ValueError, match="answered already"):
        dead.answer(parked, b"1234")


def test_a_request_that_kills_three_handlers_is_closed_and_then_refused(pair):
    poison = frame(correlation_id=1, body=b"poison")
    entry = pair.submit(poison)
    for attempts in range(3):
        handler = HandlerPort(pair.core, 0)
        handler.recover()
        handler.take_dirty()
        assert handler.serve_or_claim().attempts == attempts
    digest, in_hand = pair.core.frame_in_hand(0)
    assert in_hand == poison
    handler = HandlerPort(pair.core, 0)
    assert handler.recover() == {"requeued": 0, "hinted": 0, "closed": 1}
    assert [(row[0], row[3]) for row in pair.processor.collect(9)] == [(entry, ANSWER_CLOSE)]
    assert pair.submit(frame(correlation_id=77, body=b"poison")) == POISON
    assert [(row[0], row[2]) for row in pair.core.killers()] == [(digest, 2)]
    assert pair.submit(frame(correlation_id=77, body=b"harmless")) >= 0


def test_a_dead_processors_answers_are_dropped():
    pair = Pair()
    try:
        pair.submit(frame())
        pair.submit(frame())
        request = pair.handlers[0].serve_or_claim()
        pair.core.row(16).begin(1, 2, 0, 0)
        successor = ProcessorPort(pair.core, 0, pair.eventfd)
        successor.recover()
        pair.handlers[0].take_dirty()
        pair.handlers[0].answer(request, b"1234")
        pair.handlers[0].answer(pair.handlers[0].serve_or_claim(), b"1234")
        assert successor.collect(9) == []
        assert successor.in_flight() == 0
        assert pair.core.entry_states() == []
    finally:
        pair.close()


def test_answers_run_out_of_room_and_come_back():
    pair = Pair(arena_handler_bytes=64 << 10)
    try:
        pair.submit(frame())
        handler = pair.handlers[0]
        request = handler.serve_or_claim()
        view, token = handler.allocate(64 << 10)
        assert handler.allocate(1) is None
        handler.release(token)
        with pytest.raises(ValueError, match="not allocated"):
            handler.release(token)
        assert handler.allocate(65 << 10) is None
        assert len(view) == 64 << 10
        assert handler.answer(request, bytes(1000))
    finally:
        pair.close()


def test_memory_goes_back_to_the_kernel_only_after_a_while(pair):
    assert pair.processor.idle() == 0
    assert pair.handlers[0].idle() == 0


def test_open_handler_port_takes_the_process_context(pair):
    class Context:
        core, role, index = pair.core, "handler", 1

    assert open_handler_port(Context).index == 1
    with pytest.raises(IndexError):
        HandlerPort(pair.core, 2)
    with pytest.raises(IndexError):
        ProcessorPort(pair.core, 1)
    with pytest.raises(TypeError):
        ProcessorPort("no core", 0)


def test_the_default_plan_fits_the_core():
    core = small_core(
        **MemoryPlan()._asdict() | {"arena_processor_bytes": 1 << 20, "arena_handler_bytes": 1 << 20}
    ).core
    assert (core.entry_count, core.partition_count, core.handler_count) == (4096, 16384, 2)


def test_crash_points_count_down(pair):
    try:
        pair.core.arm("some.point:1000")
    except ValueError as error:
        assert "not compiled in" in str(error)
        return
    pair.core.crash_point("some.point")
    pair.core.crash_point("another.point")
    assert (pair.core.hits("some.point"), pair.core.hits("another.point")) == (1, 0)
    pair.core.disarm()
    pair.core.crash_point("some.point")
    assert pair.core.hits("some.point") == 1
    with pytest.raises(ValueError, match="allowed is"):
        pair.core.arm("name:x")


@pytest.mark.parametrize("length", [100, INLINE_PAYLOAD_BYTES + 1000])
def test_another_process_reads_a_request_that_a_handler_holds(pair, length):
    sent = frame(body=b"b" * length)
    pair.submit(sent)
    handler = pair.handlers[0]
    request = handler.serve_or_claim()
    entry, fill_number = request.entry, request.fill_number
    assert held_payload(pair.core, entry, fill_number) == sent
    assert held_payload(pair.core, entry, fill_number + 1) is None
    handler.answer_none(request)
    pair.processor.collect(9)
    assert held_payload(pair.core, entry, fill_number) is None
    with pytest.raises(IndexError):
        held_payload(pair.core, 1 << 20, 1)
