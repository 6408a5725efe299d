"""What a change of the image means for each broker: who is to lead, to follow, to stop or only to know."""

import pytest

from mpbroker.cluster.cluster_image import ClusterImage, PartitionId
from mpbroker.cluster.publisher import Publisher
from mpbroker.cluster.wanted_state import Stop
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, DeletePrefix, Put
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, encode_record
from tests.harness.memory_store import MemoryStore
from tests.unit.cluster.controller_bench import broker_record

KEYS, TOPIC = Keys("c"), b"t" * 16
FIRST = PartitionId(TOPIC, 0)


class World:
    """Brokers 1 to 4 and a topic of two partitions, of which the first has a state; `told` is cleared by `take`."""

    def __init__(self):
        self.store, self.shutting_down, self.offline = MemoryStore(), set(), {}
        self.register(1, 2, 3, 4)
        self.put(KEYS.topic(TOPIC), self.topic([1, 2, 3], [4]))
        self.put(KEYS.partition(TOPIC, 0), PartitionRecord(1, 5, [1, 2], 7))

    def topic(self, *replicas, **moving):
        return TopicRecord(TOPIC.hex(), "t", [list(one) for one in replicas], 1, **moving)

    def put(self, key, record):
        self.store.txn([], [Put(key, encode_record(record))], tag="")

    def register(self, *brokers, **fields):
        for broker in brokers:
            self.put(KEYS.broker(broker), broker_record(broker, **fields))

    def begin(self):
        self.image = ClusterImage(KEYS)
        for page in self.store.scan(KEYS.prefix):
            self.image.load(page.rev, page.entries)
        self.publisher = Publisher(self.image, self.shutting_down, self.offline)
        self.publisher.start(0)
        self.take()
        return self

    def change(self, *ops):
        """A transaction, published; pairs of views as (leader, leader epoch) each."""
        self.store.txn([], ops, tag="")
        rev = self.store.revision()
        pairs = self.publisher.publish(self.image.apply(rev, self.store._history[rev]), 0)
        return [tuple(view and (view.leader, view.leader_epoch) for view in pair) for pair in pairs]

    def state(self, *words):
        return Put(KEYS.partition(TOPIC, 0), encode_record(PartitionRecord(*words)))

    def take(self):
        """What each broker is told now: (broker, kind, items), all answered."""
        told = []
        for broker, target in sorted(self.publisher.targets.items()):
            while (batch := target.next_batch(0)) is not None:
                target.answered()
                roles = [_role(item) for item in batch.roles.values()]
                known = [(view.number, view.leader, view.leader_epoch) for view in batch.metadata.values()]
                kind = "U" if batch.brokers else "S" if roles and len(roles[0]) == 4 else "L"
                told.append((broker, kind, known if batch.brokers else roles))
        return told


def _role(item):
    """A Lead: (number, leader, leader epoch, ISR, is new); a Stop: its words."""
    if isinstance(item, Stop):
        return item.number, item.leader_epoch, item.delete, item.topic
    return item.view.number, item.view.leader, item.view.leader_epoch, item.view.isr, item.is_new


@pytest.fixture
def world():
    return World().begin()


def metadata(leader, epoch, brokers=(1, 2, 3, 4)):
    return [(broker, "U", [(0, leader, epoch)]) for broker in brokers]


def with_roles(roles, known):
    """Roles go before what is only to be known."""
    return sorted([*roles, *known], key=lambda one: (one[0], "LUS".index(one[1])))


def test_a_new_term_names_all_that_has_a_state_and_each_its_own_replicas(world):
    publisher = Publisher(world.image, set(), {})
    publisher.start(0)
    assert sorted(publisher.targets) == [1, 2, 3, 4]
    for broker, target in publisher.targets.items():
        assert (target.broker, target.broker_epoch) == (broker, world.image.brokers[broker].epoch)
        first, second = target.next_batch(0), (target.answered(), target.next_batch(0))[1]
        assert first.full and first.brokers and list(first.metadata) == [("t", 0)] and not first.roles
        roles = [(0, 1, 5, (1, 2), False)] if broker != 4 else []
        assert second.full and not second.brokers and [_role(item) for item in second.roles.values()] == roles


def test_a_new_leader_epoch_is_told_to_replicas_and_known_by_all(world):
    assert world.change(world.state(2, 6, [2], 7)) == [((1, 5), (2, 6))]
    role = (0, 2, 6, (2,), False)
    assert world.take() == with_roles([(broker, "L", [role]) for broker in (1, 2, 3)], metadata(2, 6))


def test_a_change_within_a_leader_epoch_is_only_known(world):
    assert world.change(world.state(1, 5, [1, 2, 3], 7)) == [((1, 5), (1, 5))]
    assert world.take() == metadata(1, 5)


def test_a_partition_that_lost_its_leader_gives_nobody_a_role(world):
    world.change(world.state(-1, 6, [1], 7))
    assert world.take() == metadata(-1, 6)


def test_what_is_as_it_was_is_told_nobody(world):
    assert world.change(Put(KEYS.topic_config("t"), encode_record(TopicConfigRecord({"a": "b"})))) == []
    record = encode_record(world.topic([1, 2, 3], [4]))
    assert world.change(Put(KEYS.topic(TOPIC), record)) == [], "another version of the same"
    assert world.take() == []


def test_a_first_state_is_new_to_its_replicas(world):
    state = Put(KEYS.partition(TOPIC, 1), encode_record(PartitionRecord(4, 0, [4], 7)))
    assert world.change(state) == [(None, (4, 0))]
    known = [(broker, "U", [(1, 4, 0)]) for broker in (1, 2, 3, 4)]
    assert world.take() == with_roles([(4, "L", [(1, 4, 0, (4,), True)])], known)


def test_a_move_is_new_to_who_joins_and_who_leaves_is_to_delete(world):
    moved = world.topic([1, 2, 4, 3], [4], adding=[[4], []], removing=[[3], []])
    world.change(Put(KEYS.topic(TOPIC), encode_record(moved)), world.state(1, 6, [1, 2], 7))
    roles = [(broker, "L", [(0, 1, 6, (1, 2), broker == 4)]) for broker in (1, 2, 3, 4)]
    assert world.take() == with_roles(roles, metadata(1, 6))
    world.change(Put(KEYS.topic(TOPIC), encode_record(world.topic([1, 2, 4], [4]))), world.state(1, 7, [1, 2], 7))
    roles = [(broker, "L", [(0, 1, 7, (1, 2), False)]) for broker in (1, 2, 4)]
    assert world.take() == with_roles([*roles, (3, "S", [(0, 7, True, "t")])], metadata(1, 7))


def test_a_topic_that_is_gone_is_deleted_by_its_replicas_and_known_to_be_by_all(world):
    ops = [Delete(KEYS.topic(TOPIC)), DeletePrefix(KEYS.partitions_of(TOPIC))]
    assert world.change(*ops) == [((1, 5), None)]
    stops = [(broker, "S", [(0, -2, True, "t")]) for broker in (1, 2, 3)]
    assert world.take() == with_roles(stops, metadata(-2, -2))
    world.publisher.look_again([FIRST], 0)
    assert world.take() == [], "once"


def test_a_broker_that_is_lost_is_shown_offline_and_told_nothing(world):
    assert world.change(Delete(KEYS.broker(3))) == [((1, 5), (1, 5))]
    assert set(world.publisher.targets) == {1, 2, 4}
    first = (0, 1, 5)
    assert world.take() == [told for broker in (1, 2, 4) for told in ((broker, "U", []), (broker, "U", [first]))], (
        "the brokers there are, then the partition whose replica is away"
    )


def test_which_replicas_are_offline(world):
    def offline():
        return world.publisher._told[FIRST].offline

    assert offline() == ()
    world.change(Delete(KEYS.broker(3)))
    assert offline() == (3,)
    world.offline[FIRST] = [1]
    world.publisher.look_again([FIRST, PartitionId(TOPIC, 1)], 0)
    assert offline() == (1, 3)
    world.take()
    world.publisher.look_again([FIRST], 0)
    assert world.take() == []


def test_a_broker_that_says_something_else_of_itself_hears_the_list_as_all_do_and_nothing_more(world):
    world.change(Put(KEYS.broker(3), encode_record(broker_record(3, rack="r"))))
    assert world.take() == [(broker, "U", []) for broker in (1, 2, 3, 4)]


def test_a_broker_that_comes_is_told_everything_and_the_others_that_it_is_there(world):
    world.change(Delete(KEYS.broker(2)))
    world.take()
    world.change(Put(KEYS.broker(2), encode_record(broker_record(2, life=2))))
    target = world.publisher.targets[2]
    assert target.broker_epoch == world.image.brokers[2].epoch
    first, second = target.next_batch(0), (target.answered(), target.next_batch(0))[1]
    assert first.full and first.brokers and list(first.metadata) == [("t", 0)]
    assert second.full and [_role(item) for item in second.roles.values()] == [(0, 1, 5, (1, 2), False)]
    target.answered()
    assert world.take() == [told for broker in (1, 3, 4) for told in ((broker, "U", []), (broker, "U", [(0, 1, 5)]))], (
        "2 is offline no more"
    )


def test_a_broker_whose_directories_changed_is_asked_for_its_replicas_again(world):
    world.publisher.ask_again(3, 0)
    world.publisher.ask_again(4, 0)
    world.publisher.ask_again(9, 0)
    assert world.take() == [(3, "L", [(0, 1, 5, (1, 2), False)])]


def test_a_leader_that_restarted_since_it_was_elected_leads_no_more():
    """It may lack records that it had; the others hear of the leader as it is, until the election."""
    world = World()
    world.store.txn([], [Delete(KEYS.broker(1))], tag="")
    world.register(1)
    world.begin()
    for broker in (1, 2):
        world.publisher.ask_again(broker, 0)
    assert world.take() == [(1, "L", [(0, -1, 5, (1, 2), False)]), (2, "L", [(0, 1, 5, (1, 2), False)])]


def test_a_broker_that_shuts_down_stops_unless_it_is_in_sync(world):
    world.shutting_down.update({1, 3})
    world.change(world.state(1, 6, [1, 2], 7))
    role = (0, 1, 6, (1, 2), False)
    roles = [(1, "L", [role]), (2, "L", [role]), (3, "S", [(0, 6, False, "t")])]
    assert world.take() == with_roles(roles, metadata(1, 6))


def test_a_follower_is_stopped_in_the_epoch_of_its_leader_and_keeps_its_log(world):
    world.publisher.stop_follower(2, FIRST, 0)
    world.publisher.stop_follower(9, FIRST, 0)
    world.publisher.stop_follower(4, PartitionId(TOPIC, 1), 0)
    assert world.take() == [(2, "S", [(0, 5, False, "t")])]


def test_what_a_view_says(world):
    view = world.publisher._told[FIRST]
    assert (view.topic, view.topic_id, view.number, view.controller_epoch) == ("t", TOPIC, 0, 7)
    assert (view.leader, view.leader_epoch, view.isr, view.partition_epoch) == (1, 5, (1, 2), 0)
    assert (view.replicas, view.adding, view.removing, view.recovering) == ((1, 2, 3), (), (), False)
    world.change(world.state(1, 5, [1], 7, True))
    view = world.publisher._told[FIRST]
    assert (view.isr, view.partition_epoch, view.recovering) == ((1,), 1, True)
