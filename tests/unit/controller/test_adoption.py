"""`mpbroker adopt` on made directories: what is in doubt stays where it is, with the reason."""

import os
import time
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.controller import adoption
from mpbroker.controller.adoption import Adoption, adopt, identity, say
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.errors import ConfigError
from mpbroker.log import data_dir
from mpbroker.log.checkpoint_file import HIGH_WATERMARK, write_checkpoint
from mpbroker.log.clean_shutdown import MARKER, write_marker
from mpbroker.log.partition_directory import MOVED_HERE, id_text, read_topic_id
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.store_peek import STORE_FILE, UnreadableStore, peek
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.server.internal_topics import new_topic

ONE, TWO = bytes(15) + b"\x01", bytes(15) + b"\x02"


def partition(path, name: str, topic_id: bytes | None = ONE, records: bytes = b"records") -> None:
    (path / name).mkdir()
    (path / name / f"{0:020d}.log").write_bytes(records)
    (path / name / f"{0:020d}.index").touch()
    if topic_id:
        (path / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {id_text(topic_id)}")


def stored(path):
    """The topics of the store."""
    store = SqliteStore(path / STORE_FILE)
    try:
        return ControllerStore(store, Keys(data_dir.read_meta(str(path)).cluster_id), 1).load_topics()
    finally:
        store.close()


def topics(path) -> set[str]:
    return set().union(*peek(str(path / STORE_FILE)).topics.values())


def test_topics_are_taken_in_with_their_ids_once(tmp_path):
    partition(tmp_path, "a-0")
    partition(tmp_path, "a-2")
    partition(tmp_path, "b.c-0", None)
    write_marker(str(tmp_path))
    done = adopt(str(tmp_path), 4)
    assert done.taken == [
        "a: 3 partitions, 14 bytes; missing, made empty at the next start: 1",
        "b.c: 1 partitions, 7 bytes",
    ]
    assert done.left == [] and topics(tmp_path) == {"a", "b.c"}
    assert data_dir.read_meta(str(tmp_path)).node_id == 4
    assert not (tmp_path / MARKER).exists(), "the next start reads what it has never seen"
    again = adopt(str(tmp_path))
    assert again == ([], [], [])


def test_directories_are_durable_before_the_store_names_them(tmp_path, monkeypatch):
    """After a power cut in between, nothing is named that is not there."""
    partition(tmp_path, "a-0")
    done = []
    synced, create = adoption.sync_directory, ControllerStore.create_topics
    monkeypatch.setattr(adoption, "sync_directory", lambda path: (done.append("synced"), synced(path)))
    monkeypatch.setattr(
        ControllerStore, "create_topics", lambda *given, **named: (done.append("stored"), create(*given, **named))[1]
    )
    adopt(str(tmp_path))
    assert done == ["synced", "stored"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"a-0": ONE, "a-1": TWO}, "different topic ids"),
        ({"a-4000000000": ONE}, "at most"),
        ({"a..-0": ONE, "a__-0": TWO}, "same metric name"),
    ],
)
def test_what_is_in_doubt_is_left_as_it_is(tmp_path, names, why):
    for name, topic_id in names.items():
        partition(tmp_path, name, topic_id)
    before = sorted(os.listdir(tmp_path))
    done = adopt(str(tmp_path))
    assert done.left and all(why in sentence for sentence in done.left)
    assert set(before) <= set(os.listdir(tmp_path))


@pytest.mark.parametrize("name", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
@pytest.mark.parametrize(("numbers", "count"), [((0, 1, 2), 3), ((3,), 50), ((0, 59), 60)])
def test_internal_topics_are_taken_in_as_a_broker_makes_them(tmp_path, name, numbers, count):
    for number in numbers:
        partition(tmp_path, f"{name}-{number}")
    done = adopt(str(tmp_path))
    assert (len(done.taken), done.left, done.kept) == (1, [], [])
    [topic] = stored(tmp_path)
    made = new_topic(name, load_broker_config())
    assert (topic.name, len(topic.replicas), topic.configs) == (name, count, made.configs)
    assert made.num_partitions == adoption.INTERNAL_PARTITIONS


def test_an_internal_topic_in_doubt_is_set_aside_so_that_the_broker_can_make_it(tmp_path):
    partition(tmp_path, f"{OFFSETS_TOPIC}-0", ONE)
    partition(tmp_path, f"{OFFSETS_TOPIC}-1", TWO)
    kept = {f"{OFFSETS_TOPIC}-0.{ONE.hex()}-stray", f"{OFFSETS_TOPIC}-1.{TWO.hex()}-stray"}
    done = adopt(str(tmp_path))
    assert done.taken == [] and len(done.left) == 2
    assert all("different topic ids; kept as" in sentence for sentence in done.left)
    assert {name for name in os.listdir(tmp_path) if name.startswith("__")} == kept
    assert len(adopt(str(tmp_path)).left) == 2
    assert {name for name in os.listdir(tmp_path) if name.startswith("__")} == kept


def test_strays_come_back_where_their_place_is_free(tmp_path):
    partition(tmp_path, "a-0")
    adopt(str(tmp_path))
    partition(tmp_path, f"a-0.{ONE.hex()}-stray", records=b"older")
    partition(tmp_path, f"b-0.{TWO.hex()}-stray", TWO)
    partition(tmp_path, f"c-0.{TWO.hex()}-delete", TWO)
    done = adopt(str(tmp_path))
    assert done.taken == ["b: 1 partitions, 7 bytes"]
    assert done.left == [f"a-0.{ONE.hex()}-stray: a-0 is in its place"]
    assert sorted(name for name in os.listdir(tmp_path) if name[1:2] == "-") == [
        "a-0",
        f"a-0.{ONE.hex()}-stray",
        "b-0",
        f"c-0.{TWO.hex()}-delete",
    ]


def test_a_stray_of_a_topic_with_another_id_is_left(tmp_path):
    partition(tmp_path, "a-0")
    adopt(str(tmp_path))
    partition(tmp_path, f"a-1.{TWO.hex()}-stray", TWO)
    assert adopt(str(tmp_path)).left == [f"a-1.{TWO.hex()}-stray: topic a has another id"]


def test_identities_that_contradict_each_other_are_refused(tmp_path):
    partition(tmp_path, "a-0")
    adopt(str(tmp_path), 1)
    meta = tmp_path / "meta.properties"
    text = meta.read_text()
    with pytest.raises(ConfigError, match="node that"):
        identity(str(tmp_path), 2)
    meta.write_text(text.replace("cluster.id=", "cluster.id=x"))
    with pytest.raises(ConfigError, match="remove meta.properties"):
        identity(str(tmp_path), None)
    meta.unlink()
    assert identity(str(tmp_path), 1).cluster_id in text


def test_a_store_that_is_none_is_said_to_be(tmp_path):
    (tmp_path / STORE_FILE).write_bytes(b"x" * 5000)
    with pytest.raises(UnreadableStore):
        peek(str(tmp_path / STORE_FILE))
    with pytest.raises(ConfigError, match="put a copy back"):
        adopt(str(tmp_path))
    assert peek(str(tmp_path / "none.db")).clusters == set()


def test_a_store_of_two_clusters_has_no_identity_of_its_own(tmp_path, monkeypatch):
    for clusters, is_refused in (({"a"}, False), ({"a", "b"}, True)):
        monkeypatch.setattr(
            "mpbroker.controller.adoption.peek", lambda _, found=clusters: SimpleNamespace(clusters=found)
        )
        if is_refused:
            (tmp_path / "meta.properties").unlink()
            with pytest.raises(ConfigError, match=r"topics of several clusters \(a, b\)"):
                identity(str(tmp_path), None)
        else:
            assert identity(str(tmp_path), None).cluster_id == "a"


@pytest.mark.parametrize(
    ("taken", "left", "lines"),
    [
        ([], [], ["/d: every partition directory belongs to a topic already"]),
        (["t, 2 partitions"], [], ["taken in  t, 2 partitions"]),
        ([], ["u-0: no"], ["left      u-0: no"]),
        (["t"], ["u-0: no"], ["taken in  t", "left      u-0: no"]),
    ],
)
def test_people_are_told_what_became_of_each(taken, left, lines):
    written = []
    say(Adoption(taken, left, []), "/d", written.append)
    assert written == lines


def test_topics_taken_in_keep_every_record_until_somebody_says_otherwise(tmp_path):
    """Their settings are lost with the store, and the broker's defaults delete or compact."""
    partition(tmp_path, "a-0")
    done = adopt(str(tmp_path))
    [topic] = stored(tmp_path)
    assert topic.configs == {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
    written = []
    say(done, "/d", written.append)
    assert "cleanup.policy=delete retention.bytes=-1 retention.ms=-1" in written[1]
    assert "mpbroker config set topic:a retention.ms=604800000" in written[2]
    assert "mpbroker config unset topic:a retention.ms" in written[3]


def test_a_directory_of_nobody_is_node_0s_and_its_topics_are_of_now(tmp_path):
    partition(tmp_path, "a-0")
    before_ms = time.time_ns() // 1_000_000
    adopt(str(tmp_path))
    meta = data_dir.read_meta(str(tmp_path))
    assert meta.node_id == 0
    store = SqliteStore(tmp_path / STORE_FILE)
    keys = Keys(meta.cluster_id)
    [topic] = ControllerStore(store, keys, 1).load_topics()
    answers = [entry for page in store.scan(keys.operations) for entry in page.entries]
    store.close()
    assert answers == [], "nobody asked"
    assert topic.replicas == [[0]] and before_ms <= topic.created_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(("number", "taken"), [(99_999, True), (100_000, False)])
def test_a_topic_that_would_have_too_many_partitions_is_left_whole(tmp_path, number, taken):
    assert adoption.MAX_PARTITIONS == 100_000
    partition(tmp_path, "a-0")
    partition(tmp_path, f"a-{number}")
    done = adopt(str(tmp_path), fill_missing=True, room=(10, 200_000))
    assert (len(done.taken), len(done.left)) == ((1, 0) if taken else (0, 2))


def test_a_folder_that_is_no_partition_is_left(tmp_path):
    """However it is called; neither a topic nor a store full of partitions comes of it."""
    partition(tmp_path, "a-0")
    for name in ("photos-2024", "snapshot-20261", "a-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "picture.log").write_bytes(b"x" * 100)
    done = adopt(str(tmp_path))
    assert done.taken == ["a: 1 partitions, 7 bytes"]
    assert {each.partition(": ")[0] for each in done.left} == {"photos-2024", "snapshot-20261", "a-1"}
    assert all("holds no log" in each for each in done.left)
    (tmp_path / "a-0" / "partition.metadata").unlink()
    (tmp_path / "a-0" / f"{0:020d}.log").unlink()
    assert len(adopt(str(tmp_path)).left) == 3, "what the store names is no stranger"


def test_a_topic_that_misses_more_than_it_has_is_left_unless_they_shall_begin_empty(tmp_path):
    for number in (0, 1, 5):
        partition(tmp_path, f"a-{number}")
    partition(tmp_path, "b-1", TWO)
    partition(tmp_path, "c-2", bytes(16))
    done = adopt(str(tmp_path))
    assert done.taken == [
        "a: 6 partitions, 21 bytes; missing, made empty at the next start: 2-4",
        "b: 2 partitions, 7 bytes; missing, made empty at the next start: 0",
    ]
    assert done.left == [
        "c-2: more partitions of its topic are missing than are there (2 of 3); with --fill-missing they begin empty"
    ]
    filled = adopt(str(tmp_path), fill_missing=True)
    assert filled[:2] == (["c: 3 partitions, 7 bytes; missing, made empty at the next start: 0-1"], [])


@pytest.mark.parametrize("fill", [False, True])
def test_a_missing_partition_that_had_records_is_said_to_be_offline_or_begins_where_they_ended(tmp_path, fill):
    partition(tmp_path, "a-0")
    partition(tmp_path, "a-2")
    write_checkpoint(str(tmp_path / HIGH_WATERMARK), {("a", 1): 216, ("a", 0): 3})
    [said] = adopt(str(tmp_path), fill_missing=fill).taken
    if fill:
        assert said.endswith("; missing though they had records, begun empty: 1")
        assert min(os.listdir(tmp_path / "a-1")) == f"{216:020d}.log"
        assert read_topic_id(str(tmp_path / "a-1")) == ONE
    else:
        assert "missing though they had records, offline until they are put back or the topic is deleted: 1 (" in said
        assert not (tmp_path / "a-1").exists()


@pytest.mark.parametrize(("room", "why"), [((2, 3), "more than 3 partitions"), ((1, 4), "more than 1 topics")])
def test_no_store_is_made_that_the_broker_has_no_room_for(tmp_path, room, why):
    partition(tmp_path, "a-0")
    partition(tmp_path, "a-1")
    adopt(str(tmp_path), room=room)
    for number in (0, 1):
        partition(tmp_path, f"b-{number}", TWO)
    assert [why in each for each in adopt(str(tmp_path), room=room).left] == [True] * 2
    assert topics(tmp_path) == {"a"}
    assert adopt(str(tmp_path), room=(2, 4)).left == []


@pytest.mark.parametrize("made_anew", ["as a topic's", "without a file", "of another id", "with a log start", "filled"])
def test_a_stray_comes_back_where_its_place_was_made_anew(tmp_path, made_anew):
    """As older versions did when the store was away. What is empty stays beside it."""
    partition(tmp_path, "a-0")
    partition(tmp_path, "a-1")
    adopt(str(tmp_path))
    stray = f"a-0.{'0' * 32}-stray"
    os.rename(tmp_path / "a-0", tmp_path / stray)
    partition(tmp_path, "a-0", TWO if made_anew == "of another id" else ONE, b"x" if made_anew == "filled" else b"")
    if made_anew == "without a file":
        for path in (tmp_path / "a-0").iterdir():
            path.unlink()
    if made_anew == "with a log start":
        os.rename(tmp_path / "a-0" / f"{0:020d}.log", tmp_path / "a-0" / f"{9:020d}.log")
    done = adopt(str(tmp_path))
    if made_anew in ("as a topic's", "without a file"):
        assert done == ([f"a: partition 0, from {stray}"], [], [])
        assert (tmp_path / "a-0" / f"{0:020d}.log").read_bytes() == b"records"
        assert len(list(tmp_path.glob("a-0.*-stray"))) == 1 and not (tmp_path / stray).exists()
        assert adopt(str(tmp_path)) == ([], [], [])
    else:
        assert f"{stray}: a-0 is in its place" in done.left and (tmp_path / stray).exists()


def test_a_stray_does_not_take_the_place_of_what_is_no_partition(tmp_path):
    partition(tmp_path, f"a-0.{ONE.hex()}-stray")
    partition(tmp_path, f"b-0.{TWO.hex()}-stray", TWO)
    (tmp_path / "a-0").write_text("somebody's")
    (tmp_path / "b-0").mkdir()
    (tmp_path / "b-0" / "notes").touch()
    assert adopt(str(tmp_path)).left == [
        f"a-0.{ONE.hex()}-stray: a-0 is in its place",
        f"b-0.{TWO.hex()}-stray: b-0 is in its place",
        "b-0: it holds no log: no partition.metadata, no segment",
    ]


def test_a_partition_beyond_its_topic_and_one_of_an_id_that_another_has_are_left(tmp_path):
    partition(tmp_path, "a-0")
    adopt(str(tmp_path))
    partition(tmp_path, "a-1", None)
    partition(tmp_path, "b-0", ONE)
    partition(tmp_path, f"a-0.{ONE.hex()}-stray", records=b"")
    done = adopt(str(tmp_path))
    assert done.taken == []
    assert done.left == ["a-1: topic a has 1 partitions", "b-0: its topic id belongs to another topic"]


@pytest.fixture
def homes(tmp_path):
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    return tmp_path / "one", tmp_path / "two", tmp_path / "three"


def adopt_all(homes):
    return adopt(str(homes[0]), None, [str(home) for home in homes[1:]])


def test_a_topic_is_taken_in_from_all_log_directories_each_of_which_is_noted(homes):
    first, second, third = homes
    partition(first, "a-0")
    partition(second, "a-2")
    partition(second, f"a-3.{ONE.hex()}-stray")
    partition(third, "b-0", TWO)
    for home in homes:
        write_marker(str(home))
    assert adopt_all(homes).taken == [
        "a: 4 partitions, 21 bytes; missing, made empty at the next start: 1",
        "b: 1 partitions, 7 bytes",
    ]
    metas = [data_dir.read_meta(str(home)) for home in homes]
    assert len({meta.directory_id for meta in metas}) == 3 and len({meta.cluster_id for meta in metas}) == 1
    ids = [meta.directory_id for meta in metas]
    by_name = {topic.name: topic.directories for topic in stored(first)}
    assert by_name == {"a": [ids[0], "", ids[1], ids[1]], "b": [ids[2]]}
    assert (second / "a-3").is_dir() and not any((home / MARKER).exists() for home in homes)
    assert not (second / STORE_FILE).exists() and adopt_all(homes) == ([], [], [])


def test_a_topic_that_was_taken_in_from_one_directory_gets_the_rest(homes):
    first, second, _ = homes
    partition(first, "a-0")
    adopt(str(first))
    partition(first, "a-1")
    partition(second, "a-3")
    partition(second, "a-4", TWO)
    done = adopt_all(homes)
    assert done.taken == ["a: 3 more partitions, 4 now"]
    assert done.left == [f"{second}/a-4: topic a has another id"]
    ids = [data_dir.read_meta(str(home)).directory_id for home in homes]
    [topic] = stored(first)
    assert (len(topic.replicas), topic.directories) == (4, [ids[0], ids[0], "", ids[1]])


@pytest.mark.parametrize("fill", [False, True])
def test_a_partition_that_was_written_is_missing_in_the_directory_that_says_so(homes, fill):
    partition(homes[0], "a-1")
    write_checkpoint(str(homes[1] / HIGH_WATERMARK), {("a", 0): 7})
    done = adopt(str(homes[0]), None, [str(homes[1])], fill_missing=fill)
    assert f"missing though they had records, {'begun empty' if fill else 'offline'}" in done.taken[0]
    ids = [data_dir.read_meta(str(home)).directory_id for home in homes[:2]]
    [topic] = stored(homes[0])
    assert topic.directories == [ids[1], ids[0]]
    assert (homes[1] / "a-0" / f"{7:020d}.log").exists() is fill and not (homes[0] / "a-0").exists()


def test_a_stray_comes_back_though_its_place_was_made_anew_in_another_directory(homes):
    partition(homes[0], "a-0", records=b"")
    partition(homes[1], f"a-0.{ONE.hex()}-stray")
    assert adopt_all(homes).taken == ["a: 1 partitions, 7 bytes"]
    assert (homes[1] / "a-0").is_dir() and not (homes[0] / "a-0").exists()
    assert len(list(homes[0].glob("a-0.*-stray"))) == 1


def test_partitions_beyond_the_last_that_hold_nothing_are_none(tmp_path):
    """What a creation left that was never committed."""
    partition(tmp_path, "a-0")
    adopt(str(tmp_path))
    partition(tmp_path, "a-1", records=b"")
    assert adopt(str(tmp_path)).left == ["a-1: topic a has 1 partitions"]


@pytest.mark.parametrize("marked", [(), (0,), (1,), (0, 1)])
def test_of_two_directories_of_a_partition_the_one_that_was_moved_there_counts(homes, marked):
    for number, home in enumerate(homes[:2]):
        partition(home, "a-0")
        if number in marked:
            (home / "a-0" / MOVED_HERE).touch()
    done = adopt_all(homes)
    if len(marked) != 1:
        assert done.taken == [] and done.left == [
            f"a-0: there are a-0 and {homes[1]}/a-0: move the one that is not right away"
        ]
        return
    [topic] = stored(homes[0])
    assert topic.directories == [data_dir.read_meta(str(homes[marked[0]])).directory_id]


def test_the_identity_of_a_lost_file_is_that_of_the_other_directories(homes):
    data_dir.write_meta(str(homes[1]), data_dir.MetaProperties("of-second", 3, "id-of-second"))
    adopt_all(homes)
    assert {data_dir.read_meta(str(home))[:2] for home in homes} == {("of-second", 3)}
    data_dir.write_meta(str(homes[2]), data_dir.MetaProperties("of-second", 3, "id-of-second"))
    with pytest.raises(ConfigError, match="one is a copy"):
        adopt_all(homes)
    data_dir.write_meta(str(homes[2]), data_dir.MetaProperties("another", 3, "id"))
    with pytest.raises(ConfigError, match="belongs to cluster another"):
        adopt_all(homes)


def test_directories_of_kafka_with_zookeeper_get_ids_and_what_was_said_is_kept(homes):
    for home in homes:
        (home / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=c\n")
    adopt_all(homes)
    for home in homes:
        assert data_dir.read_meta(str(home)).directory_id and not data_dir.is_of_zookeeper(str(home))
        assert "version=0" in (home / "meta.properties.0.cut").read_text()


@pytest.mark.parametrize(("name", "why"), [(STORE_FILE, "store of its own"), ("__cluster_metadata-0", "of an Apache")])
def test_the_directory_with_the_store_or_kafkas_metadata_has_to_come_first(homes, name, why):
    (homes[1] / name).mkdir()
    partition(homes[0], "a-0")
    with pytest.raises(ConfigError, match=why):
        adopt_all(homes)
    assert [os.listdir(home) for home in homes] == [["a-0"], [name], []]


def test_a_stray_of_a_topic_that_is_there_goes_back_to_its_place(tmp_path):
    partition(tmp_path, "a-0")
    partition(tmp_path, "a-1")
    adopt(str(tmp_path))
    os.rename(tmp_path / "a-1", tmp_path / f"a-1.{ONE.hex()}-stray")
    done = adopt(str(tmp_path))
    assert done == ([f"a: partition 1, from a-1.{ONE.hex()}-stray"], [], [])
    assert (tmp_path / "a-1").is_dir() and not (tmp_path / f"a-1.{ONE.hex()}-stray").exists()


def test_partitions_without_a_record_are_taken_in_with_their_topic(tmp_path):
    partition(tmp_path, "a-0", records=b"")
    partition(tmp_path, "a-1")
    assert adopt(str(tmp_path)).taken == ["a: 2 partitions, 7 bytes"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_store_is_closed_whatever_happened(tmp_path, monkeypatch, fails):
    closed, close = [], SqliteStore.close
    monkeypatch.setattr(SqliteStore, "close", lambda store: (closed.append(1), close(store)))
    if fails:
        monkeypatch.setattr(adoption, "remove_marker", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adopt(str(tmp_path))
    else:
        adopt(str(tmp_path))
    assert len(closed) == 1
