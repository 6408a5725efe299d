"""What a handler knows around a request: listeners by number, settings as they are stored, what it starts with."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.server import server_context as module
from mpbroker.server.server_context import ServerContext
from tests.harness.in_process_broker import InProcessBroker

CONFIG = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0"], environ={}, cores=2)


def listener(name="PLAINTEXT", removed=False, control=False):
    return SimpleNamespace(name=name, removed=removed, control=control)


@pytest.fixture
def context():
    """With one listener; what it asks for listeners has two."""
    context = ServerContext.__new__(ServerContext)
    context.listeners, context.config, context.cluster = (listener(),), CONFIG, object()
    context.renewed = []
    context.renew_listeners = lambda: context.renewed.append(True) or (listener(), listener("ADDED"))
    return context


def test_it_starts_with_nothing_that_another_process_has_to_be_asked_for(tmp_path):
    context = InProcessBroker(tmp_path).handler.context
    assert context.asks_coordinator is False and context.stored_settings() is None and context.is_ending() is False
    assert context.renew_listeners() is context.listeners and context.request_isr_change() is None
    assert (context.leader_quota, context.fetch_deadline_ms, context.produce_deadline_ms) == (None, None, None)
    assert context.node_id == context.config.node_id


def test_listeners_are_looked_up_anew_only_for_one_that_is_not_known(context):
    assert context.listener(0) is context.listeners[0] and context.renewed == []
    assert context.listener(1).name == "ADDED" and context.renewed == [True]
    assert context.listener(1).name == "ADDED" and context.renewed == [True], "now it is known"


def test_one_that_was_removed_is_looked_up_anew(context):
    context.listeners = (listener(removed=True), listener())
    assert not context.listener(1).removed and context.renewed == []
    assert not context.listener(0).removed and context.renewed == [True]


@pytest.mark.parametrize(
    ("bound", "in_cluster", "expected"),
    [
        (listener(CONFIG.end_points.inter_broker), True, True),
        (listener("CONTROL", control=True), True, True),
        (listener("OTHER"), True, False),
        (listener(CONFIG.end_points.inter_broker), False, False),
        (listener("CONTROL", control=True), False, False),
    ],
)
def test_between_brokers_there_is_a_cluster_and_its_listener(context, bound, in_cluster, expected):
    context.listeners, context.cluster = (listener("OTHER"), bound), object() if in_cluster else None
    assert context.is_between_brokers(1) is expected


def test_shown_are_settings_as_they_are_stored(context, monkeypatch):
    built = []

    def build(given, cores, stored):
        built.append((given.texts, cores, stored))
        if stored == "unusable":
            raise module.ConfigError("listeners", "no")
        return "as stored"

    monkeypatch.setattr(module, "build_broker_config", build)
    for stored, shown in ((None, CONFIG), (CONFIG.dynamic, CONFIG), ("new", "as stored"), ("unusable", CONFIG)):
        context.stored_settings = lambda stored=stored: stored
        assert context.shown_config() == shown
    assert built == [(CONFIG.texts, CONFIG.cores, "new"), (CONFIG.texts, CONFIG.cores, "unusable")]
