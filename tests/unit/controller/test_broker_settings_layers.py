"""Dynamic settings judged one resource after the other: what the next one builds upon, how much is kept, what differs
from the store, and with which code what cannot be is refused."""

from types import SimpleNamespace

import msgspec
import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import load_broker_config
from mpbroker.controller.broker_settings import GROUP, MAX_GROUPS_BYTES, MAX_LAYER_BYTES, BrokerSettings, Room
from mpbroker.controller.controller_store import BrokerLayer, GroupLayer
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ConfigChange, ConfigChanges
from mpbroker.metadata.topic_validation import Refusal

OWN, BROKER = 4, 4
SET, DELETE, APPEND = 0, 1, 2
SEGMENT, SESSION = "log.segment.bytes", "consumer.session.timeout.ms"
NOTHING = DynamicSettings({}, {}, {})


def made(layers=(), groups=()):
    """Settings as a store has them, published to a list."""
    config = load_broker_config(overrides=[f"node.id={OWN}", "num.io.threads=4"], environ={}, cores=2)
    store = SimpleNamespace(
        load_broker_configs=lambda: {layer.broker: layer for layer in layers},
        load_group_configs=lambda: {layer.group: layer for layer in groups},
    )
    published = []
    kept = BrokerSettings(store=store, config=lambda: config, publish=published.append, room=Room(64, 64))
    return kept, published


def changes(name, *changed, kind=BROKER):
    return ConfigChanges(kind, name, [ConfigChange(*one) for one in changed])


def refused(outcome):
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def test_the_resource_types_are_kafkas():
    assert GROUP == 32, "KIP-848"


def test_what_the_store_has_is_published_and_a_broker_that_it_does_not_know_has_nothing():
    layers = [BrokerLayer(None, {"a": "1"}, 3), BrokerLayer(OWN, {"b": "2"}, 4), BrokerLayer(9, {"c": "3"}, 5)]
    groups = [GroupLayer("g", {SESSION: "45000"}, 6)]
    kept, published = made(layers, groups)
    kept.announce()
    assert published == [kept.stored] == [DynamicSettings({"a": "1"}, {"b": "2"}, {"g": {SESSION: "45000"}})]
    assert (kept.cluster, kept.broker) == tuple(layers[:2])
    kept, _ = made()
    assert (kept.cluster, kept.broker, kept.groups) == (BrokerLayer(None, {}), BrokerLayer(OWN, {}), {})
    assert kept.stored == NOTHING


def test_changes_of_a_broker_and_of_all_go_to_their_own_layer_and_build_upon_what_was_judged_before():
    kept, _ = made()
    before = DynamicSettings({SEGMENT: "3000", "x": "1"}, {SEGMENT: "2000", "y": "2"}, {})
    own = kept.judge(changes(str(OWN), ("z", SET, "3")), False, before)
    assert own == before._replace(broker={SEGMENT: "2000", "y": "2", "z": "3"})
    everybody = kept.judge(changes("", ("z", SET, "3"), ("x", DELETE, None)), False, own)
    assert everybody == own._replace(cluster={SEGMENT: "3000", "z": "3"})
    assert kept.judge(changes(str(OWN), ("z", SET, "3")), True, before) == before._replace(broker={"z": "3"})
    assert kept.judge(changes("", ("z", SET, "3")), True, before) == before._replace(cluster={"z": "3"})


@pytest.mark.parametrize(
    ("name", "change", "code", "part"),
    [
        (str(OWN), (SEGMENT, APPEND, "1"), ErrorCode.INVALID_CONFIG, "append is not allowed"),
        (str(OWN), (SEGMENT, 9, "1"), ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (str(OWN), ("no.such", APPEND, "1"), ErrorCode.UNKNOWN_SERVER_ERROR, None),
        (str(OWN), ("node.id", SET, "1"), ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        (str(OWN), ("num.io.threads", SET, "9"), ErrorCode.INVALID_REQUEST, "not be greater than double the current"),
        ("", ("advertised.listeners", SET, "PLAINTEXT://a:1"), ErrorCode.INVALID_REQUEST, "broker id must be"),
    ],
    ids=["no list", "no operation", "a list nobody knows", "fixed", "out of step", "of one broker alone"],
)
def test_what_is_refused_with_which_code(name, change, code, part):
    kept, _ = made()
    found = kept.judge(changes(name, change), False, NOTHING)
    assert refused(found) == code
    assert found.sentence is None if part is None else part in found.sentence


def test_steps_are_counted_from_what_is_in_force_by_then():
    """Four handlers; eight by what was judged before in the same command, so sixteen may follow."""
    kept, _ = made()
    before = DynamicSettings({}, {"num.io.threads": "8"}, {})
    change = changes(str(OWN), ("num.io.threads", SET, "16"))
    assert kept.judge(change, False, before).broker == {"num.io.threads": "16"}
    assert refused(kept.judge(change, False, NOTHING)) == ErrorCode.INVALID_REQUEST


def test_what_is_stored_and_does_not_go_with_the_file_of_this_start_is_not_in_force():
    """A wrong text of an earlier version, say: it can be deleted, and counts are those of the file until then."""
    kept, _ = made()
    before = DynamicSettings({}, {"num.io.threads": "many"}, {})
    assert kept.judge(changes(str(OWN), ("num.io.threads", SET, "8")), False, before).broker == {"num.io.threads": "8"}
    assert refused(kept.judge(changes(str(OWN), ("num.io.threads", SET, "9")), False, before))


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_so_many_bytes_of_one_layer_are_kept(more, fits):
    assert MAX_LAYER_BYTES == 65536
    kept, _ = made()
    room = MAX_LAYER_BYTES - len(msgspec.json.encode({"no.such": ""}))
    found = kept.judge(changes(str(OWN), ("no.such", SET, "x" * (room + more))), False, NOTHING)
    if fits:
        assert len(found.broker["no.such"]) == room
    else:
        assert refused(found) == ErrorCode.POLICY_VIOLATION and "65536 bytes are kept" in found.sentence


# ---- groups


def test_settings_of_a_group_change_and_go():
    kept, _ = made()
    before = NOTHING._replace(broker={"a": "1"}, groups={"g": {SESSION: "45000"}, "h": {SESSION: "50000"}})
    heartbeat = "consumer.heartbeat.interval.ms"
    after = kept.judge(changes("g", (heartbeat, SET, "6000"), kind=GROUP), False, before)
    assert after == before._replace(groups={"g": {SESSION: "45000", heartbeat: "6000"}, "h": {SESSION: "50000"}})
    after = kept.judge(changes("g", (heartbeat, SET, "6000"), kind=GROUP), True, before)
    assert after.groups == {"g": {heartbeat: "6000"}, "h": {SESSION: "50000"}}
    after = kept.judge(changes("g", (SESSION, DELETE, None), kind=GROUP), False, before)
    assert after == before._replace(groups={"h": {SESSION: "50000"}}), "a group without settings is none"
    after = kept.judge(changes("new", (SESSION, SET, "55000"), kind=GROUP), False, before)
    assert after.groups == before.groups | {"new": {SESSION: "55000"}}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ((SESSION, APPEND, "1"), "Can't APPEND to key"),
        (("no.such", SET, "1"), "Unknown group config name: no.such"),
        ((SESSION, SET, "60001"), "must be less than or equal to"),
    ],
)
def test_what_a_group_cannot_have(change, part):
    kept, _ = made()
    found = kept.judge(changes("g", change, kind=GROUP), False, NOTHING)
    assert refused(found) == ErrorCode.INVALID_CONFIG and part in found.sentence


def test_the_bounds_of_groups_are_those_in_force():
    kept, _ = made()
    before = NOTHING._replace(broker={"group.consumer.max.session.timeout.ms": "70000"})
    assert kept.judge(changes("g", (SESSION, SET, "60001"), kind=GROUP), False, before).groups["g"]


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_so_many_bytes_of_all_groups_are_kept(more, fits):
    assert MAX_GROUPS_BYTES == 262_144
    kept, _ = made()
    small = len(msgspec.json.encode({"": {SESSION: "45000"}, "g": {SESSION: "45000"}}))
    others = {"x" * (MAX_GROUPS_BYTES - small + more): {SESSION: "45000"}}
    before = NOTHING._replace(groups=others)
    found = kept.judge(changes("g", (SESSION, SET, "45000"), kind=GROUP), False, before)
    if fits:
        assert found.groups == others | {"g": {SESSION: "45000"}}
    else:
        assert refused(found) == ErrorCode.POLICY_VIOLATION and "262144 bytes are kept" in found.sentence


# ---- what is written


def test_only_layers_that_differ_are_written_each_upon_its_version():
    layers = [BrokerLayer(None, {"a": "1"}, 3), BrokerLayer(OWN, {"b": "2"}, 4)]
    groups = [GroupLayer("g", {SESSION: "45000"}, 6), GroupLayer("h", {SESSION: "45000"}, 7)]
    kept, _ = made(layers, groups)
    assert kept.changed(kept.stored) == []
    found = kept.changed(kept.stored._replace(cluster={"a": "5"}))
    assert found == [BrokerLayer(None, {"a": "5"}, 3)]
    found = kept.changed(kept.stored._replace(broker={}))
    assert found == [BrokerLayer(OWN, {}, 4)]
    found = kept.changed(kept.stored._replace(groups={"h": {SESSION: "45000"}, "new": {SESSION: "50000"}}))
    assert sorted(found) == [GroupLayer("g", {}, 6), GroupLayer("new", {SESSION: "50000"})], "one gone, one come"


def test_what_the_store_took_is_published_at_once():
    kept, published = made([BrokerLayer(OWN, {"b": "2"}, 4)])
    assert kept.committed([BrokerLayer(OWN, {"b": "3"}, 5), GroupLayer("g", {SESSION: "45000"}, 1)]) == ["b", SESSION]
    assert published == [DynamicSettings({}, {"b": "3"}, {"g": {SESSION: "45000"}})]
