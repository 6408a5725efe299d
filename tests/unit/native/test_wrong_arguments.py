"""What is no argument of a call, at each of its places: a TypeError that leaves nothing behind; the call goes on."""

from contextlib import suppress

import pytest

from mpbroker import _native
from tests.harness.no_memory import leaves_nothing
from tests.unit.native import test_no_memory
from tests.unit.native.test_no_memory import CALLS, CORE, MAPPED, OUT
from tests.unit.native.test_no_memory_log import READ, WHOLE_LOG
from tests.unit.native.test_no_memory_log import leader as leader

#: Classes of messages: what is none is told so by the builder of plans, which wants its name.
CLASSES = {("codec_decode", 0), ("codec_decode_prefix", 0)}


class _Nothing:
    """Neither a number, nor a text, nor a buffer, nor a sequence."""


def wrong_calls(name, arguments):
    """Each place with nothing in it in turn; too many and too few."""
    nothing = _Nothing()
    for place, value in enumerate(arguments):
        if type(value) is not bool and (name, place) not in CLASSES:
            yield (*arguments[:place], nothing, *arguments[place + 1 :])
    yield (*arguments, *[0] * 20)
    if arguments and name != "LogOptions":
        yield ()


def refuses(name, function, arguments):
    wrong = [*wrong_calls(name, arguments)]
    for each in wrong:
        with pytest.raises((TypeError, ValueError)) as refused:
            function(*each)
        assert str(refused.value)

    def work():
        for each in wrong:
            with suppress(TypeError, ValueError):
                function(*each)

    nothing = [each[at] for each in wrong for at in range(len(each)) if isinstance(each[at], _Nothing)][:1]
    parts = [part for one in arguments if isinstance(one, tuple | list) for part in one]
    leaves_nothing(work, [*arguments, *parts, *nothing, None, True, False, (), b"", ""])


@pytest.mark.parametrize("name", CALLS)
def test_of_a_function(name):
    function = getattr(_native, name)
    for arguments in CALLS[name]:
        kind = type(function(*arguments))
        refuses(name, function, arguments)
        assert type(function(*arguments)) is kind


@pytest.mark.parametrize("name", MAPPED)
def test_of_a_key_map(name):
    for arguments in MAPPED[name]:
        refuses(name, getattr(test_no_memory.KEYS, name), arguments)


@pytest.mark.parametrize("name", READ)
def test_of_a_row(leader, name):
    refuses(name, getattr(leader.log, name), (0, *READ[name]))


@pytest.mark.parametrize("name", [name for name in WHOLE_LOG if name != "take_isr_proposals"])
def test_of_a_log(leader, name):
    refuses(name, getattr(leader.log, name), WHOLE_LOG[name])


#: What is written into, and how many bytes of it are needed at least.
WRITTEN = {
    "seal_batch": (lambda buffer: _native.seal_batch(buffer), bytearray(test_no_memory.BATCH)),
    "lz4_read": (lambda buffer: _native.lz4_read(b"", buffer), bytearray(9)),
    "trace_lane_format": (
        lambda buffer: _native.trace_lane_format(buffer, 64, 0, 1), bytearray(_native.TRACE_LANE_HEADER_BYTES + 8192)
    ),
    "codec_encode_into": (lambda buffer: _native.codec_encode_into(test_no_memory.METADATA, 9, buffer), OUT),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written_into(name):
    """Bytes, a view that is only to be read, one with gaps, one that was let go of."""
    call, good = WRITTEN[name]
    call(good)
    gone, gaps = memoryview(bytearray(good)), memoryview(bytearray(good) * 2)[::2]
    gone.release()
    for wrong in (bytes(good), memoryview(bytes(good)), gaps, gone, None, 5):
        with pytest.raises((TypeError, ValueError, BufferError)):
            call(wrong)
    view = memoryview(good)
    call(view)
    view.release()  # BufferError: somebody has it still
    good.append(0)
    del good[-1:]


def test_rows_behind_the_tables(leader):
    """The first number that is no row, and the last that is one."""
    topics, partitions = _native.topic_count(CORE), CORE.partition_count
    for call, count in (
        (lambda row: _native.topic_read(CORE, row), topics),
        (lambda row: _native.journal_append(CORE, row), topics),
        (lambda row: _native.partition_who(CORE, row), partitions),
        (lambda row: _native.partition_link(CORE, row, 0), partitions),
        (lambda row: _native.broker_read(CORE, row), _native.broker_rows(CORE)),
        (leader.log.state, leader.core.partition_count),
    ):
        call(count - 1)
        for row in (count, count + 1, (1 << 32) - 1):
            with pytest.raises((IndexError, ValueError)):
                call(row)
    _native.rows_raise(CORE, topics, partitions)
    for wrong in ((topics + 1, 0), (0, partitions + 1)):
        with pytest.raises(IndexError, match=f"the tables have {topics} topic and {partitions} partition rows"):
            _native.rows_raise(CORE, *wrong)
    assert _native.rows_high(CORE) == (topics, partitions)
    _native.topic_partitions(CORE, bytes(16), 0, partitions)
    for wrong in ((bytes(15), 0, 1), (bytes(17), 0, 1), (bytes(16), 0, partitions + 1)):
        with pytest.raises(ValueError, match=f"an id of 16 bytes and at most {partitions} partitions"):
            _native.topic_partitions(CORE, *wrong)
    assert _native.topic_partitions(CORE, bytes(16), 300, 3) == [300, 301, 302]
    assert _native.topic_partitions(CORE, bytes(16), 300, 2) == [300, 301]
    assert _native.topic_partitions(CORE, bytes(16), 301, 1) is None
