"""What a broker is still to be told: the newest wins, order of sending, deletions, failures, sizes and ages."""

import pytest

from mpbroker.cluster.cluster_config import MAX_PARTITIONS_PER_REQUEST
from mpbroker.cluster.wanted_state import Batch, Lead, Named, PartitionView, Stop, WantedState

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


def test_of_equal_epochs_what_is_wanted_last_is_told(wanted):
    """Which replicas are offline changes without an epoch."""
    offline = view()._replace(offline=(2,))
    wanted.know(view(), 0)
    wanted.know(offline, 0)
    wanted.lead(view(), False, 0)
    wanted.lead(offline, False, 0)
    assert [sent(wanted) for _ in range(3)] == [("L", [Lead(offline, False)]), ("U", [offline]), None]


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [
        ((1, 5), (2, 0), True),
        ((2, 0), (1, 5), False),
        ((1, 4), (1, 5), True),
        ((1, 5), (1, 5), False),
        ((1, 6), (1, 5), False),
    ],
)
def test_which_of_two_views_is_older(one, other, older):
    assert view(0, *one).older_than(view(0, *other)) is older
    assert not view(0, *one).older_than(view(0, *other, topic_id=NEW)), "topics are not compared"


@pytest.mark.parametrize("left", ["a role", "metadata", "brokers", "a role behind a deletion", "nothing"])
def test_how_long_a_request_waited_counts_from_the_oldest_thing_it_may_have(wanted, left):
    if left == "a role behind a deletion":
        wanted.stop(stop(True), 10)
        wanted.lead(view(topic_id=NEW), True, 20)
    else:
        wanted.brokers_changed(10)
    if left == "a role":
        wanted.lead(view(), False, 20)
    elif left == "metadata":
        wanted.know(view(), 20)
    assert wanted.next_batch(60).partitions == (left == "a role behind a deletion")
    assert (wanted.queue_time.count, wanted.queue_time.max_ms) == (1, 50)
    if left == "brokers":
        wanted.brokers_changed(65)
    wanted.answered()
    if left == "nothing":
        assert wanted.oldest_age_ms(90) == 0
        wanted.brokers_changed(90)
    since = {"brokers": 65, "nothing": 90}.get(left, 10)
    assert wanted.oldest_age_ms(100) == 100 - since
    assert wanted.next_batch(100) is not None and wanted.queue_time.sum_ms == 50 + 100 - since


def test_what_failed_has_waited_since_it_failed_or_since_what_waited_longer(wanted):
    wanted.know(view(), 10)
    wanted.next_batch(60)
    wanted.failed(100)
    assert wanted.oldest_age_ms(150) == 140, "nobody has confirmed it yet"
    wanted.next_batch(250)
    assert wanted.queue_time.sum_ms == 50 + 150
    wanted.lead(view(1), False, 260)
    wanted.failed(300)
    wanted.next_batch(500)
    assert wanted.queue_time.sum_ms == 50 + 150 + 240


def test_a_clock_that_is_set_back_takes_no_time(wanted):
    wanted.know(view(), 1000)
    assert wanted.oldest_age_ms(900) == 0
    wanted.next_batch(900)
    assert (wanted.queue_time.count, wanted.queue_time.sum_ms) == (1, 0)


@pytest.mark.parametrize(("at_ms", "goes"), [(1000, False), (1099, False), (1100, True), (1101, True), (999, True)])
def test_the_pause_after_a_failure(wanted, at_ms, goes):
    """A tenth of a second; a clock that shows more than that was set back."""
    wanted.know(view(), 0)
    wanted.next_batch(0)
    wanted.failed(1000)
    assert (wanted.next_batch(at_ms) is not None) is goes


def test_a_failure_of_nothing_is_none(wanted):
    wanted.know(view(), 0)
    wanted.failed(0)
    assert wanted.next_batch(0) is not None


def test_a_role_behind_a_deletion_goes_when_the_replica_is_to_stop_after_all(wanted):
    wanted.stop(stop(True), 0)
    wanted.lead(view(topic_id=NEW), True, 0)
    wanted.stop(stop(True, topic_id=NEW), 0)
    assert sent(wanted) == ("S", [stop(True, topic_id=NEW)]) and sent(wanted) is None


def test_a_role_that_waits_behind_a_deletion_is_the_newest_and_stays_new(wanted):
    wanted.stop(stop(True), 0)
    wanted.lead(view(topic_id=NEW, leader_epoch=1), True, 0)
    wanted.lead(view(topic_id=NEW, leader_epoch=2), False, 0)
    wanted.lead(view(1), False, 0)
    assert sent(wanted) == ("L", [Lead(view(1), False)]), "another partition does not wait"
    assert sent(wanted) == ("S", [stop(True)])
    assert sent(wanted) == ("L", [Lead(view(topic_id=NEW, leader_epoch=2), True)])


def test_a_list_of_brokers_that_was_lost_is_sent_again_and_one_with_partitions_as_they_are(wanted):
    wanted.brokers_changed(0)
    wanted.next_batch(0)
    assert wanted.queue_size == 1
    wanted.failed(0)
    assert sent(wanted, 100) == ("U", [])
    wanted.know(view(), 0)
    wanted.next_batch(100)
    assert wanted.queue_size == 1
    wanted.know(view(leader_epoch=3), 0)
    wanted.failed(100)
    assert sent(wanted, 200) == ("U", [view(leader_epoch=3)]), "the newer one"
    assert sent(wanted, 200) is None


def test_all_that_there_is_stays_all_after_a_failure(wanted):
    wanted.want_all(0)
    wanted.know(view(), 0)
    wanted.lead(view(), True, 0)
    wanted.next_batch(0)
    wanted.answered()
    roles = wanted.next_batch(0)
    wanted.failed(0)
    again = wanted.next_batch(100)
    assert roles == again and again.full and not again.brokers
    wanted.answered()
    assert wanted.next_batch(100) is None and wanted.queue_size == 0


@pytest.mark.parametrize(
    ("lost", "newer", "told"),
    [
        (stop(True, leader_epoch=-2), stop(False, leader_epoch=4), stop(True, leader_epoch=-2)),
        (stop(False, leader_epoch=3), stop(False, leader_epoch=4), stop(False, leader_epoch=4)),
        (stop(False, leader_epoch=3), stop(True, leader_epoch=4), stop(True, leader_epoch=4)),
        (stop(True, leader_epoch=3), stop(True, leader_epoch=4), stop(True, leader_epoch=4)),
    ],
)
def test_a_stop_that_was_lost_and_one_that_is_wanted_by_then(wanted, lost, newer, told):
    wanted.stop(lost, 0)
    wanted.next_batch(0)
    wanted.stop(newer, 0)
    wanted.failed(0)
    assert sent(wanted, 100) == ("S", [told]) and sent(wanted, 100) is None


def test_a_role_that_was_lost_is_not_wanted_any_more_when_a_stop_is(wanted):
    wanted.lead(view(), True, 0)
    wanted.next_batch(0)
    wanted.stop(stop(False), 0)
    wanted.failed(0)
    assert sent(wanted, 100) == ("S", [stop(False)]) and sent(wanted, 100) is None


def test_a_request_counts_what_it_has(wanted):
    wanted.lead(view(), True, 0)
    wanted.stop(stop(False, number=1), 0)
    assert wanted.next_batch(0).partitions == 1 and wanted.queue_size == 2


def test_a_new_life_waits_for_its_first_request_from_its_beginning(wanted):
    wanted.want_all(10)
    assert (wanted.oldest_age_ms(50), wanted.queue_size) == (40, 1)
    wanted.next_batch(70)
    assert wanted.queue_time.sum_ms == 60


def test_a_view_recovers_and_a_request_is_all_there_is_only_if_it_is_said():
    assert view().recovering is False and Batch({}, {}, brokers=True).full is False
