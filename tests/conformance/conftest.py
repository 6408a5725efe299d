"""One broker for all of these tests: two data listeners, a control plane, two processors on the first listener."""

import itertools

import pytest

from tests.harness.broker import Broker
from tests.harness.peer import Peer, create_topic

LISTENERS = ["PLAINTEXT://127.0.0.1:0", "EXTERNAL://127.0.0.1:0", "CONTROL://127.0.0.1:0"]
CONTROL_PLANE = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROL:PLAINTEXT",
    "control.plane.listener.name": "CONTROL",
    "inter.broker.listener.name": "PLAINTEXT",
}
SETTINGS = CONTROL_PLANE | {
    "num.network.threads": 2,
    "listener.name.external.num.network.threads": 1,
    "num.io.threads": 2,
    "num.partitions": 2,
    "fetch.max.bytes": 100_000,
    "socket.request.max.bytes": 4_000_000,
}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("conformance"), overrides=SETTINGS, listeners=LISTENERS) as running:
        yield running


@pytest.fixture
def peer(broker):
    with Peer(broker.port()) as connected:
        yield connected


@pytest.fixture
def topic(peer):
    """The name of a fresh topic with three partitions."""
    name = f"topic-{next(_numbers)}"
    assert create_topic(peer, name, 3).error_code == 0
    return name
