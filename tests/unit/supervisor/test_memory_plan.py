"""Memory for answers: what the configuration or the machine allows, divided among the handlers, within bounds."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.process_types import plan_processes

MIB = 1 << 20
LISTENER = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 1, False)


@pytest.mark.parametrize(
    ("given", "machine_mib", "handlers", "mib"),
    [
        (-1, 220, 4, 13),  # a quarter of the container's, 13.75 each
        (-1, 64_000, 4, 256),  # at most
        (-1, 16, 4, 2),  # at least
        (24 * MIB, 64_000, 2, 12),
        (1 << 40, 16, 2, 256),
    ],
)
def test_memory_for_the_answers_of_a_handler(monkeypatch, given, machine_mib, handlers, mib):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: machine_mib * MIB)
    config = load_broker_config(overrides=[f"mpbroker.answer.memory.bytes={given}"], environ={}, cores=2)
    found = shared_state.answer_bytes_of_handler(config, handlers)
    assert found // MIB == mib and found % 4096 == 0


@pytest.mark.parametrize(
    ("given", "machine_mib", "processors", "found_bytes"),
    [
        (-1, 64_000, 2, 256 * MIB),  # at most
        (-1, 800, 2, 100 * MIB),  # a quarter of the container's for both
        (-1, 1000, 2, 125 * MIB),
        (-1, 220, 2, 100 * MIB),  # at least: the largest request that is allowed
        (300 * MIB, 220, 2, 300 * MIB),
        (128 * MIB, 64_000, 1, 128 * MIB),
    ],
)
def test_memory_for_the_requests_of_a_processor(monkeypatch, given, machine_mib, processors, found_bytes):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: machine_mib * MIB)
    config = load_broker_config(overrides=[f"mpbroker.arena.bytes.per.processor={given}"], environ={}, cores=2)
    assert shared_state.request_bytes_of_processor(config, processors) == found_bytes


def test_a_request_of_the_largest_size_fits_into_whole_pages(monkeypatch):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: 64 * MIB)
    config = load_broker_config(overrides=["socket.request.max.bytes=20000001"], environ={}, cores=2)
    assert shared_state.request_bytes_of_processor(config, 2) == 4883 * 4096


def test_requests_may_be_larger_than_what_a_processor_gets_by_default(monkeypatch):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: 64_000 * MIB)
    config = load_broker_config(overrides=[f"socket.request.max.bytes={255 * MIB}"], environ={}, cores=2)
    assert shared_state.request_bytes_of_processor(config, 200) == 320 * MIB - 65 * MIB


@pytest.mark.parametrize(
    ("processors", "given", "entries", "most_processors"),
    [
        (1, [], 8192, 15),
        (16, [], 8191, 16),
        (30, [], 4369, 30),
        (32, [], 4095, 32),
        (2, ["mpbroker.entries.per.processor=600"], 600, 32),
    ],
)
def test_entries_of_a_processor_fit_the_number_of_processors(processors, given, entries, most_processors):
    overrides = [f"num.network.threads={processors}", *given]
    config = load_broker_config(overrides=overrides, environ={}, cores=2)
    plan = shared_state.memory_plan(config, plan_processes(config, (LISTENER,)))
    assert (plan.entries_per_processor, plan.processors) == (entries, most_processors)


@pytest.mark.parametrize("cluster", [False, True])
def test_tables_are_as_large_as_the_configuration_says(monkeypatch, tmp_path, cluster):
    """Handlers come and go: there is room for all there may be, of which one is the coordinator if there is one."""
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: 64_000 * MIB)
    given = {
        "num.io.threads": 6,
        "listeners": "A://:1,CTL://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,CTL:PLAINTEXT",
        "control.plane.listener.name": "CTL",
        "inter.broker.listener.name": "A",
        "mpbroker.control.reserved.handlers": 3,
        "queued.max.requests": 77,
        "mpbroker.max.topics": 1001,
        "mpbroker.max.partitions": 2002,
        "mpbroker.max.producers": 3003,
        "mpbroker.max.groups": 404,
        "mpbroker.max.group.members": 505,
        "max.incremental.fetch.session.cache.slots": 66,
        "mpbroker.fetch.session.memory.bytes": 5000 * shared_state.SESSION_UNIT_BYTES + 1,
        "mpbroker.arena.bytes.per.processor": 128 * MIB,
        "mpbroker.answer.memory.bytes": (6 + 3 + 1) * 12 * MIB,
    }
    overrides = [f"{name}={value}" for name, value in given.items()]
    overrides += [f"mpbroker.cluster.store=sqlite:{tmp_path}/shared.db"] if cluster else []
    config = load_broker_config(overrides=overrides, environ={}, cores=2)
    plan = shared_state.memory_plan(config, plan_processes(config, (LISTENER,)))
    expected = {
        "reserved_handlers": 3, "data_requests": 77, "topics": 1001, "partitions": 2002, "producers": 3003,
        "groups": 404, "members": 505, "fetch_sessions": 66, "session_units": 5000, "replicated": cluster,
        "arena_processor_bytes": 128 * MIB, "coordinator": True, "handlers": 64, "arena_handler_bytes": 12 * MIB,
    }  # fmt: skip
    assert {name: getattr(plan, name) for name in expected} == expected


@pytest.mark.parametrize(("given", "mib"), [(0, 2), (1, 2), (2 * 4 * MIB, 2), (3 * 4 * MIB, 3)])
def test_memory_that_is_given_is_not_that_of_the_machine(monkeypatch, given, mib):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: 64_000 * MIB)
    found = shared_state.answer_bytes_of_handler(SimpleNamespace(mpbroker_answer_memory_bytes=given), 4)
    assert found == mib * MIB


def test_without_a_coordinator_there_is_no_place_for_one():
    config = load_broker_config(overrides=[], environ={}, cores=2)
    plans = tuple(each for each in plan_processes(config, (LISTENER,)) if each.type.role != "coordinator")
    plan = shared_state.memory_plan(config, plans)
    assert (plan.coordinator, plan.handlers) == (False, 63)
