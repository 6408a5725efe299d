"""The agent's one connection to the controller: as long as that stands where it stood."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import agent as agent_module
from mpbroker.controller.agent import Agent


class Channel:
    """One that only remembers."""

    def __init__(self, host, port, client_id):
        self.address, self.client_id, self.closed = (host, port), client_id, False

    def close(self):
        self.closed = True


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.setattr(agent_module, "BrokerChannel", Channel)
    made = SimpleNamespace(_channel=None, _config=SimpleNamespace(node_id=7), address=("one", 1))
    made._controller_address = lambda: made.address
    made.to_controller = lambda: Agent._to_controller(made)
    return made


def test_it_is_kept_and_made_anew_when_the_controller_is_another(agent):
    first = agent.to_controller()
    assert (first.address, first.client_id) == (("one", 1), "7")
    assert agent.to_controller() is first and not first.closed
    agent.address = ("one", 2)
    second = agent.to_controller()
    assert second.address == ("one", 2) and first.closed and not second.closed
    assert agent.to_controller() is second


def test_while_nobody_is_controller_there_is_nobody_to_ask(agent):
    agent.address = None
    assert agent.to_controller() is None and agent._channel is None
    agent.address = ("one", 1)
    first = agent.to_controller()
    agent.address = None
    assert agent.to_controller() is None and not first.closed
    agent.address = ("one", 1)
    assert agent.to_controller() is first, "the same one was elected again"
