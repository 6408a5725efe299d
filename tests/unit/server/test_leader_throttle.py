"""Which followers a leader sends nothing while its rate is used up: those that are not in sync."""

from types import SimpleNamespace

import pytest

from mpbroker.server import leader_throttle
from mpbroker.server.leader_throttle import holds_back, lists


def context(state, quota="quota"):
    def replica_state(ordinal):
        assert ordinal == 8
        if isinstance(state, Exception):
            raise state
        return state

    return SimpleNamespace(
        leader_quota=quota,
        config="config",
        node_id=3,
        clock=SimpleNamespace(monotonic_ms=lambda: 55),
        log_manager=SimpleNamespace(log=SimpleNamespace(replica_state=replica_state)),
    )


@pytest.mark.parametrize(
    ("state", "exceeded", "quota", "held"),
    [
        (SimpleNamespace(isr=(3, 4)), True, "quota", True),
        (SimpleNamespace(isr=(3, 5)), True, "quota", False),
        (SimpleNamespace(isr=(3, 4)), False, "quota", False),
        (SimpleNamespace(isr=(3, 4)), True, None, False),
        (None, True, "quota", False),
        (TimeoutError(), True, "quota", True),
        (RuntimeError(), True, "quota", True),
    ],
    ids=["behind", "in sync", "rate left", "no rate", "no partition", "busy", "offline"],
)
def test_who_is_in_sync_gets_what_it_asks_for(monkeypatch, state, exceeded, quota, held):
    asked = []
    monkeypatch.setattr(leader_throttle, "is_exceeded", lambda *words: asked.append(words) or exceeded)
    assert holds_back(context(state, quota), 8, 5) is held
    assert asked == ([] if quota is None else [("quota", "config", leader_throttle.LEADER_RATE, 55)])


@pytest.mark.parametrize(
    ("listed", "throttled"), [(("1:3",), True), (("1:4",), False), (("0:3",), False), (("*",), True)]
)
def test_the_topics_list_names_this_replica(listed, throttled):
    topic = SimpleNamespace(settings=SimpleNamespace(leader_replication_throttled_replicas=listed))
    assert lists(context(None), topic, 1) is throttled
