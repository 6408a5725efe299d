"""What a core reads of tables that somebody else may have written anything into: the last row, none behind it."""

import struct

import pytest

from mpbroker import _native
from mpbroker.channel.planes import DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from tests.harness.small_core import small_core, small_plan

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
ENTRIES = 64
#: struct mpb_entry and struct mpb_doorbells (layout.h)
STATE, OFFSET, LENGTH, INLINE_BYTES = 0, 16, 24, 320
CLAIMED, MARK_BYTES, KILLER_ROWS = _native.LAYOUT["entry.claimed"], 64, 8
ENTRIES_HIGH = _native.LAYOUT["doorbells.entries_high"]
IN_HAND = ENTRIES_HIGH - 8 - 64 * MARK_BYTES


class Memory:
    """A core whose tables a test writes to itself."""

    def __init__(self, **plan) -> None:
        self.small = small_core(**plan)
        self.core = self.small.core
        self.place = self.small.place
        self.arena_bytes = small_plan(**plan).arena_bytes

    def write(self, region, row, at, form, *values):
        struct.pack_into(form, self.small.memory[0], self.place(region, row, at), *values)

    def read(self, region, row, at, form):
        return struct.unpack_from(form, self.small.memory[0], self.place(region, row, at))[0]


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def held(memory):
    """A request in hand, with the memory and both ports; its entry."""
    processor, handler = _native.ProcessorPort(memory.core, 0), _native.HandlerPort(memory.core, 0)
    entry = processor.submit(DATA, 5, 6, 7, FRAME, 1)
    request = handler.serve_or_claim()
    return memory, processor, handler, request, entry


def test_a_frame_of_the_memory_to_its_last_byte(held):
    """Inline as much as fits there, else up to the end of the arena; what is longer, or begins later, is none."""
    memory, _, _, request, entry = held
    number = request.fill_number
    inline = memory.small.memory[0][memory.place("entries", entry + 1) - INLINE_BYTES :][:INLINE_BYTES]
    memory.write("entries", entry, LENGTH, "<I", INLINE_BYTES)
    assert _native.held_payload(memory.core, entry, number) == inline
    memory.write("entries", entry, LENGTH, "<I", INLINE_BYTES + 1)
    assert _native.held_payload(memory.core, entry, number) is None
    arena, size = memory.small.memory[2], memory.arena_bytes
    arena[size - 9 :] = b"last word"
    for offset, length, found in (
        (size - 9, 9, b"last word"), (size - 9, 10, None), (size - 8, 9, None), (size, 0, b""), (size + 1, 0, None),
        (0, size, bytes(arena)), (0, size + 1, None), (size - 1, 1, b"d"), (1 << 60, 1, None),
    ):  # fmt: skip
        memory.write("entries", entry, OFFSET, "<QI", offset, length)
        assert _native.held_payload(memory.core, entry, number) == found, (offset, length)


@pytest.mark.parametrize(
    ("state", "is_held"), [(*pair,) for pair in zip(range(8), (0, 0, 1, 1, 1, 0, 0, 1), strict=True)]
)
def test_a_request_that_is_over_is_not_held(held, state, is_held):
    """Before it is filled, and when its answer is there: only in between it is the request that was meant."""
    memory, _, _, request, entry = held
    number, word = request.fill_number, memory.read("entries", entry, STATE, "<Q")
    assert word >> 24 & 0xFF == CLAIMED
    memory.write("entries", entry, STATE, "<Q", word & ~(0xFF << 24) | state << 24)
    assert _native.held_payload(memory.core, entry, number) == (FRAME if is_held else None)


def test_a_frame_in_hand_is_one_of_the_table(held):
    """The row behind the last one is none, whatever is there; nor is one that somebody else holds."""
    memory, _, handler, request, entry = held
    assert memory.core.frame_in_hand(0)[1] == FRAME
    row = memory.small.memory[0][memory.place("entries", entry) : memory.place("entries", entry + 1)]
    behind = memory.place("entries", ENTRIES)
    memory.small.memory[0][behind : behind + len(row)] = row
    for number, found in ((entry + 1, FRAME), (ENTRIES, None), (ENTRIES + 1, None), (0, None)):
        memory.write("doorbells", 0, IN_HAND, "<I", number)
        assert (memory.core.frame_in_hand(0) or (0, None))[1] == found, number
    memory.write("doorbells", 0, IN_HAND, "<I", 0)
    memory.write("doorbells", 0, IN_HAND + MARK_BYTES, "<I", entry + 1)
    assert memory.core.frame_in_hand(1) is None, "another handler's"
    memory.write("doorbells", 0, IN_HAND, "<I", entry + 1)
    handler.answer_none(request)
    memory.write("doorbells", 0, IN_HAND, "<I", entry + 1)
    assert memory.core.frame_in_hand(0) is None, "it is answered"


def test_entries_that_were_never_used_are_not_looked_at():
    """Each processor says how many of its own it ever used."""
    memory = Memory(processors=2)
    ports = [_native.ProcessorPort(memory.core, number) for number in range(2)]
    assert [port.submit(DATA, 5, 6, 7, FRAME, 1) for port in (*ports, ports[1])] == [0, ENTRIES, ENTRIES + 1]
    assert [row[0] for row in memory.core.entry_states()] == [0, ENTRIES, ENTRIES + 1]
    for number, high, found in ((1, 1, [0, ENTRIES]), (0, 0, [ENTRIES]), (1, 0, [])):
        memory.write("doorbells", 0, ENTRIES_HIGH + number * MARK_BYTES, "<I", high)
        assert [row[0] for row in memory.core.entry_states()] == found


def test_every_row_of_frames_that_killed(memory):
    """The first and the last; what stands behind them is something else."""
    for number in range(KILLER_ROWS):
        memory.core.add_killer(1000 + number, number, number + 1)
    memory.write("killers", KILLER_ROWS, 0, "<QQ", 5, 5)
    assert sorted(memory.core.killers()) == [(1000 + number, number, number + 1) for number in range(KILLER_ROWS)]


def test_numbers_that_a_core_says_are_told_apart(memory):
    core = memory.core
    assert (core.coordinator, core.coordinator_wanted, core.sleepers) == (-1, False, 0)
    assert core.coordinator_wanted is False
    _native.HandlerPort(core, 0).want_coordinator()
    assert core.coordinator_wanted is True
    generation = _native.journal_append(core, 3)
    assert (core.metadata_generation, core.moves, core.sleepers, core.transactions_ready) == (generation, 0, 0, 0)
    memory.write("doorbells", 0, 0, "<Q", 5)
    assert (core.sleepers, core.moves, core.coordinator_wanted, core.reserved_handlers) == (5, 0, True, 0)
    for coordinator in (0, 1, 2):
        struct.pack_into("<I", memory.small.memory[0], _native.LAYOUT["header.coordinator"], coordinator)
        assert core.coordinator == coordinator - 1


def test_who_told_of_a_partition_is_counted(memory):
    """Nobody but the supervisor, unless it is said who; and once while it is not looked at."""
    port = _native.HandlerPort(memory.core, 0)

    def counted():
        rows = {slot: ProcessRow(memory.core, slot).counter(Counter.PARTITION_NOTICES) for slot in range(64)}
        port.take_dirty()
        return {slot: count for slot, count in rows.items() if count}

    memory.core.ring_handler(0), memory.core.ring_handler(0)
    assert counted() == {0: 1}
    port.watch(3)
    memory.core.notify_partition(3)
    assert counted() == {0: 2}
    port.watch(3)
    memory.core.notify_partition(3, 5)
    assert counted() == {0: 2, 5: 1}


def test_why_a_crash_point_is_not_armed(memory):
    for wrong in (":1", "x:", "x:0", "x" * 48, "x:1=go"):
        with pytest.raises(ValueError, match="allowed is name"):
            memory.core.arm(wrong)
    with pytest.raises(ValueError, match="too many"):
        memory.core.arm(",".join(f"point{number}:9" for number in range(64)))
    memory.core.crash_point("point5"), memory.core.crash_point("point5")
    assert [memory.core.hits(name) for name in ("point0", "point5", "point63")] == [0, 2, 0]


def test_a_wake_that_was_meant_for_a_request_is_passed_on(memory):
    """Who looked for control requests alone, or was told of something else, wakes another one for what is queued."""
    processor = _native.ProcessorPort(memory.core, 0)
    handler, _ = (_native.HandlerPort(memory.core, number) for number in (0, 1))
    memory.write("doorbells", 0, 0, "<Q", 1 << 1)
    assert handler.serve_or_claim(0, True) is None and memory.core.sleepers == 1 << 1, "nothing is queued"
    memory.write("doorbells", 0, 0, "<Q", 0)
    assert processor.submit(DATA, 5, 6, 7, FRAME, 1) >= 0
    memory.write("doorbells", 0, 0, "<Q", 1 << 1)
    assert handler.serve_or_claim(0, True) is None
    assert memory.core.sleepers == 0, "that one was woken"


def test_topics_that_there_is_no_row_for(memory):
    """However many rows are said to have been used, whatever stands behind the last one."""
    core, count = memory.core, _native.topic_count(memory.core)
    _native.topic_write(core, 0, 1, bytes(range(16)), "t", 1, 0, b"", 1)
    assert _native.topics_changed(core, []) == [], "none was said to be used"
    _native.topic_write(core, count - 1, 1, bytes(range(16)), "t", 1, 0, b"", 1)
    behind = memory.place("topics", count)
    memory.small.memory[0][behind : behind + 8192] = b"\xff" * 8192
    struct.pack_into("<I", memory.small.memory[0], _native.LAYOUT["header.topics_high"], count + 5)
    assert _native.topics_changed(core, []) == [0, count - 1]


def test_what_is_put_down_of_a_session():
    """Each number in its place; of a time that is 0 nothing; the highest id is one like others."""
    memory = Memory(fetch_sessions=4, session_units=8)
    sessions = _native.FetchSessions(memory.core, 48)
    made = sessions.create(1000, 10, 1, 0, 0)
    assert sessions.read() == (1, 1, 0, 0, 0, b"")
    for epoch, flags, number in ((2, 6, 7), ((1 << 32) - 1, 0, (1 << 64) - 1), (9, (1 << 32) - 1, 0)):
        assert sessions.keep(epoch, flags, number, 2000) is None
        assert sessions.hold(made) == _native.SESSION_HELD and sessions.read() == (epoch, flags, number, 0, 0, b"")
    sessions.release()
    row = next(row for row in range(4) if memory.read("fetch_sessions", row, 0, "<Q") >> 32 == made)
    highest = (1 << 31) - 1
    word = memory.read("fetch_sessions", row, 0, "<Q")
    memory.write("fetch_sessions", row, 0, "<Q", 0)
    memory.write("fetch_sessions", highest & 3, 0, "<Q", highest << 32)
    assert word & 0xFFFFFFFF == 0, "nobody holds it"
    assert sessions.hold(highest) == _native.SESSION_HELD and sessions.drop() is None
    for gone in (highest, highest + 1, (1 << 32) - 1, made, 0):
        assert sessions.hold(gone) == _native.SESSION_UNKNOWN
    with pytest.raises(ValueError, match="no session is held"):
        sessions.read()


def test_a_successor_holds_no_session():
    """What its predecessor held is dropped, and it may hold another."""
    memory = Memory(fetch_sessions=4, session_units=8)
    sessions = _native.FetchSessions(memory.core, 48)
    held = sessions.create(1000, 10, 0, 0, 0)
    assert [_native.FetchSessions(memory.core, slot).recover() for slot in (0, 47, 49)] == [0, 0, 0], "others' slots"
    assert sessions.recover() == 1 and sessions.recover() == 0
    with pytest.raises(ValueError, match="no session is held"):
        sessions.read()
    assert sessions.hold(held) == _native.SESSION_UNKNOWN
    other = sessions.create(1000, 10, 0, 0, 0)
    with pytest.raises(ValueError, match="a session is held already"):
        sessions.create(1000, 10, 0, 0, 0)
    sessions.release()
    assert sessions.recover() == 0 and sessions.hold(other) == _native.SESSION_HELD
    sessions.drop()
    assert sessions.hold(other) == _native.SESSION_UNKNOWN
