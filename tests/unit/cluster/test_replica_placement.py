"""Replicas of new partitions: spread over brokers and racks as Kafka's controller does it."""

from collections import Counter

from mpbroker.cluster.replica_placement import place


def test_without_racks_leaders_go_round_and_followers_shift():
    racks = dict.fromkeys(range(5))
    assert place(0, 10, 3, racks, 0, 0) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]
    assert place(0, 1, 1, {7: None}, 0, 0) == [[7]]


def test_more_partitions_go_on_where_the_first_ended():
    racks = dict.fromkeys(range(3))
    assert place(0, 9, 2, racks, 1, 1)[6:] == place(6, 3, 2, racks, 1, 1)


def test_replicas_are_in_different_racks():
    racks = {0: "a", 1: "b", 2: "c", 3: "c", 4: "a", 5: "b"}
    placed = place(0, 12, 3, racks, 0, 0)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {6}


def test_more_replicas_than_racks_are_on_different_brokers():
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    for replicas in place(0, 8, 4, racks, 2, 1):
        assert sorted(replicas) == [0, 1, 2, 3]
    for replicas in place(0, 8, 3, racks, 2, 1):
        assert len(set(replicas)) == 3 and {racks[broker] for broker in replicas} == {"a", "b"}


def test_racks_do_not_count_unless_every_broker_has_one():
    assert place(0, 2, 2, {0: "a", 1: "a", 2: None}, 0, 0) == [[0, 1], [1, 2]]


def test_neighbours_are_in_different_racks_and_the_second_round_has_other_followers():
    """The example in Kafka's AdminUtils (KIP-36): brokers taken in the order 0, 3, 1, 5, 4, 2."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert place(0, 7, 3, racks, 0, 0) == [
        [0, 3, 1],
        [3, 1, 5],
        [1, 5, 4],
        [5, 4, 2],
        [4, 2, 0],
        [2, 0, 3],
        [0, 4, 2],
    ]
    assert place(6, 1, 3, racks, 0, 0) == [[0, 4, 2]]
    assert place(0, 1, 3, racks, 1, 0) == [[3, 1, 5]] and place(0, 1, 2, racks, 0, 1) == [[0, 4]]


def test_followers_go_one_rack_further_with_every_round():
    """Kafka's shift: begun at 1, it is 2 in the second round, so the first follower is six places on."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert place(0, 1, 3, racks, 0, 1) == [[0, 4, 2]] and place(6, 1, 3, racks, 0, 1) == [[0, 1, 4]]


def test_every_broker_of_a_larger_rack_leads_as_often():
    racks = {0: "a", 1: "a", 2: "a", 3: "b"}
    assert [replicas[0] for replicas in place(0, 8, 1, racks, 0, 0)] == [0, 3, 1, 2] * 2
