"""What the store asks etcd's gateway, and what it makes of the answers; the gateway is a list of answers."""

import os

import pytest

from mpbroker.metadata import etcd_store
from mpbroker.metadata.etcd_gateway import EndPoint, EtcdRefused, OutcomeUnknown, decode, encode
from mpbroker.metadata.etcd_store import EtcdStore
from mpbroker.metadata.meta_store import (
    Absent,
    Committed,
    Compacted,
    Conflict,
    Delete,
    DeletePrefix,
    ModRev,
    Progress,
    Put,
    Session,
    StoreError,
    StoreTimeout,
    Unknown,
    Value,
    Version,
)

NOT_FOUND, OUT_OF_RANGE = 5, 11
SESSION = Session(77, "me", 4000)


class Gateway:
    """Gives `answers` one after the other; an exception is raised."""

    def __init__(self, *_given):
        self.answers, self.asked, self.closed = [], [], False
        self.end_point = EndPoint("h", 1)

    def read(self, path, request):
        self.asked.append((path, request))
        answer = self.answers.pop(0) if self.answers else {"version": "3.5.1"}
        if isinstance(answer, Exception):
            raise answer
        return answer

    write = read

    def close(self):
        self.closed = True


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(etcd_store, "EtcdGateway", Gateway)
    made = EtcdStore([EndPoint("h", 1)])
    made._gateway.asked.clear()
    return made


def gives(store, *answers):
    store._gateway.answers = list(answers)
    return store


def kv(key, rev=5):
    return {"key": encode(key), "value": encode("v"), "version": "2", "create_revision": "3", "mod_revision": str(rev)}


def answer(*keys, rev=9, **more):
    return {"header": {"revision": str(rev)}, "kvs": [kv(key) for key in keys]} | more


def test_a_transaction_stays_below_what_etcd_takes(store):
    """Keys and values, with a third of etcd's usual 1.5 MiB left for what is around them in base64."""
    gives(store, {"succeeded": True, "header": {"revision": "7"}})
    assert store.txn([], [Put("k", bytes(2**20 - 1))], tag="t") == Committed(7)
    with pytest.raises(ValueError, match="bytes"):
        store.txn([], [Put("k", bytes(2**20))], tag="t")


@pytest.mark.parametrize(
    "version, is_served",
    [
        ("3.5.0", True),
        ("3.6.1", True),
        ("4.0", True),
        ("3.4.27", False),
        ("2.9.9", False),
        ("3", False),
        ("x.5", False),
        ("3.x", False),
        ("", False),
    ],
)
def test_an_etcd_that_is_too_old_is_refused(monkeypatch, version, is_served):
    monkeypatch.setattr(etcd_store, "EtcdGateway", Gateway)
    monkeypatch.setattr(Gateway, "read", lambda *_given: {"version": version})
    if is_served:
        assert EtcdStore([]).limits.max_ops == 128
    else:
        with pytest.raises(StoreError):
            EtcdStore([])


def test_a_scan_is_of_one_revision_from_page_to_page(store):
    gives(store, answer("a/1", "a/2", more=True), answer("a/3", rev=12))
    pages = [(page.rev, [entry.key for entry in page.entries]) for page in store.scan("a/", page=2)]
    assert pages == [(9, ["a/1", "a/2"]), (9, ["a/3"])]
    asked = [request for _, request in store._gateway.asked]
    assert [decode(one["key"]) for one in asked] == [b"a/", b"a/2\0"]
    assert [decode(one["range_end"]) for one in asked] == [b"a0", b"a0"]
    assert [one.get("revision") for one in asked] == [None, 9] and {one["limit"] for one in asked} == {2}


@pytest.mark.parametrize("given", [answer(), answer(more=True), answer("a/1")])
def test_a_scan_ends_with_a_page_behind_which_nothing_is(store, given):
    gives(store, given)
    [page] = store.scan("a/", at=4)
    assert page.rev == 4 and len(page.entries) == len(given["kvs"])
    assert store._gateway.asked[0][1]["revision"] == 4


def test_a_key_and_the_revision(store):
    gives(store, answer("k"), answer(rev=10), answer(rev=11))
    rev, entry = store.get("k")
    assert (rev, entry.key, entry.value, entry.version, entry.create_rev, entry.mod_rev) == (9, "k", b"v", 2, 3, 5)
    assert store.get("k") == (10, None)
    assert store.revision() == 11 and store._gateway.asked[-1][1]["count_only"] is True


def test_what_has_been_trimmed_away_says_from_where_it_is_kept(store):
    gives(store, EtcdRefused(OUT_OF_RANGE, "compacted"), answer(rev=30))
    with pytest.raises(Compacted) as told:
        next(store.scan("a/", at=4))
    assert told.value.min_rev == 30
    gives(store, EtcdRefused(NOT_FOUND, "what"))
    with pytest.raises(EtcdRefused):
        next(store.scan("a/", at=4))


def test_a_transaction_in_etcds_words(store):
    gives(store, answer(succeeded=True))
    checks = [Absent("a"), Version("b", 3), ModRev("c", 4), Value("d", b"w")]
    ops = [Put("a", b"1", None), Put("b", b"2", 77), Delete("c"), DeletePrefix("d/")]
    assert store.txn(checks, ops, tag="t") == Committed(9)
    [(path, request)] = store._gateway.asked
    assert path == "/v3/kv/txn"
    compared = [{name: one[name] for name in one if name not in ("key", "result")} for one in request["compare"]]
    assert compared == [
        {"target": "VERSION", "version": "0"},
        {"target": "VERSION", "version": "3"},
        {"target": "MOD", "mod_revision": "4"},
        {"target": "VALUE", "value": encode("w")},
    ]
    assert {one["result"] for one in request["compare"]} == {"EQUAL"}
    assert request["success"] == [
        {"request_put": {"key": encode("a"), "value": encode("1")}},
        {"request_put": {"key": encode("b"), "value": encode("2"), "lease": "77"}},
        {"request_delete_range": {"key": encode("c")}},
        {"request_delete_range": {"key": encode("d/"), "range_end": encode("d0")}},
    ]
    assert [decode(one["request_range"]["key"]) for one in request["failure"]] == [b"a", b"b", b"c", b"d"]


def test_how_a_transaction_can_end_otherwise(store):
    found = {"responses": [{"response_range": {"kvs": [kv("a")]}}, {"response_range": {}}, {}]}
    outcome = gives(store, found).txn([Absent("a"), Absent("b"), Absent("c")], [Delete("d")], tag="t")
    assert isinstance(outcome, Conflict)
    [conflicts] = [getattr(outcome, name) for name in outcome.__struct_fields__]
    assert [one and one.key for one in conflicts] == ["a", None, None]
    assert gives(store, OutcomeUnknown("cut off")).txn([], [Delete("d")], tag="t") == Unknown("t")
    with pytest.raises(StoreError, match="session has ended"):
        gives(store, EtcdRefused(NOT_FOUND, "lease")).txn([], [Delete("d")], tag="t")
    with pytest.raises(EtcdRefused):
        gives(store, EtcdRefused(3, "other")).txn([], [Delete("d")], tag="t")


@pytest.mark.parametrize("ttl_ms, seconds", [(1, 1), (1000, 1), (1001, 2), (4000, 4)])
def test_a_session_lasts_at_least_as_long_as_it_shall(store, ttl_ms, seconds):
    assert gives(store, {"ID": "77"}).session_open(ttl_ms, "me") == Session(77, "me", ttl_ms)
    assert store._gateway.asked == [("/v3/lease/grant", {"TTL": seconds})]
    with pytest.raises(StoreTimeout):
        gives(store, OutcomeUnknown("cut off")).session_open(ttl_ms, "me")


@pytest.mark.parametrize("ttl, lives", [("2", True), ("1", True), ("0", False), ("-1", False), (None, False)])
def test_a_session_lives_while_time_is_left(store, ttl, lives):
    told = {} if ttl is None else {"TTL": ttl}
    found = gives(store, told | {"grantedTTL": "4"}).session_find(77)
    assert found == (Session(77, "", 4000) if lives else None)
    assert gives(store, {"result": told}).session_renew(SESSION) is lives
    assert gives(store, {}).session_renew(SESSION) is False
    assert [request for _, request in store._gateway.asked] == [{"ID": "77"}] * 3


def test_a_session_that_is_over_is_closed_all_the_same(store):
    gives(store, {}).session_close(SESSION)
    gives(store, EtcdRefused(NOT_FOUND, "lease")).session_close(SESSION)
    with pytest.raises(EtcdRefused):
        gives(store, EtcdRefused(3, "other")).session_close(SESSION)


def test_how_far_a_member_is_behind(store):
    told = {"header": {"member_id": "12"}, "raftTerm": "3", "version": "3.5.1"}
    for more, lag in (
        ({}, 0),
        ({"raftIndex": "9"}, 0),
        ({"raftIndex": "9", "raftAppliedIndex": "7"}, 2),
        ({"raftAppliedIndex": "7"}, 0),
    ):
        found = gives(store, told | more).health()
        assert [getattr(found, name) for name in found.__struct_fields__] == ["etcd 12", 3, "3.5.1", lag]


def test_a_store_is_its_processes_own(store, monkeypatch):
    own = os.getpid()
    monkeypatch.setattr(etcd_store.os, "getpid", lambda: own + 1)
    with pytest.raises(StoreError, match="opened by the process"):
        store.revision()
    store.close()
    assert not store._gateway.closed
    monkeypatch.setattr(etcd_store.os, "getpid", lambda: own)
    store.close()
    assert store._gateway.closed


def test_what_no_driver_could_do_is_not_asked(store):
    with pytest.raises(ValueError, match="illegal key"):
        store.txn([], [Delete("")], tag="t")
    with pytest.raises(ValueError, match="129"):
        store.txn([], [Delete(f"k{number}") for number in range(129)], tag="t")
    assert not store._gateway.asked


def test_a_watch_says_how_far_it_is_whenever_nothing_comes(store, monkeypatch):
    waited, closed = [], []
    found = [["one", "two"], [], ["three"], []]

    class Watch:
        rev = 6

        def take(self, wait_ms):
            waited.append(wait_ms)
            self.rev += 1
            return found.pop(0)

        def close(self):
            closed.append(1)

    opened = []
    monkeypatch.setattr(etcd_store, "EtcdWatch", lambda *words: opened.append(words) or Watch())
    watch = store.watch("a/", 6)
    assert [next(watch) for _ in range(5)] == ["one", "two", Progress(8), "three", Progress(10)]
    assert opened == [(store._gateway, "a/", "a0", 6)] and waited == [250] * 4 and not closed
    watch.close()
    assert closed == [1]


def test_zeros_that_the_gateway_leaves_out(store):
    gives(store, {"succeeded": True}, {})
    assert store.txn([], [Delete("d")], tag="t") == Committed(0)
    assert store.get("k") == (0, None)
