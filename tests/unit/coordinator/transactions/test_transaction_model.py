"""Producers, deaths, failing appends and time in any order: every transaction ends everywhere alike, or not yet.

Each producer does what a client does: it begins, writes where it was allowed to, and ends. The model remembers which
records belong to which transaction, and what its producer was told.
"""

from collections import deque

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mpbroker.coordinator.transactions.transaction import COMPLETE, State
from mpbroker.errors import ErrorCode
from tests.harness.transaction_world import PARTITIONS, TIMEOUT_MS, TransactionWorld

IDS = ("a", "b")
_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Client:
    """One producer process of a transactional id, and the transaction it is in."""

    def __init__(self, name: str, producer: tuple[int, int], raises: bool) -> None:
        self.name = name
        self.raises = raises  # its epoch with each end: version 2 of transactions
        self.producer = producer
        self.added: set[int] = set()
        self.asked: set[int] = set()  # also those of which it does not know whether they were added
        self.records: list[int] = []
        self.ending: bool | None = None  # how, while it does not know whether that is decided
        self.is_over = False  # fenced


class Transactions(RuleBasedStateMachine):
    """See the module's description."""

    @initialize()
    def begin(self) -> None:
        self.world = TransactionWorld(feature_level=2)
        self.clients: list[Client] = []
        self.groups: list[list[int]] = []  # records of one transaction
        self.committed: list[list[int]] = []  # of those, the ones whose producer heard so
        self.aborted: list[list[int]] = []

    def _some(self, number: int) -> Client | None:
        alive = [client for client in self.clients if not client.is_over]
        return alive[number % len(alive)] if alive else None

    @rule(name=st.sampled_from(IDS), raises=st.booleans())
    def start(self, name: str, raises: bool) -> None:
        found = self.world.init(name)
        if found is not None and found[0] == 0:
            self.clients.append(Client(name, found[1:], raises))

    @rule(which=st.integers(0, 5), partitions=st.sets(st.integers(0, PARTITIONS - 1), min_size=1))
    def add(self, which: int, partitions: set[int]) -> None:
        client = self._some(which)
        if client is None or client.ending is not None:
            return
        client.asked |= partitions
        if client.raises:
            codes = {self.world.add_written(client.producer, *partitions, name=client.name)}
        else:
            codes = set(self.world.add(client.producer, *partitions, name=client.name))
        if codes == {0}:
            client.added |= partitions
        else:
            client.is_over |= not codes <= _AGAIN

    @rule(which=st.integers(0, 5), partition=st.integers(0, PARTITIONS - 1))
    def write(self, which: int, partition: int) -> None:
        client = self._some(which)
        if client is None or (partition not in client.added and self.world.held_markers is not None):
            return  # a client that ended its transaction writes nothing before the next one
        if client.ending is not None:
            return
        record = self.world.produce(partition, client.producer)
        newest = max(other.producer[1] for other in self.clients if other.name == client.name)
        assert record is None or partition in client.asked, "a partition took what was never added"
        assert (
            record is not None
            or partition not in client.added
            or client.producer[1] < newest
            or self._was_fenced(client)
        ), "a partition refused what was added"
        if record is not None:
            client.records.append(record)

    def _was_fenced(self, client: Client) -> bool:
        found = self.world.recorded(client.name)
        return found is None or (found.producer_id, found.epoch) != client.producer

    @rule(which=st.integers(0, 5), committed=st.booleans())
    def end(self, which: int, committed: bool) -> None:
        client = self._some(which)
        if client is None or not client.added:
            return
        committed = committed if client.ending is None else client.ending
        code = self._ended(client, committed)
        if code == 0:
            (self.committed if committed else self.aborted).append(client.records)
        elif code in _AGAIN:
            client.ending = committed
            return
        else:
            client.is_over = True
        client.ending = None
        self.groups.append(client.records)
        client.added, client.asked, client.records = set(), set(), []

    def _ended(self, client: Client, committed: bool) -> int | None:
        if not client.raises:
            code: int | None = self.world.end(client.producer, committed, name=client.name)
            return code
        heard = self.world.end_raising(client.producer, committed, name=client.name)
        if heard is not None and heard[0] == 0:
            assert heard[1:] == (client.producer[0], client.producer[1] + 1)
            client.producer = heard[1:]
        return None if heard is None else heard[0]

    @rule(effects=st.integers(0, 6))
    def die_soon(self, effects: int) -> None:
        self.world.effects_left = effects

    @rule(fates=st.lists(st.sampled_from([(True, 0), (False, 19), (False, 56), (True, 7)]), max_size=3))
    def fail_soon(self, fates: list[tuple[bool, int]]) -> None:
        left = deque(fates)
        self.world.append_fate = lambda: left.popleft() if left else (True, 0)

    @rule()
    def restart_broker(self) -> None:
        self.world.restart_broker()

    @rule(milliseconds=st.sampled_from([100, 11_000, TIMEOUT_MS + 11_000]))
    def wait(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def hold_or_release(self) -> None:
        if self.world.held_markers is None:
            self.world.held_markers = deque()
        else:
            self.world.release_markers()

    @invariant()
    def every_transaction_ends_everywhere_alike(self) -> None:
        outcomes = self.world.outcomes
        for records in (*self.groups, *(client.records for client in self.clients)):
            assert len({outcomes[one] for one in records if one in outcomes}) <= 1
        assert not any(outcomes.get(one) is False for records in self.committed for one in records)
        assert not any(outcomes.get(one) is True for records in self.aborted for one in records)

    @invariant()
    def what_is_complete_is_decided(self) -> None:
        for name in IDS:
            found = self.world.recorded(name)
            if found is not None and (found.state in COMPLETE or found.state is State.EMPTY):
                assert not any(
                    records for (_, one), records in self.world.undecided.items() if one == found.producer_id
                )

    def teardown(self) -> None:
        """In the end everything is decided."""
        self.world.append_fate = lambda: (True, 0)
        self.world.effects_left = None
        if self.world.held_markers is not None:
            self.world.release_markers()
        self.world.advance(2 * TIMEOUT_MS)
        self.every_transaction_ends_everywhere_alike()
        assert not any(self.world.undecided.values())
        assert not self.world.open, "a request was never answered"


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
