"""What an agent knows of topics when entries it looked up are ahead of the store's watch."""

from mpbroker.controller.cluster_view import BrokersChanged, ClusterView, SettingsChanged, TopicGone, TopicPut
from mpbroker.metadata.cluster_records import BrokerRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Entry
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, encode_record

KEYS = Keys("c")
OLD, NEW = bytes([1] * 16), bytes([2] * 16)


def topic(topic_id, revision, created=None, name="t", replicas=([1, 2],)):
    value = encode_record(TopicRecord(topic_id.hex(), name, list(replicas), 0))
    made = revision if created is None else created
    return Entry(KEYS.topic(topic_id), value, 1 + (made < revision), made, revision, None)


def configs(revision, **settings):
    value = encode_record(TopicConfigRecord({key.replace("_", "."): value for key, value in settings.items()}))
    return Entry(KEYS.topic_config("t"), value, 1, revision, revision, None)


def apply(view, entry):
    return view.apply(entry.key, entry)


def shown(view):
    return [(topic.id, topic.configs) for topic in view.topics()]


def test_what_the_watch_tells_of_a_deleted_namesake_hides_no_topic():
    """Made, deleted and made again while the watch was behind, the second one looked up for the controller's request:
    its replicas would have been deleted with all they hold. (The simulation found it.)"""
    view = ClusterView(KEYS)
    (put,) = apply(view, topic(NEW, 9))
    assert isinstance(put, TopicPut)
    assert apply(view, topic(OLD, 5)) == []
    assert apply(view, topic(OLD, 7, created=5, replicas=([2, 3],))) == []
    assert view.apply(KEYS.topic(OLD), None) == [TopicGone(OLD)]
    assert apply(view, topic(NEW, 9)) == []
    assert shown(view) == [(NEW, {})]


def test_a_namesake_that_was_known_changes_no_more_once_its_successor_is():
    view = ClusterView(KEYS)
    apply(view, topic(OLD, 5))
    apply(view, topic(NEW, 9))
    assert apply(view, topic(OLD, 7, created=5)) == []
    view.apply(KEYS.topic(OLD), None)
    assert shown(view) == [(NEW, {})]


def test_a_later_topic_of_the_same_name_is_the_one():
    view = ClusterView(KEYS)
    apply(view, topic(OLD, 5))
    (put,) = apply(view, topic(NEW, 9))
    assert put.topic.id == NEW
    (put,) = apply(view, topic(NEW, 11, created=9, replicas=([2, 3],)))
    assert put.topic.replicas == [[2, 3]]


def test_settings_of_a_deleted_namesake_are_not_its_own():
    """A short retention, say."""
    view = ClusterView(KEYS)
    apply(view, configs(9, cleanup_policy="compact"))
    apply(view, topic(NEW, 9))
    assert apply(view, configs(5, retention_ms="1")) == []
    assert view.apply(KEYS.topic_config("t"), None, 6) == []
    assert shown(view) == [(NEW, {"cleanup.policy": "compact"})]
    (put,) = view.apply(KEYS.topic_config("t"), None, 12)
    assert put.topic.configs == {}


def test_settings_that_came_before_a_topic_that_has_none_are_not_its_own():
    view = ClusterView(KEYS)
    apply(view, topic(NEW, 9))
    assert apply(view, configs(5, retention_ms="1")) == []
    (put,) = apply(view, configs(12, retention_ms="2"))
    assert put.topic.configs == {"retention.ms": "2"}


def test_settings_of_brokers_and_groups_are_told_and_other_keys_not():
    view = ClusterView(KEYS)
    for key in (KEYS.broker_config(1), KEYS.broker_config(None), KEYS.group_config("g")):
        assert view.apply(key, None) == [SettingsChanged()]
    assert view.apply(KEYS.prefix + "something/else", None) == []


def test_brokers_come_and_go_with_the_epoch_of_their_registration():
    view = ClusterView(KEYS)
    record = BrokerRecord(2, "m", "d", "i", [])
    assert view.apply(KEYS.broker(2), Entry(KEYS.broker(2), encode_record(record), 3, 7, 9, None)) == [BrokersChanged()]
    assert {number: (live.record.id, live.epoch) for number, live in view.brokers.items()} == {2: (2, 7)}
    assert view.apply(KEYS.broker(3), None) == [BrokersChanged()] and set(view.brokers) == {2}
    assert view.apply(KEYS.broker(2), None) == [BrokersChanged()] and view.brokers == {}


def test_settings_of_a_topic_that_is_not_known_are_kept_for_it():
    view = ClusterView(KEYS)
    assert apply(view, configs(0, retention_ms="5")) == []
    (put,) = apply(view, topic(NEW, 0))
    assert put.topic.configs == {"retention.ms": "5"}


def test_a_namesake_that_goes_takes_only_its_own_name_with_it():
    view = ClusterView(KEYS)
    apply(view, topic(OLD, 5))
    apply(view, topic(NEW, 9))
    view.apply(KEYS.topic(OLD), None)
    (put,) = apply(view, configs(12, retention_ms="2"))
    assert put.topic.id == NEW
    assert view.apply(KEYS.topic(NEW), None) == [TopicGone(NEW)] and shown(view) == []
    assert apply(view, configs(13, retention_ms="3")) == [], "nobody has the name now"
    assert view.apply(KEYS.topic(NEW), None) == [TopicGone(NEW)], "told twice"


def test_a_topic_is_as_new_as_the_later_of_its_record_and_its_settings():
    view = ClusterView(KEYS)
    (put,) = apply(view, topic(NEW, 9))
    assert (put.topic.revision, put.topic.record_version) == (9, 1)
    (put,) = apply(view, configs(12, retention_ms="2"))
    assert put.topic.revision == 12
    (put,) = apply(view, topic(NEW, 14, created=9))
    assert (put.topic.revision, put.topic.record_version, put.topic.configs) == (14, 2, {"retention.ms": "2"})
    assert apply(view, topic(NEW, 14, created=9)) == [], "told twice"
    assert apply(view, configs(11, retention_ms="1")) == [], "older than what was looked up"
