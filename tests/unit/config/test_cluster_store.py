"""`mpbroker.cluster.store`: where the brokers of a cluster keep its metadata, or nothing."""

import pytest

from mpbroker.config.cluster_store import parse_cluster_store
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError


def test_a_file_of_one_machine():
    place = load_broker_config(overrides=["mpbroker.cluster.store=sqlite:/d/metadata.db"], environ={}, cores=2)
    assert place.cluster_store == ("sqlite:/d/metadata.db", "/d/metadata.db", ())


def test_members_of_an_etcd():
    place = parse_cluster_store(" etcd://a.example:2379,127.0.0.1:2380, [::1]:1 ")
    assert (place.sqlite_path, place.etcd) == ("", (("a.example", 2379), ("127.0.0.1", 2380), ("::1", 1)))


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_is_a_broker_by_itself(text):
    assert parse_cluster_store(text) is None


ETCD = ["etcd://", "etcd:h:1", "etcd://h", "etcd://h:0", "etcd://h:65536", "etcd://h:1,", "etcd://http://h:1"]


@pytest.mark.parametrize(
    "text", ["/d/metadata.db", "sqlite:metadata.db", "sqlite:", "sqlite:/d/", "zookeeper:h:2181", *ETCD]
)
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(ConfigError, match=r"mpbroker\.cluster\.store=.*sqlite:/path"):
        load_broker_config(overrides=[f"mpbroker.cluster.store={text}"], environ={}, cores=2)


@pytest.mark.parametrize(("members", "allowed"), [(1, True), (16, True), (17, False)])
def test_there_are_at_most_sixteen_members(members, allowed):
    text = "etcd://" + ",".join(f"h{number}:{number + 1}" for number in range(members))
    if allowed:
        assert parse_cluster_store(text).etcd == tuple((f"h{number}", number + 1) for number in range(members))
        return
    with pytest.raises(ConfigError):
        parse_cluster_store(text)


@pytest.mark.parametrize(("port", "allowed"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_a_port_is_one(port, allowed):
    if allowed:
        assert parse_cluster_store(f"etcd://h:{port}").etcd == (("h", port),)
        return
    with pytest.raises(ConfigError):
        parse_cluster_store(f"etcd://h:{port}")
