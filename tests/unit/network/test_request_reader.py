"""Requests that are not simply read and queued: several that find no room at once, and what stands in their way."""

import time

import pytest

from tests.harness.raw_client import frame
from tests.unit.network.test_processor import API, Setting

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def make(tmp_path):
    made = []

    def build(*overrides, **options):
        made.append(Setting(tmp_path, *overrides, **options))
        return made[-1]

    yield build
    for each in made:
        each.close()


def test_a_large_and_a_small_request_that_find_the_plane_full_in_one_turn_are_both_kept(make):
    setting = make(data_requests=2)
    large, small, *others = [setting.connect() for _ in range(4)]
    stream = frame(API, 5, 100, bytes(40_000))
    large.send(stream[:-10])
    setting.turns()
    for n, client in enumerate(others):
        client.send(frame(API, 5, n))
    setting.turns()
    large.send(stream[-10:])
    small.send(frame(API, 5, 101))
    setting.turns()
    found = []
    for _ in range(4):
        request = setting.claim()
        assert request is not None, f"only {found} came"
        found.append(request.correlation_id)
        setting.answer(request)
        setting.turns()
    assert sorted(found) == [0, 1, 100, 101]


def test_a_whole_frame_above_the_small_ones_waits_for_an_entry_with_what_follows_it(make):
    setting = make(entries_per_processor=1)
    first, second = setting.connect(), setting.connect()
    first.send(frame(API, 5, 1))
    setting.turns()
    second.send(frame(API, 5, 2, bytes(20_000)) + frame(API, 5, 3))
    setting.turns()
    assert setting.counter("no_entry") >= 1
    for expected in (1, 2, 3):
        request = setting.claim()
        assert request.correlation_id == expected
        setting.answer(request)
        setting.turns()


def test_a_large_frame_that_stands_still_is_given_up_although_others_wait_for_its_room(make):
    setting = make("mpbroker.frame.timeout.ms=100", arena_processor_bytes=1 << 20)
    standing, waiting = setting.connect(), setting.connect()
    stream = frame(API, 5, 1, bytes((1 << 20) - 400))
    standing.send(stream[:150_000])
    setting.turns()
    waiting.send(frame(API, 5, 2, bytes(10_000)))
    setting.turns()
    assert setting.counter("no_arena_space") >= 1 and setting.claim() is None
    deadline = time.monotonic() + 10
    while (request := setting.claim()) is None:
        assert time.monotonic() < deadline, "the standing frame keeps the arena"
        time.sleep(0.05)
        setting.processor._housekeeping_ns = 0
        setting.turns()
    assert request.correlation_id == 2 and setting.counter("frames_timed_out") == 1


@pytest.mark.parametrize("body_bytes", [10, 40_000], ids=["small", "large"])
def test_a_request_that_is_parked_counts_as_activity_of_its_connection(make, body_bytes):
    setting = make(data_requests=1)
    first, second = setting.connect(), setting.connect()
    first.send(frame(API, 5, 1))
    setting.turns()
    [channel] = [each for each in setting.processor._by_fd.values() if each.number == 1]
    before_ns = channel.last_active_ns
    second.send(frame(API, 5, 2, bytes(body_bytes)))
    setting.turns()
    assert setting.counter("plane_full") >= 1 and channel.in_flight and channel.requests == 1
    assert channel.last_active_ns > before_ns
    assert channel.frame_started_ns == 0 and channel.first_ns == channel.later_ns
    for number in (1, 2):
        request = setting.claim()
        assert request.correlation_id == number
        setting.answer(request)
        setting.turns()
    assert not channel.in_flight


@pytest.mark.parametrize("body_bytes", [10, 40_000], ids=["small", "large"])
@pytest.mark.parametrize(("key", "version"), [(77, 0), (API, 9), (-1, 0)])
def test_what_is_not_served_closes_its_connection_however_large_it_is(make, key, version, body_bytes):
    setting = make()
    client, other = setting.connect(), setting.connect()
    client.send(frame(key, version, 1, bytes(body_bytes)))
    setting.turns(8)
    assert client.recv(1) == b"" and setting.counter("requests_unsupported") == 1
    assert setting.processor._port.reserve(3 << 20) is not None, "the room of its frame is free again"
    other.send(frame(18, 99, 2, bytes(body_bytes)))
    setting.turns()
    assert setting.claim().correlation_id == 2, "ApiVersions of any version"
