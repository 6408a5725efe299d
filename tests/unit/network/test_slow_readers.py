"""Readers that take nothing, or a little now and then, of answers whose memory others wait for; a second at a time."""

import socket
from types import SimpleNamespace

import pytest

from mpbroker.network.slow_readers import KEPT_LOOKS, MEMORY_EXHAUSTED, MEMORY_SHORT, RATE_NS, SECOND_NS, SlowReaders
from mpbroker.shm.counters import Counter

MB = 1_000_000
EXHAUSTED, SHORT = Counter.NO_ANSWER_SPACE, Counter.FETCHES_SHORTENED
SILENT, TOO_SLOW = "the client does not read", "the client reads too slowly"
NO_DESCRIPTOR = 1 << 30  # nothing lies in a kernel


class Reader:
    """A connection whose answer of so many bytes goes at `bytes_per_s`."""

    def __init__(self, name, size, bytes_per_s, started_ns, taken_at_once=0):
        self.name, self.size, self.bytes_per_s = name, size, bytes_per_s
        self.out_started_ns, self.sent_bytes, self.blocked = started_ns, taken_at_once, True
        self.fd = NO_DESCRIPTOR

    @property
    def rest(self):
        return self.size - self.sent_bytes

    def __hash__(self):
        return hash(self.name)


class Second:
    """Each step is a second: the readers read, handlers count, and whoever is to go goes."""

    def __init__(self):
        self.counters = [{EXHAUSTED: 3, SHORT: 0}, {EXHAUSTED: 4, SHORT: 7}]
        handlers = [SimpleNamespace(counter=one.__getitem__) for one in self.counters]
        self.readers, self.now_ns = [], 10**12
        self.slow = SlowReaders(handlers, lambda reader: reader.rest)

    def add(self, name, size, bytes_per_s, **more):
        self.readers.append(Reader(name, size, bytes_per_s, self.now_ns, **more))
        return self.readers[-1]

    def passes(self, short=None, after_ns=SECOND_NS):
        self.now_ns += after_ns
        for reader in self.readers:
            reader.sent_bytes += min(reader.rest, reader.bytes_per_s * after_ns // SECOND_NS)
            reader.blocked = reader.rest > 0
        if short is not None:
            self.counters[1][short] += 1
        found = self.slow.overdue(self.readers, self.now_ns)
        self.readers = [reader for reader in self.readers if reader not in [channel for channel, _ in found]]
        return {channel.name: reason for channel, reason in found}

    def closed_in(self, seconds, short):
        """Who is closed, and in which second."""
        return {name: n for n in range(1, seconds + 1) for name in self.passes(short)}


@pytest.fixture
def second():
    return Second()


def test_while_there_is_memory_clients_may_be_as_slow_as_they_like(second):
    second.add("silent", 36 * MB, 0)
    second.add("slow", 36 * MB, 2000)
    assert second.closed_in(60, None) == {}


@pytest.mark.parametrize(("short", "second_of_the_close"), [(EXHAUSTED, 2), (SHORT, 6)])
def test_while_memory_is_short_who_takes_a_little_is_closed_as_who_takes_nothing(second, short, second_of_the_close):
    """100 KB/s is 2 KB each 20 ms: what is left of 36 MB would take six minutes."""
    assert second.passes(None) == {}, "what was counted before it began is no news"
    second.add("silent", 36 * MB, 0, taken_at_once=3 * MB)
    second.add("slow", 40 * MB, 100_000, taken_at_once=3 * MB)
    for _ in range(second_of_the_close - 1):
        assert second.passes(short) == {}
    closed = second.passes(short)
    assert list(closed.items()) == [("slow", TOO_SLOW), ("silent", SILENT)], "the largest first"


def test_only_what_handlers_count_since_the_last_look_says_that_memory_is_short(second):
    second.add("slow", 36 * MB, 100_000)
    assert second.passes(None) == second.passes(None) == {}
    assert second.passes(EXHAUSTED).keys() == {"slow"}


def test_where_others_get_less_a_fair_rate_is_not_hurt(second):
    """Whose rest is gone in 30 s by the rate of its last five."""
    second.passes()
    second.add("fair", 36 * MB, MB)
    second.add("too slow", 36 * MB + 1, MB)
    assert second.closed_in(60, SHORT) == {"too slow": MEMORY_SHORT.patience_ns // SECOND_NS + 1}
    assert [reader.name for reader in second.readers] == ["fair"] and second.readers[0].rest == 0


def test_the_longer_others_get_nothing_the_less_an_answer_may_still_take(second):
    """30 s, then 10, 3 and 1; and 30 again when there was memory for a second."""
    assert [bound.rest_ns // SECOND_NS for bound in MEMORY_EXHAUSTED] == [30, 10, 3, 1]
    for _ in range(2):
        second.passes(), second.passes()
        for n, rest_s in enumerate((30, 10, 3, 1)):
            second.add(f"{rest_s} s", (rest_s + n + 2) * MB + 1, MB)
        fair = second.add("1 s exactly", 6 * MB, MB)
        assert second.passes() == {}
        gone = [list(second.passes(EXHAUSTED)) for _ in range(4)]
        assert gone == [["30 s"], ["10 s"], ["3 s"], ["1 s"]]
        assert second.passes(EXHAUSTED) == {} and fair.rest == 0


def test_a_burst_at_the_beginning_counts_for_a_while_only(second):
    """What the kernel's buffer swallows at once is no rate."""
    second.passes()
    reader = second.add("burst", 40 * MB, 0)
    second.passes(SHORT)
    reader.sent_bytes += 20 * MB
    assert second.closed_in(20, SHORT) == {"burst": RATE_NS // SECOND_NS + 1}


def test_what_lies_in_the_kernel_is_not_taken(second):
    """It takes megabytes at once, then nothing for seconds, of a client that reads all the while."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listening.getsockname())
        client.settimeout(5)
        with listening.accept()[0] as ours:
            ours.setblocking(False)
            reader, other = second.add("reads", 2 * MB, 0), second.add("silent", 2 * MB, 0)
            reader.sent_bytes, reader.fd = ours.send(bytes(MB)), ours.fileno()
            other.sent_bytes = reader.sent_bytes
            second.passes(None)
            got = 0
            while got < reader.sent_bytes - 30_000:
                got += len(client.recv(1 << 16))
            assert second.passes(EXHAUSTED) == {"silent": SILENT}


def test_who_reads_in_bursts_has_the_rate_of_all_of_them(second):
    """6 MB each four seconds: in any five of them at least 1.2 MB/s."""
    second.passes()
    reader = second.add("bursts", 36 * MB, 0)
    for n in range(30):
        burst = 6 * MB if n % 4 == 0 else 0
        reader.sent_bytes += burst
        reader.size += burst
        assert second.passes(SHORT) == {}


def test_two_looks_right_after_each_other_say_nothing_of_a_rate(second):
    """A reload of settings makes one out of turn."""
    second.add("slow", 36 * MB, 100_000)
    second.now_ns += MEMORY_SHORT.patience_ns
    assert second.passes(EXHAUSTED) == second.passes(EXHAUSTED, SECOND_NS - 1) == {}
    assert second.passes(EXHAUSTED, 1).keys() == {"slow"}


def test_an_answer_that_began_just_now_has_time(second):
    """Also behind another of the same connection, whose rate is known."""
    second.passes()
    reader = second.add("again", 36 * MB, 1000)
    second.passes(None)
    reader.out_started_ns = second.now_ns
    assert second.passes(EXHAUSTED) == {}, "as old as the patience, and no older"
    assert second.passes(EXHAUSTED).keys() == {"again"}


def test_what_is_remembered_is_bounded_and_forgotten(second):
    reader, other = second.add("a", 36 * MB, 1000), second.add("b", 3000, 1000)
    for _ in range(KEPT_LOOKS + 3):
        second.passes(None)
    assert list(second.slow._looks) == [reader] and len(second.slow._looks[reader]) == KEPT_LOOKS
    assert other.rest == 0
    second.readers.clear()
    second.passes(None)
    assert not second.slow._looks
