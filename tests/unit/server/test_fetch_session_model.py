"""Fetch sessions against the simplest oracle there is: a client that follows its session's answers knows of every
partition what a full request without a session is told at that moment, and is told nothing that it knows already."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mpbroker.server.request_handler import RequestHandler
from tests.harness.fetch_session_client import BY_ID_SINCE, SessionClient, fetch_of, places_of
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce

TOPICS = {"t": 3, "u": 2}
PLACES = [(name, number) for name, partitions in TOPICS.items() for number in range(partitions + 1)]  # one is not there
BATCH = len(batch(b"record"))


class Sessions(RuleBasedStateMachine):
    """Three clients, two slots: they take them from each other when time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.broker = InProcessBroker(Path(self.directory.name), fetch_sessions=2)
        self.ids = {}
        for number, (name, partitions) in enumerate(TOPICS.items()):
            self.ids[name] = bytes([number + 1]) * 16
            self.broker.create_topic(name, partitions, topic_id=self.ids[name])
        self.clients: list[SessionClient] = []

    @initialize(versions=st.lists(st.sampled_from((7, 11, 12, 13, 17)), min_size=3, max_size=3))
    def begin(self, versions) -> None:
        self.clients = [SessionClient(version, self.ids) for version in versions]

    @rule(place=st.sampled_from([(n, p) for n, p in PLACES if p < TOPICS[n]]))
    def append(self, place) -> None:
        self.broker.call(produce(place[0], batch(b"record"), place[1]), 7)

    @rule(who=st.integers(0, 2), place=st.sampled_from(PLACES), offset=st.sampled_from((0, 1, 2, 3, 99)))
    def read(self, who, place, offset) -> None:
        self.clients[who].reads[place] = offset

    @rule(who=st.integers(0, 2), place=st.sampled_from(PLACES))
    def forget(self, who, place) -> None:
        self.clients[who].reads.pop(place, None)

    @rule(who=st.integers(0, 2), most=st.sampled_from((1 << 20, 1, 2 * BATCH)))
    def ask(self, who, most) -> None:
        client = self.clients[who]
        knew, is_whole = dict(client.knows), client.epoch == 0
        answer = self.broker.call(client.request(max_bytes=most), client.version)
        found = client.take(answer)
        if answer.error_code:
            return
        assert client.knows.keys() == client.reads.keys(), "what it reads it was told of"
        whole = self._told_without_session(client)
        for place, told in whole.items():
            assert client.knows[place] == (told.high_watermark, told.log_start_offset, told.error_code), place
        for (
            place,
            each,
        ) in found.items():  # a whole request, also that of a client without a session, is told everything
            news = each.records or each.error_code or knew.get(place) != client.knows[place]
            assert news or is_whole, "nothing new"

    def _told_without_session(self, client):
        version = max(client.version, 7)
        request = fetch_of(version, self.ids, client.reads, session_epoch=-1)
        return places_of(self.broker.call(request, version), self.ids)

    @rule(who=st.integers(0, 2))
    def read_everything_in_turn(self, who) -> None:
        """However little an answer may hold, every partition has its turn: as many answers as partitions are enough."""
        client = self.clients[who]
        have = {place for place, told in self._told_without_session(client).items() if told.records}
        self.ask(who, 1 << 20)
        if not client.session_id:
            return
        seen = set()
        for _ in have:
            answer = self.broker.call(client.request(max_bytes=1), client.version)
            seen |= {place for place, each in client.take(answer).items() if each.records}
        assert seen == have

    @rule(ms=st.sampled_from((1000, 119_000, 121_000)))
    def time_passes(self, ms) -> None:
        self.broker.clock.advance(ms)

    @rule()
    def the_handler_is_another(self) -> None:
        self.broker.handler = RequestHandler(self.broker._context())
        self.broker.handler.context.fetch_sessions.recover()

    @invariant()
    def nobody_holds_a_session(self) -> None:
        table = self.broker.handler.context.fetch_sessions
        for client in self.clients:
            if client.session_id and table.hold(client.session_id) == 0:
                assert table.row().by_id == (client.version >= BY_ID_SINCE)
                table.release()

    def teardown(self) -> None:
        self.directory.cleanup()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
