"""The agent's one connection to the controller: as long as that stands where it stood."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import agent as agent_module
from mpbroker.controller.agent import Agent
from mpbroker.shm.process_table import BrokerState


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


class Asked:
    """A channel with an answer that comes when it is put there."""

    def __init__(self):
        self.busy, self.outcome, self.sent, self.closed = False, None, [], False

    def turn(self, _now_ms):
        return self.outcome

    def send(self, request, now_ms):
        self.sent.append((request, now_ms))

    def close(self):
        self.closed = True


@pytest.fixture
def proposing():
    channel, warned, answered = Asked(), [], []
    made = SimpleNamespace(
        _clock=SimpleNamespace(monotonic_ms=lambda: 70),
        _channel=channel,
        _registered=object(),
        _to_controller=lambda: channel,
        _ctx=SimpleNamespace(log=SimpleNamespace(warning=lambda event, **_fields: warned.append(event))),
        code=0,
        channel=channel,
        warned=warned,
        answers=answered,
    )
    made._proposals = SimpleNamespace(
        answered=lambda response, now_ms: answered.append((response, now_ms)) or made.code,
        next_request=lambda now_ms: "asks" if now_ms == 70 else None,
    )
    return made


def test_one_proposal_is_under_way_at_a_time(proposing):
    Agent.propose(proposing)
    assert proposing.channel.sent == [("asks", 70)] and not proposing.answers
    proposing.channel.busy = True
    Agent.propose(proposing)
    assert len(proposing.channel.sent) == 1, "its answer is awaited"
    proposing.channel.outcome = SimpleNamespace(response="yes", problem="")
    Agent.propose(proposing)
    assert proposing.answers == [("yes", 70)] and len(proposing.channel.sent) == 2 and not proposing.warned


def test_a_refused_proposal_is_told(proposing):
    proposing.channel.busy, proposing.code = True, 41
    proposing.channel.outcome = SimpleNamespace(response=None, problem="gone")
    Agent.propose(proposing)
    assert proposing.warned == ["alter_partition_failed"]


@pytest.mark.parametrize("lacks", ["controller", "registration", "request"])
def test_nothing_is_proposed_by_nobody_to_nobody_about_nothing(proposing, lacks):
    if lacks == "controller":
        proposing._to_controller = lambda: None
    elif lacks == "registration":
        proposing._registered = None
    else:
        proposing._proposals.next_request = lambda _now_ms: None
    Agent.propose(proposing)
    assert not proposing.channel.sent


@pytest.mark.parametrize(
    "state, before, over, told",
    [
        (BrokerState.RUNNING, False, True, False),
        (BrokerState.HANDING_OVER, True, True, False),
        (BrokerState.HANDING_OVER, False, False, False),
        (BrokerState.HANDING_OVER, False, True, True),
    ],
)
def test_that_others_lead_is_said_once(state, before, over, told):
    said, turns = [], []
    made = SimpleNamespace(
        _core=SimpleNamespace(state=state),
        _handed_over=before,
        _config=None,
        _clock=SimpleNamespace(monotonic_ms=lambda: 70),
        _shutdown=SimpleNamespace(turn=lambda now_ms: turns.append(now_ms) or over),
        _ctx=SimpleNamespace(log=SimpleNamespace(info=said.append), handed_over=lambda: said.append("row")),
    )
    for _ in range(2):
        Agent.hand_over(made)
    assert said == (["handed_over", "row"] if told else []) and made._handed_over is (told or before)
    assert turns == [70] * (0 if state == BrokerState.RUNNING or before else 1 if told else 2)


@pytest.mark.parametrize("there", [True, False])
def test_an_orderly_end_gives_all_back(there):
    done = []
    closes = lambda name: SimpleNamespace(close=lambda: done.append(name)) if there else None  # noqa: E731
    store = SimpleNamespace(close=lambda: done.append("store"), session_close=lambda session: done.append(session))
    registered = SimpleNamespace(session=77) if there else None
    Agent.close(
        SimpleNamespace(_channel=closes("channel"), _watch=closes("watch"), _registered=registered, _store=store)
    )
    assert done == (["channel", "watch", 77, "store"] if there else ["store"]), (
        "nobody waits until the session is stale"
    )
