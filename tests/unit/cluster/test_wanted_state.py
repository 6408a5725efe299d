"""What a broker is still to be told: the newest wins, order of sending, deletions, failures, sizes and ages."""

import pytest

from mpbroker.cluster.cluster_config import MAX_PARTITIONS_PER_REQUEST
from mpbroker.cluster.wanted_state import Lead, Named, PartitionView, Stop, WantedState

OLD, NEW = b"o" * 16, b"n" * 16


def view(number=0, leader_epoch=0, partition_epoch=0, topic_id=OLD, leader=1):
    return PartitionView("t", topic_id, number, 1, leader, leader_epoch, (1, 2), partition_epoch, (1, 2))


def stop(delete, leader_epoch=0, number=0, topic_id=OLD):
    return Stop("t", topic_id, number, leader_epoch, delete)


@pytest.fixture
def wanted():
    return WantedState(2, 7)


def sent(wanted, now_ms=0):
    """(kind, items) of the next request, answered at once."""
    batch = wanted.next_batch(now_ms)
    if batch is None:
        return None
    wanted.answered()
    if batch.brokers:
        return "U", list(batch.metadata.values())
    items = list(batch.roles.values())
    return ("S" if items and isinstance(items[0], Stop) else "L"), items


def test_the_order_of_sending(wanted):
    wanted.stop(stop(True, number=1), 0)
    wanted.know(view(), 0)
    wanted.lead(view(), False, 0)
    wanted.brokers_changed(0)
    assert [sent(wanted) for _ in range(5)] == [
        ("U", []),
        ("L", [Lead(view(), False)]),
        ("U", [view()]),
        ("S", [stop(True, number=1)]),
        None,
    ]


def test_a_new_life_is_told_all_metadata_then_all_roles_each_in_one_request(wanted):
    wanted.want_all(0)
    for number in range(MAX_PARTITIONS_PER_REQUEST + 5):
        wanted.know(view(number), 0)
        wanted.lead(view(number), False, 0)
    first, second = wanted.next_batch(0), None
    wanted.failed(0)
    assert wanted.next_batch(99) is None  # a pause
    again = wanted.next_batch(100)
    wanted.answered()
    second = wanted.next_batch(100)
    assert first == again and first.full and first.brokers and first.partitions == MAX_PARTITIONS_PER_REQUEST + 5
    assert second.full and not second.brokers and second.partitions == MAX_PARTITIONS_PER_REQUEST + 5


def test_a_clock_that_is_set_back_does_not_make_the_pause_longer(wanted):
    wanted.know(view(), 10_000)
    wanted.next_batch(10_000)
    wanted.failed(10_000)
    assert wanted.next_batch(10_099) is None
    assert wanted.next_batch(2_000) is not None


def test_roles_alone_come_before_metadata_that_waits(wanted):
    wanted.know(view(), 0)
    wanted.lead(view(), False, 0)
    wanted.stop(stop(False, number=1), 0)
    kinds = []
    while (batch := wanted.next_batch(0, roles_only=True)) is not None:
        kinds.append([type(item).__name__ for item in batch.roles.values()])
        assert not batch.brokers
        wanted.answered()
    assert kinds == [["Lead"], ["Stop"]]
    assert sent(wanted) == ("U", [view()])


def test_a_new_life_begins_with_metadata_however_long_it_waits(wanted):
    wanted.want_all(0)
    wanted.lead(view(), False, 0)
    assert wanted.next_batch(0, roles_only=True) is None


def test_a_broker_without_replicas_is_told_so(wanted):
    wanted.want_all(0)
    assert sent(wanted) == ("U", []) and wanted.next_batch(0).full


def test_a_request_has_a_thousand_partitions_at_most(wanted):
    for number in range(2500):
        wanted.lead(view(number), False, 0)
    assert [len(sent(wanted)[1]) for _ in range(3)] == [1000, 1000, 500]


def test_the_newest_wins_and_is_new_sticks(wanted):
    wanted.lead(view(leader_epoch=3), True, 0)
    wanted.lead(view(leader_epoch=5, partition_epoch=2), False, 0)
    wanted.lead(view(leader_epoch=4), False, 0)
    wanted.know(view(leader_epoch=5), 0)
    wanted.know(view(leader_epoch=4, partition_epoch=9), 0)
    assert sent(wanted) == ("L", [Lead(view(leader_epoch=5, partition_epoch=2), True)])
    assert sent(wanted) == ("U", [view(leader_epoch=5)])


def test_one_request_in_flight_and_what_moves_meanwhile_is_sent_again(wanted):
    wanted.lead(view(), False, 0)
    wanted.next_batch(0)
    wanted.lead(view(leader_epoch=1), False, 0)
    assert wanted.next_batch(0) is None
    wanted.answered()
    assert sent(wanted) == ("L", [Lead(view(leader_epoch=1), False)])


def test_after_a_failure_what_is_wanted_then_is_sent(wanted):
    wanted.lead(view(), True, 0)
    wanted.next_batch(0)
    wanted.lead(view(leader_epoch=1), False, 0)
    wanted.failed(0)
    assert sent(wanted, 100) == ("L", [Lead(view(leader_epoch=1), True)])
    assert sent(wanted, 100) is None


def test_a_stop_replaces_a_role_and_a_role_a_stop(wanted):
    wanted.lead(view(), False, 0)
    wanted.stop(stop(False), 0)
    assert sent(wanted) == ("S", [stop(False)])
    wanted.stop(stop(False), 0)
    wanted.lead(view(leader_epoch=1), False, 0)
    assert sent(wanted) == ("L", [Lead(view(leader_epoch=1), False)])


def test_a_deletion_sticks(wanted):
    wanted.stop(stop(True, leader_epoch=-2), 0)
    wanted.stop(stop(False, leader_epoch=1, topic_id=NEW), 0)
    assert sent(wanted) == ("S", [stop(True, leader_epoch=-2)])


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_role_waits_for_the_answer_to_a_deletion_under_its_name(wanted, in_flight):
    wanted.stop(stop(True), 0)
    if in_flight:
        wanted.next_batch(0)
    wanted.lead(view(topic_id=NEW), True, 0)
    if in_flight:
        wanted.failed(0)
    assert wanted.queue_size == 1
    assert sent(wanted, 100) == ("S", [stop(True)])
    assert sent(wanted, 100) == ("L", [Lead(view(topic_id=NEW), True)])


def test_a_deleted_topic_is_told_whatever_its_epochs_and_a_new_one_of_its_name_wins(wanted):
    wanted.know(view(leader_epoch=9), 0)
    gone = view(leader=-2, leader_epoch=-2)
    wanted.know(gone, 0)
    assert sent(wanted) == ("U", [gone])
    wanted.know(view(topic_id=NEW), 0)
    wanted.know(gone, 0)
    assert sent(wanted) == ("U", [view(topic_id=NEW)])


def test_sizes_times_and_ages(wanted):
    assert (wanted.queue_size, wanted.oldest_age_ms(5)) == (0, 0)
    wanted.lead(view(), False, 10)
    wanted.know(view(), 20)
    wanted.brokers_changed(30)
    assert (wanted.queue_size, wanted.oldest_age_ms(50)) == (2, 40)
    wanted.next_batch(60)
    assert (wanted.queue_time.count, wanted.queue_time.max_ms) == (1, 50)
    assert wanted.queue_size == 2
    for _ in range(3):
        wanted.answered()
        wanted.next_batch(70)
    assert (wanted.queue_size, wanted.oldest_age_ms(90)) == (0, 0)


def test_names_tell_partitions_apart():
    assert view().named == Named("t", 0) != view(1).named


@pytest.mark.parametrize(
    ("lost_new", "newer_new", "newer_id", "is_new"),
    [
        (False, False, OLD, False),
        (True, False, OLD, True),
        (False, True, OLD, True),
        (True, False, NEW, False),
        (False, False, NEW, False),
    ],
)
def test_what_was_lost_leaves_its_newness_to_what_is_wanted_of_the_same_topic(
    wanted, lost_new, newer_new, newer_id, is_new
):
    wanted.lead(view(), lost_new, 0)
    wanted.next_batch(0)
    wanted.lead(view(leader_epoch=1, topic_id=newer_id), newer_new, 0)
    wanted.failed(0)
    assert sent(wanted, 100) == ("L", [Lead(view(leader_epoch=1, topic_id=newer_id), is_new)])
