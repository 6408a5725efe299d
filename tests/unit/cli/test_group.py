"""Coordinators that are not ready yet, groups of several brokers, and a member that comes while offsets are reset."""

from types import SimpleNamespace

import pytest

from mpbroker.cli import group_reset
from mpbroker.client import group_admin
from mpbroker.errors import ErrorCode, KafkaError


@pytest.fixture
def slept(monkeypatch):
    """Pauses, which take no time."""
    pauses = []
    monkeypatch.setattr(group_admin, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def _asking(*codes):
    """A question that fails with these codes one after the other, then is answered."""
    left = list(codes)

    def ask():
        if left:
            raise KafkaError(left.pop(0))
        return "answer"

    return ask


def test_a_coordinator_that_loads_is_asked_again(slept):
    codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert group_admin.when_ready(_asking(*codes)) == "answer" and len(slept) == 3


def test_but_not_for_ever_and_not_after_other_errors(slept):
    with pytest.raises(KafkaError, match=r"\(14\)"):
        group_admin.when_ready(_asking(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100))
    assert 5 < sum(slept) < 10
    slept.clear()
    with pytest.raises(KafkaError, match=r"\(3\)"):
        group_admin.when_ready(_asking(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert not slept


def test_every_broker_of_a_cluster_is_asked_for_its_groups(monkeypatch):
    class One:
        def __init__(self, host, port, client_id, timeout_ms):
            self.host = host

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    brokers = [SimpleNamespace(host=host, port=1) for host in ("b", "a")]
    monkeypatch.setattr(group_admin, "NetworkClient", One)
    monkeypatch.setattr(group_admin, "brokers_of", lambda client: brokers)
    client = SimpleNamespace(client_id="c", timeout_ms=1)
    assert group_admin.ask_every_broker(client, lambda one: [one.host]) == ["b", "a"]


@pytest.mark.parametrize(
    ("code", "error"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, group_reset.GroupInUse), (ErrorCode.KAFKA_STORAGE_ERROR, KafkaError)],
)
def test_a_member_that_has_come_meanwhile_is_told_in_plain_words(monkeypatch, code, error):
    def commit(*_):
        raise KafkaError(code)

    monkeypatch.setattr(group_reset, "commit_offsets", commit)
    with pytest.raises(error):
        group_reset.execute(SimpleNamespace(), "g", [])
