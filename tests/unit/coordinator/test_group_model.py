"""The coordinator's logic under arbitrary clients, time, failing appends and deaths, against what must always hold."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from mpbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.harness.group_clients import REBALANCE_MS, SESSION_MS, Book, Client
from tests.harness.group_world import GROUP, TOPIC, World

FATES = {
    "at once": (True, ErrorCode.NONE, True),
    "later": (True, ErrorCode.NONE, False),
    "not written": (False, ErrorCode.KAFKA_STORAGE_ERROR, True),
    "too late to tell": (True, ErrorCode.REQUEST_TIMED_OUT, False),
}
LONGEST_MS = 5 * 60_000  # a new member's join


class Listener:
    """Somebody who only looks."""

    def __init__(self) -> None:
        self.heard = None

    def hear(self, request, answer) -> None:
        self.heard = answer


class Groups(RuleBasedStateMachine):
    """Up to six clients. `busy_ms`: how long everybody keeps going before the next event."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.book = Book()
        self.clients: list[Client] = []
        self.fates: list[str] = []
        self.world.append_fate = lambda: FATES[self.fates.pop() if self.fates else "at once"]

    @initialize(
        ages=st.lists(
            st.tuples(st.sampled_from((0, 3, 4, 5, 8, 9)), st.booleans(), st.booleans()), min_size=1, max_size=5
        )
    )
    def begin(self, ages) -> None:
        for number, (version, is_static, is_diligent) in enumerate(ages):
            instance = f"i{number}" if is_static else None
            self.clients.append(Client(self.world, self.book, f"c{number}", version, instance, is_diligent))

    def _work(self) -> None:
        for client in self.clients:
            if client.is_diligent:
                client.act()

    @rule(steps=st.integers(1, 30))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self._work()
            self.world.advance(SESSION_MS // 4)
            if self.world.unacknowledged:
                self.world.acknowledge()

    @rule(number=st.integers(0, 4), times=st.integers(1, 4))
    def a_client_acts(self, number: int, times: int) -> None:
        for _ in range(times):
            self.clients[number % len(self.clients)].act()

    @rule(number=st.integers(0, 4))
    def a_client_leaves(self, number: int) -> None:
        self.clients[number % len(self.clients)].leave()
        self._work()

    @rule(number=st.integers(0, 4))
    def a_client_commits(self, number: int) -> None:
        self.clients[number % len(self.clients)].commit()

    @rule(number=st.integers(0, 4))
    def a_client_prefers_another_protocol(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        if not client.is_busy and client.next == "beat":
            client.protocols.reverse()
            client.next = "join"
            client.act()
        self._work()

    @rule(number=st.integers(0, 4))
    def a_careless_client_starts_again(self, number: int) -> None:
        """Without its id: a dynamic one leaves a member behind, a static one replaces itself. Its connection goes."""
        client = self.clients[number % len(self.clients)]
        if not client.is_diligent:
            ghost = Client(self.world, self.book, client.name, client.join_version, client.instance_id, False)
            self.clients[number % len(self.clients)] = ghost
            ghost.act()
        self._work()

    @rule(version=st.sampled_from((3, 9)), member=st.integers(0, 4))
    def nonsense(self, version: int, member: int) -> None:
        """Wrong ids, generations and protocols."""
        someone = self.clients[member % len(self.clients)]
        generation = someone.generation - 1
        self.world.send(Listener(), SyncGroupRequest(GROUP, generation, someone.member_id or "x"), 3)
        protocols = [JoinGroupRequestProtocol("odd", b"")]
        self.world.send(
            Listener(), JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, "x", None, "odd", protocols), version
        )

    @rule(fates=st.lists(st.sampled_from(sorted(FATES)), max_size=3))
    def appends_fare(self, fates) -> None:
        self.fates = fates

    @rule()
    def an_append_is_acknowledged(self) -> None:
        self.world.acknowledge()

    @rule()
    def the_coordinator_dies(self) -> None:
        self.world.start()
        self._work()

    @rule(effects=st.integers(0, 6))
    def the_coordinator_will_die(self, effects: int) -> None:
        """After so many answers and appends, between two of them."""
        self.world.effects_left = effects

    @rule()
    def somebody_fetches(self) -> None:
        listener = Listener()
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [0])])
        self.world.send(listener, request, 7)
        offset = listener.heard.topics[0].partitions[0].committed_offset
        assert self.book.offset <= offset <= self.book.sent_offset, "an acknowledged offset went back"
        self.book.offset = offset

    @invariant()
    def nobody_waits_too_long(self) -> None:
        waits = [self.world.ms - sent.sent_ms for sent in self.world.open.values()]
        assert max(waits, default=0) <= LONGEST_MS

    def teardown(self) -> None:
        """Everybody gets calm: the group becomes stable, or empty; then the partition moves, and all are answered."""
        self.fates, self.world.effects_left = [], None
        for _ in range(40):
            self.time_passes(1)
        diligent = [client for client in self.clients if client.is_diligent]
        assert all(client.next == "beat" and client.generation == self.book.generation for client in diligent)
        self.world.close()


Groups.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    report_multiple_bugs=False,
)
test_groups = Groups.TestCase
