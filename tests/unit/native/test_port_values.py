"""What is handed over at one end of shared memory arrives at the other, up to the largest that fits and no further."""

import re

import pytest

from mpbroker import _native
from mpbroker.channel.planes import CONTROL, DATA
from mpbroker.trace.record import NOT_REACHED, STAGES, TICK_NS, unpack
from tests.harness.small_core import small_core
from tests.unit.trace.traces import full_request

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
HANDLER_SLOT, CONTROLLER_SLOT = 48, 112
COMMAND_BYTES, ANSWER_BYTES = 40_960, 24_512  # as the docstrings of send() and complete() say
TOPIC_ID = bytes(range(16))


@pytest.fixture
def core():
    return small_core(replicated=True, processors=2).core


class Traced:
    """A processor with a lane, and a handler."""

    def __init__(self, core) -> None:
        self.memory = bytearray(1 << 16)
        _native.trace_lane_format(self.memory, 8, 0, 7)
        self.lane = _native.TraceLane(self.memory)
        self.processor, self.handler = _native.ProcessorPort(core, 0, -1, self.lane), _native.HandlerPort(core, 0)

    def told(self, request):
        """The trace record of a request, which ends here."""
        self.handler.answer_none(request)
        [(entry, *_)] = self.processor.collect(9)
        self.processor.sent(entry)
        record = unpack(self.memory, self.lane.peek(8)[0])
        self.lane.release(1)
        return record


@pytest.fixture
def traced(core):
    return Traced(core)


def test_what_is_said_of_a_frame(traced):
    """The time when it was whole is that of its first byte unless it is told; whose it is says its client's name."""
    for given, ticks in (((), 0), ((0,), 0), ((1 + 500 * TICK_NS,), 500), ((1 + 500 * TICK_NS, 77), 500)):
        for plane in (DATA, CONTROL):
            assert traced.processor.submit(plane, 5, 6, 7, FRAME, 1, *given) >= 0
            request = traced.handler.serve_or_claim()
            said = (request.plane, request.connection, request.connection_generation, request.listener)
            assert said == (plane, 5, 6, 7)
            record = traced.told(request)
            assert (record.t0_ns, record.stage[STAGES.index("frame_done")], record.listener) == (1, ticks, 7)
            assert record.client_hash == (77 if len(given) > 1 else _native.crc32c(b"me"))


def test_stages_of_a_request(traced):
    """From the first to the last one; what is none is refused and changes nothing."""
    traced.processor.submit(DATA, 5, 6, 7, FRAME, 1)
    request = traced.handler.serve_or_claim()
    for wrong in (-1, len(STAGES), len(STAGES) + 1):
        with pytest.raises(IndexError, match=f"no trace stage {wrong}"):
            request.stamp(wrong)
    for stage in (0, STAGES.index("handler_start"), len(STAGES) - 1):
        request.stamp(stage)
    for wrong, error in (("x", TypeError), (None, TypeError), (1 << 64, OverflowError)):
        for call in (request.stamp, request.set_error):
            with pytest.raises(error):
                call(wrong)
    record = traced.told(request)
    assert all(record.stage[stage] != NOT_REACHED for stage in (STAGES.index("handler_start"), len(STAGES) - 1))


@pytest.mark.parametrize("parts", [0, 1, 65_534, 65_535, 65_536, U32])
def test_what_a_request_was_about(traced, parts):
    traced.processor.submit(DATA, 5, 6, 7, FRAME, 1)
    request = traced.handler.serve_or_claim()
    request.set_trace(parts, 11, 12, 0)
    request.set_error(0), request.set_error(5), request.set_error(6)
    record = traced.told(request)
    assert (record.nparts, record.topic_hash, record.aux, record.error) == (min(parts, 65_535), 11, 12, 5)


def test_a_wait_ends(traced):
    """Also one of less than a millisecond, and one that is over already."""
    for wait_ms in (0, 0.5, 0.999, 1, 1.5):
        assert traced.handler.serve_or_claim(wait_ms) is None
        assert traced.handler.serve_or_claim(wait_ms=wait_ms, control_only=True) is None
    traced.processor.submit(DATA, 5, 6, 7, FRAME, 1)
    assert traced.handler.serve_or_claim(1, True) is None
    assert traced.handler.serve_or_claim(-1) is not None


def test_rows_of_the_second_processor(core):
    """They begin behind those of the first."""
    first, second = _native.ProcessorPort(core, 0), _native.ProcessorPort(core, 1)
    assert second.submit(DATA, 5, 6, 7, FRAME, 1) == core.entry_count // 2
    assert [row[0] for row in core.entry_states()] == [core.entry_count // 2]
    assert first.submit(DATA, 5, 6, 7, FRAME, 1) == 0
    assert [row[0] for row in core.entry_states()] == [0, core.entry_count // 2]
    assert first.queued_bytes() == second.queued_bytes()
    requests = {request.entry: request.processor for request in iter(_native.HandlerPort(core, 0).serve_or_claim, None)}
    assert requests == {0: 0, core.entry_count // 2: 1}


def test_a_page_and_an_arena_of_their_own_sizes():
    """Each part's length is looked at, not another's."""
    small = small_core()
    parts = [memoryview(part) for part in small.memory]
    for place in range(3):
        for cut in (1, 4096):
            wrong = [part[:-cut] if at == place else part for at, part in enumerate(parts)]
            with pytest.raises(ValueError, match="missing or too long"):
                _native.Core(*wrong)
    assert _native.Core(*parts).handler_count == 2


def test_a_request_that_is_held_can_be_read(core):
    """By its number; not when it is answered, sent, over, or another one."""
    processor, handler = _native.ProcessorPort(core, 0), _native.HandlerPort(core, 0)
    for frame in (FRAME, FRAME + bytes(500)):
        entry = processor.submit(DATA, 5, 6, 7, frame, 1)
        request = handler.serve_or_claim()
        number = request.fill_number
        assert _native.held_payload(core, entry, number) == frame
        assert _native.held_payload(core, entry, number + 1) is _native.held_payload(core, entry, number - 1) is None
        handler.park(request, 1)
        assert _native.held_payload(core, entry, number) == frame
        handler.resume(request)
        handler.answer(request, b"x")
        assert _native.held_payload(core, entry, number) is None
        assert len(processor.collect(9)) == 1
        assert _native.held_payload(core, entry, number) is None
        processor.sent(entry)
        assert _native.held_payload(core, entry, number) is None
    for row in (core.entry_count, core.entry_count + 1, U32):
        with pytest.raises(IndexError, match=f"no row {row} of entries, there are {core.entry_count}"):
            _native.held_payload(core, row, 1)
    assert _native.held_payload(core, core.entry_count - 1, 1) is None


@pytest.mark.parametrize("length", [24, 777])
def test_a_request_whose_length_is_nonsense_is_none(length):
    """The entry may be filled anew while it is read: nothing beyond the memory is looked at."""
    small = small_core()
    processor, handler = _native.ProcessorPort(small.core, 0), _native.HandlerPort(small.core, 0)
    frame = FRAME + b"\xee" * (length - len(FRAME))
    entry = processor.submit(DATA, 5, 6, 7, frame, 1)
    number = handler.serve_or_claim().fill_number
    begin = small.place("entries", entry)
    size = small.place("entries", entry + 1) - begin
    row, told = small.memory[0][begin : begin + size], length.to_bytes(4, "little")
    places = [at for at in range(0, size, 4) if row[at : at + 4] == told]
    assert places and _native.held_payload(small.core, entry, number) == frame
    for at in places:
        small.memory[0][begin + at : begin + at + 4] = (1 << 31).to_bytes(4, "little")
    assert _native.held_payload(small.core, entry, number) is None
    for at in places:
        small.memory[0][begin + at : begin + at + 4] = told
    assert _native.held_payload(small.core, entry, number) == frame


def most_of(call, pattern):
    """Numbers of what is allowed, as the refusal of far too much says."""
    with pytest.raises(ValueError) as refused:
        call()
    return [int(number) for number in re.search(pattern, str(refused.value)).groups()]


def test_the_longest_name_and_settings_of_a_topic(core):
    def write(name, settings, topic_id=TOPIC_ID):
        _native.topic_write(core, 1, 3, topic_id, name, 5, 6, settings, 7)

    above, most = most_of(lambda: write("x" * 5000, b""), r"a name below (\d+) and settings up to (\d+)")
    for name in ("", "x", "x" * (above - 1)):
        for settings in (b"", b"y", b"y" * most):
            write(name, settings)
            assert _native.topic_read(core, 1)[1:] == (3, TOPIC_ID, name, 5, 6, settings, 7)
    before = _native.topic_read(core, 1)
    for wrong in (("x" * above, b""), ("x", b"y" * (most + 1)), ("x", b"", bytes(15)), ("x", b"", bytes(17))):
        with pytest.raises(ValueError, match="a topic has an id of 16 bytes"):
            write(*wrong)
    assert _native.topic_read(core, 1) == before
    assert _native.topics_changed(core, []) == [] and _native.rows_high(core) == (0, 0)
    _native.rows_raise(core, 2, 0)
    assert _native.topics_changed(core, []) == [1] == _native.topics_changed(core, [0, 0])
    assert _native.topics_changed(core, [5, before[0]]) == [0]
    with pytest.raises(TypeError):
        _native.topics_changed(core, ["x"])


def test_the_most_replicas_and_endpoints(core):
    def write(row=0, topic_id=TOPIC_ID, *, replicas=(), isr=(), offline=()):
        _native.assignment_write(core, row, topic_id, 5, 6, 7, 8, 9, replicas, isr, offline)

    [most] = most_of(lambda: write(replicas=range(99)), r"99 replicas, allowed are (\d+)")
    for place in ("replicas", "isr", "offline"):
        ids = list(range(100, 100 + most))
        write(**{place: ids})
        assert _native.assignment_read(core, 0)[:6] == (TOPIC_ID, 5, 6, 7, 8, 9)
        lists = [ids if one == place else [] for one in ("replicas", "isr", "offline")]
        assert [*_native.assignment_read(core, 0)[6:]] == lists
        with pytest.raises(ValueError, match=f"{most + 1} replicas, allowed are {most}"):
            write(**{place: [*ids, 1]})
        for wrong in (5, None, ["x"], [1 << 70]):
            with pytest.raises((TypeError, OverflowError)):
                write(**{place: wrong})
    write(topic_id=bytes(16))
    assert _native.assignment_read(core, 0) is None
    [most] = most_of(lambda: _native.broker_write(core, 0, 1, 2, bytes(99_999)), r"endpoints, allowed are (\d+)")
    for row in (0, _native.broker_rows(core) - 1):
        for length in (1, most - 1, most):
            _native.broker_write(core, row, -5, 1 << 40, b"x" * length)
            assert _native.broker_read(core, row) == (-5, 1 << 40, b"x" * length)
        with pytest.raises(ValueError, match=f"{most + 1} bytes of endpoints"):
            _native.broker_write(core, row, 1, 2, bytes(most + 1))
        _native.broker_write(core, row, 1, 2, b"")
        assert _native.broker_read(core, row) is None


def test_who_controls_and_since_when(core):
    assert _native.cluster_state(core) == (0, -1, 0, -1)
    for number, told in enumerate([(5, 6, 7), (0, 0, 0), (-1, -1, -1), ((1 << 31) - 2, (1 << 31) - 1, 1 << 40)]):
        assert _native.cluster_announce(core, *told) == number + 1
        assert _native.cluster_state(core) == (number + 1, *told)


def test_rows_that_are_known(core):
    rows = _native.KnownRows(core, True)
    last = rows.count - 1
    rows.put(0, b"a" * 16, 1), rows.put(last, b"b" * 16, U64)
    for wrong in ((0, b"a" * 15, 5), (0, b"a" * 17, 5), (0, b"a" * 16, 0), (last + 1, b"a" * 16, 5)):
        with pytest.raises(ValueError, match=f"^row {wrong[0]}, key of {len(wrong[1])} bytes, word {wrong[2]}$"):
            rows.put(*wrong)
    assert rows.rows() == [(0, b"a" * 16, 1), (last, b"b" * 16, U64)]
    with pytest.raises(IndexError, match=f"{last + 1} is out of range"):
        rows.drop(last + 1)
    rows.drop(last)
    assert rows.rows() == [(0, b"a" * 16, 1)]
    assert _native.KnownRows(core, False).rows() == []


def test_the_longest_command_and_answer(core):
    sends, takes = _native.CommandPort(core, HANDLER_SLOT), _native.CommandPort(core, CONTROLLER_SLOT)
    for operation, length in enumerate((0, 1, COMMAND_BYTES - 1, COMMAND_BYTES), 5):
        number = sends.send(b"c" * length, operation)
        assert number >= 0 and takes.claim(0) == (number, operation, b"c" * length)
        assert takes.complete(number, bytes(ANSWER_BYTES + 1), 9) is False
        assert sends.answers() == []
        answer = b"a" * min(length, ANSWER_BYTES)
        assert takes.complete(number, answer, 9) is True
        assert takes.complete(number, answer, 9) is False, "it is answered"
        assert sends.answers() == [(number, operation, answer, 9)]
        assert sends.free(number) is True and sends.free(number) is False and sends.answers() == []
    assert sends.send(bytes(COMMAND_BYTES + 1), 99) == _native.COMMAND_TOO_LONG
    assert takes.claim(0) is None is takes.claim(0.5)
    numbers = [sends.send(b"x", operation) for operation in (100, 101, 102)]
    for number in numbers:
        assert takes.claim(0)[0] == number and takes.complete(number, b"y", 9) is True
    assert sorted(row[0] for row in sends.answers()) == sorted(numbers)
    with pytest.raises(TypeError, match="the controller sends no commands"):
        takes.send(b"x", 1)
    for slot in (HANDLER_SLOT, CONTROLLER_SLOT):
        _native.CommandPort(core, slot)
    for slot in (HANDLER_SLOT - 1, CONTROLLER_SLOT + 1):
        with pytest.raises(IndexError, match=f"slot {slot} is neither"):
            _native.CommandPort(core, slot)


def test_who_was_here_last_is_not_evicted():
    """A session that was kept without a time was not used."""
    for kept_ms, evicted in ((200, False), (0, True), (1, True), (195, False), (194, True)):
        sessions = _native.FetchSessions(small_core(fetch_sessions=1, session_units=8).core, HANDLER_SLOT)
        first = sessions.create(100, 10, 0, 0, 0)
        sessions.keep(1, 0, 5, kept_ms)
        assert first and sessions.hold(first) == _native.SESSION_HELD
        assert sessions.read() == (1, 0, 5, 0, 0, b"")
        sessions.release()
        second = sessions.create(205, 10, 0, 0, 0)
        assert (second != 0) is evicted, kept_ms


def test_a_lane_takes_any_number():
    memory = bytearray(_native.TRACE_LANE_HEADER_BYTES + 64 * 128)
    _native.trace_lane_format(memory, 64, 0, 1)
    lane, record = _native.TraceLane(memory), full_request(1).pack()
    for length in (0, 127, 129):
        with pytest.raises(ValueError, match="a trace record has 128 bytes"):
            lane.put((record * 2)[:length])
    for _ in range(3):
        lane.put(record)
    assert lane.peek(0)[1] == 0 and [lane.peek(most)[1] for most in (1, 2, 3, U64)] == [128, 256, 384, 384]
    lane.release(1)
    assert lane.peek(U64)[1] == 256 and lane.seek(U64) is False
    lane.release(U64)
    assert lane.peek(U64)[1] == 0
    for call in (lane.peek, lane.release, lane.seek):
        for wrong, error in (("x", TypeError), (None, TypeError), (-1, OverflowError), (U64 + 1, OverflowError)):
            with pytest.raises(error):
                call(wrong)
    for wrong in (0, -1, -5):
        with pytest.raises(ValueError, match="count must be positive"):
            lane.bench_commit(wrong)
    with pytest.raises(TypeError):
        lane.bench_commit("x")


def test_what_a_commit_costs():
    """So many are made, and as the oldest make room none is dropped; of nanoseconds, one takes some."""
    memory = bytearray(_native.TRACE_LANE_HEADER_BYTES + 2048 * 128)
    _native.trace_lane_format(memory, 2048, 0, 1)
    lane = _native.TraceLane(memory)
    assert 0 < lane.bench_commit(5000) < 1e9
    finished, written, dropped, sampled_out, _ = lane.counters()
    assert (finished, written, dropped, sampled_out) == (5000, 5000, 0, 0)
    assert lane.bench_commit(1) > 0 and lane.counters()[0] == 5001
