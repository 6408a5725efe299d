"""Who asks: a broker of the cluster, 0 among them, or a consumer."""

from types import SimpleNamespace

import pytest

from mpbroker.protocol.messages.fetch import FetchRequest, ReplicaState
from mpbroker.server.follower_fetch import is_by_follower, replica_of


@pytest.mark.parametrize("node_id", [-1, 0, 1])
@pytest.mark.parametrize("is_tagged", [False, True])
def test_a_broker_is_told_from_a_consumer(node_id, is_tagged):
    message = (
        FetchRequest(replica_id=5, replica_state=ReplicaState(node_id, 3))
        if is_tagged
        else FetchRequest(replica_id=node_id)
    )
    assert replica_of(message) == node_id
    for is_replicated in (False, True):
        log = SimpleNamespace(is_replicated=lambda is_replicated=is_replicated: is_replicated)
        context = SimpleNamespace(log_manager=SimpleNamespace(log=log))
        assert is_by_follower(context, message) == (is_replicated and node_id >= 0)
