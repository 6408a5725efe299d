"""The rows and logs of a cluster's topics at one broker, on tables that only write down what is done to them."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import cluster_topics as module
from mpbroker.controller.cluster_topics import ClusterTopics
from mpbroker.controller.controller_context import TopicState
from mpbroker.errors import KafkaError
from mpbroker.log.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX, FoundDirectory

SELF, OTHER = 1, 2
ID, ID_2 = b"i" * 16, b"j" * 16


class World:
    """Partition rows from 10 on, as many as are `free`; logs that are here stand in `dirs`, those that a start finds in
    `found`."""

    def __init__(self, monkeypatch):
        self.done, self.said, self.counted = [], [], []
        self.dirs, self.found, self.free, self.next, self.rows_left = {}, {}, 100, 10, 9
        self.absent_error = self.create_error = 0
        self.named = {}
        self.assignments, self.on_disk, self.unused, self.renamed = {}, [], set(), "renamed"
        note = lambda name, result=None: lambda *given, **how: self.done.append((name, *given, *how.values())) or result  # noqa: E731
        monkeypatch.setattr(module, "assignment_clear", lambda _core, ordinal: self.done.append(("clear", ordinal)))
        monkeypatch.setattr(module, "assignment_read", lambda _core, ordinal: self.assignments.get(ordinal))
        monkeypatch.setattr(module, "assignment_write", lambda _core, *given: self.done.append(("assign", *given)))
        monkeypatch.setattr(module.partition_directory, "find_all", lambda _path: self.on_disk)
        monkeypatch.setattr(module.partition_directory, "is_unused", lambda _path, name: name in self.unused)
        monkeypatch.setattr(module.partition_directory, "retire", note("set aside", "renamed"))
        world = self

        class Rows:
            free = property(lambda _self: world.free)
            allocate = staticmethod(self._allocate)
            who = staticmethod(self._who)
            release = staticmethod(note("release"))
            link = staticmethod(note("link"))

        self.snapshot = SimpleNamespace(
            reserve=self._reserve,
            release=note("release row"),
            retire=note("retire row"),
            publish=lambda row, image: self.done.append(("publish", row, image.name)),
            announce_all=note("announce all"),
            announce=note("announce"),
        )
        self.logs = SimpleNamespace(
            find=lambda topic, partition: self.found.get((topic.name, partition), place()),
            show_absent=self._show_absent,
            create=self._create,
            hide=note("hide"),
            retire=lambda *given: self.done.append(("retire", *given)) or self.renamed,
            sync=note("sync"),
            load=note("load"),
            online_homes=[SimpleNamespace(path="/d")],
            online=True,
            has_room=True,
        )
        log = SimpleNamespace(
            **{level: lambda event, **_fields: self.said.append(event) for level in ("info", "warning", "error")}
        )
        self.topics = ClusterTopics(
            core=None,
            self_id=SELF,
            snapshot=self.snapshot,
            rows=Rows(),
            logs=self.logs,
            settings_of=lambda configs: configs,
            log=log,
            crash_point=lambda _name: None,
            count=self.counted.append,
        )

    def _who(self, ordinal):
        return SimpleNamespace(dir=self.dirs.get(ordinal, ""), topic_row=self.named.get(ordinal, 4), log_dir=0)

    def _allocate(self):
        self.next += 1
        return self.next - 1

    def _reserve(self, wanted):
        if not self.rows_left:
            raise IndexError
        return 3 if wanted is None else wanted

    def _show_absent(self, *given):
        self.done.append(("absent", *given))
        return self.absent_error

    def _create(self, topic, partition, ordinal):
        self.done.append(("create", partition, ordinal))
        if not self.create_error:
            self.dirs[ordinal] = f"{topic.name}-{partition}"
        return self.create_error

    def did(self, *names):
        return [entry for entry in self.done if entry[0] in names]


def place(has_log=False, problem="", log_dir=0):
    return SimpleNamespace(has_log=has_log, problem=problem, log_dir=log_dir)


def topic(name="t", replicas=((SELF, OTHER), (OTHER,)), topic_id=ID, **how):
    return TopicState(topic_id, name, [list(one) for one in replicas], {}, 0, **how)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_new_topic_has_a_row_for_each_partition_and_no_log(world):
    new = topic()
    world.topics.put(new)
    assert (new.row, new.ordinals) == (3, [10, 11]) and world.topics.context.by_id[ID] is new
    assert world.did("absent") == [("absent", 10, ID, 3, 0), ("absent", 11, ID, 3, 1)]
    assert world.did("clear") == [("clear", 10), ("clear", 11)]
    assert world.done[-2:] == [("link", [10, 11]), ("publish", 3, "t")] and not world.said


def test_partitions_that_come_later_get_rows_of_their_own(world):
    known = topic()
    world.topics.put(known)
    world.done.clear()
    world.topics.put(topic(replicas=[[OTHER], [OTHER], [SELF]], revision=9))
    assert (known.ordinals, known.replicas, known.revision) == ([10, 11, 12], [[OTHER], [OTHER], [SELF]], 9)
    assert world.did("absent") == [("absent", 12, ID, 3, 2)] and world.done[-1] == ("publish", 3, "t")


def test_a_namesake_gives_way(world):
    world.topics.put(topic())
    world.topics.put(topic(topic_id=ID_2))
    assert list(world.topics.context.by_id) == [ID_2] and world.did("release") == [("release", [10, 11])]
    assert world.said == ["topic_deleted"]


@pytest.mark.parametrize("free, rows_left, shown", [(2, 1, True), (1, 1, False), (2, 0, False)])
def test_a_topic_without_room_is_not_shown_and_a_line_says_so(world, free, rows_left, shown):
    world.free, world.rows_left = free, rows_left
    world.topics.put(topic())
    assert (ID in world.topics.context.by_id) is shown is bool(world.did("publish"))
    assert world.said == ([] if shown else ["topic_not_shown"])
    assert world.counted == ([] if shown else ["controller_table_full"])
    assert world.did("release row") == ([("release row", 3)] if rows_left and not shown else [])


def test_at_the_start_a_topic_without_room_keeps_no_other_from_being_shown(world, monkeypatch):
    monkeypatch.setattr(module, "Moves", lambda **_given: SimpleNamespace(resume=lambda: None))
    world.topics._rows.recover = world.snapshot.recover = dict
    world.logs.know = lambda _held: None
    world.free = 1
    world.topics.recover([topic(), topic("u", [[OTHER]], ID_2)])
    assert list(world.topics.context.by_id) == [ID_2] and world.did("publish") == [("publish", 3, "u")]
    assert world.said == ["topic_not_shown"] and world.did("release row") == [("release row", 3)]


@pytest.mark.parametrize("free, grows", [(1, True), (0, False)])
def test_a_topic_that_cannot_grow_stays_as_it_is(world, free, grows):
    known = topic()
    world.topics.put(known)
    world.free = free
    world.topics.put(topic(replicas=[[SELF], [SELF], [SELF]]))
    assert len(known.ordinals) == len(known.replicas) == (3 if grows else 2)
    assert world.counted == ([] if grows else ["controller_table_full"])


def test_at_the_start_logs_that_lie_here_are_loaded(world, monkeypatch):
    monkeypatch.setattr(
        module, "Moves", lambda **_given: SimpleNamespace(resume=lambda: world.done.append(("resume",)))
    )
    world.found = {("t", 0): place(True, log_dir=1), ("t", 2): place(problem="EIO")}
    world.topics._rows.recover = dict
    world.snapshot.recover = dict
    world.logs.know = lambda held: world.done.append(("know", held))
    world.topics.recover([topic(replicas=[[SELF], [OTHER], [SELF], [SELF]])])
    [(_, [loaded])] = world.did("load")
    assert (loaded.ordinal, loaded.partition, loaded.log_dir, loaded.topic_id) == (10, 0, 1, ID)
    assert [entry[1] for entry in world.did("absent")] == [11, 12, 13]
    assert (world.said, world.counted) == (["partition_offline"], ["partitions_offline_at_start"])
    assert world.done[-3:] == [("publish", 3, "t"), ("announce all",), ("resume",)]


@pytest.mark.parametrize("renamed", ["renamed", None])
def test_a_successor_takes_the_rows_as_they_are_and_forgets_what_is_gone(world, monkeypatch, renamed):
    world.renamed = renamed
    monkeypatch.setattr(module, "Moves", lambda **_given: SimpleNamespace(resume=lambda: None))
    world.topics._rows.recover = lambda: {ID: {0: 5, 1: 6}, ID_2: {0: 7}}
    world.snapshot.recover = lambda: {ID_2: 8}
    world.logs.know = lambda held: world.done.append(("know", held))
    world.dirs = {5: "t-0", 7: "old-0"}
    world.named = {5: 4, 6: 8}
    known = topic()
    world.topics.recover([known])
    assert world.done[0] == ("know", {5: 0, 7: 0})
    assert (known.row, known.ordinals) == (4, [5, 6]), "the row that its partitions name"
    assert world.did("retire row", "hide", "retire", "sync", "release", "release row") == [
        ("retire row", 8),
        ("hide", 7),
        ("retire", "old-0", ID_2, STRAY_SUFFIX),
        ("sync",),
        ("release", [7]),
        ("release row", 8),
    ], "a store that is read anew may be an older one: nothing is removed"
    assert (world.said, world.counted) == ((["stray_set_aside"], ["stray_directories"]) if renamed else ([], []))
    assert not world.did("load", "absent")


@pytest.mark.parametrize(
    "name, partition, topic_id, is_wanted",
    [
        ("t", 0, ID, True),
        ("t", 0, None, True),
        ("t", 0, ID_2, False),
        ("t", 1, ID, False),  # somebody else's
        ("t", 2, ID, False),
        ("gone", 0, ID, False),
    ],
)
def test_what_belongs_to_nobody_is_set_aside(world, name, partition, topic_id, is_wanted):
    world.topics.put(topic())
    world.on_disk = [FoundDirectory(f"{name}-{partition}", name, partition, topic_id)]
    world.topics._set_strays_aside()
    found = ("set aside", "/d", f"{name}-{partition}", topic_id or bytes(16), STRAY_SUFFIX)
    assert world.did("set aside") == ([] if is_wanted else [found])
    assert world.counted == ([] if is_wanted else ["stray_directories"])


def test_an_empty_stray_is_deleted_and_an_empty_store_proves_nothing(world):
    world.on_disk = [FoundDirectory("gone-0", "gone", 0, None)]
    world.topics._set_strays_aside()
    assert not world.done, "it may be the wrong store"
    world.topics.put(topic())
    world.unused = {"gone-0"}
    world.topics._set_strays_aside()
    assert not world.did("set aside") and world.counted == ["stray_directories"], "nothing says that it is ours"
    world.on_disk = [FoundDirectory("gone-0", "gone", 0, ID)]
    world.topics._set_strays_aside()
    assert world.did("set aside") == [("set aside", "/d", "gone-0", ID, DELETE_SUFFIX)] and len(world.counted) == 1


def test_a_removed_topic_is_hidden_before_its_logs_go(world):
    world.topics.put(topic())
    world.dirs[10] = "t-0"
    world.done.clear()
    world.topics.remove(ID)
    assert world.done == [
        ("retire row", 3),
        ("clear", 10),
        ("hide", 10),
        ("retire", "t-0", ID, DELETE_SUFFIX),
        ("sync",),
        ("clear", 11),
        ("hide", 11),
        ("release", [10, 11]),
        ("release row", 3),
    ]
    world.topics.remove(ID)
    assert world.said == ["topic_deleted"], "it is gone already"


def test_a_directory_that_cannot_be_renamed_waits(world):
    def fail(*_given):
        raise OSError("busy")

    world.topics.put(topic())
    world.dirs[10], world.logs.retire = "t-0", fail
    world.topics.remove(ID)
    assert world.said == ["topic_deletion_waits", "topic_deleted"] and world.did("release") == [("release", [10, 11])]


@pytest.mark.parametrize("error, here, absent", [(0, False, False), (56, False, True), (56, True, False)])
def test_a_log_that_could_not_be_made_is_shown_as_absent(world, error, here, absent):
    world.topics.put(topic())
    world.done.clear()
    world.create_error = error
    if here:
        world.dirs[10] = "t-0"
    assert world.topics.create(world.topics.context.by_id[ID], 0) == error
    assert bool(world.did("absent")) is absent and world.topics.has_log(10) is (here or not error)
    for _ in range(2):
        world.topics.announce_made()
    assert world.did("announce all") == [("announce all",)], "once for all that were made"


def test_a_replica_that_is_not_ours_any_more_leaves_its_row(world):
    world.topics.put(topic())
    world.dirs[10] = "t-0"
    known = world.topics.context.by_id[ID]
    for partition, gone in ((0, True), (1, False)):
        world.done.clear()
        world.topics.drop(known, partition, STRAY_SUFFIX)
        assert (world.did("retire") == [("retire", "t-0", ID, STRAY_SUFFIX)]) is gone
        assert (world.did("hide") == [("hide", 10)]) is gone
        assert world.done[-2:] == [("absent", 10 + partition, ID, 3, partition), ("announce all",)]


def test_a_row_that_cannot_be_written_is_an_error(world):
    world.absent_error = 56
    with pytest.raises(KafkaError, match="row of t-0"):
        world.topics.put(topic())


def test_an_assignment_is_written_when_it_is_another(world):
    world.topics.put(topic())
    known = world.topics.context.by_id[ID]
    world.topics.assign(known, 1, "a")
    world.assignments[11] = "a"
    world.topics.assign(known, 1, "a")
    world.topics.assign(known, 1, "b")
    assert world.did("assign") == [("assign", 11, "a"), ("assign", 11, "b")]


@pytest.mark.parametrize("online, has_room", [(True, True), (True, False), (False, True)])
def test_a_log_can_be_made_where_there_is_a_directory_with_room(world, online, has_room):
    world.logs.online, world.logs.has_room = online, has_room
    assert world.topics.can_create is (online and has_room)


def test_a_start_sets_strays_aside_before_it_loads(world, monkeypatch):
    moved = SimpleNamespace(resume=lambda: None, note=lambda: world.done.append(("note",)))
    monkeypatch.setattr(module, "Moves", lambda **_given: moved)
    world.topics._rows.recover = world.snapshot.recover = dict
    world.logs.know = lambda _held: None
    world.found, world.on_disk = {("t", 0): place(True)}, [FoundDirectory("gone-0", "gone", 0, ID)]
    world.topics.recover([topic()])
    assert [entry[0] for entry in world.did("set aside", "load")] == ["set aside", "load"]
    world.topics.announce_made()
    assert len(world.did("announce all")) == 1, "nothing was made since"
    world.topics.note_moves()
    assert world.done[-1] == ("note",)


@pytest.mark.parametrize("free, shown", [(1, True), (0, False)])
def test_rows_that_a_predecessor_took_count_as_there(world, monkeypatch, free, shown):
    monkeypatch.setattr(module, "Moves", lambda **_given: SimpleNamespace(resume=lambda: None))
    world.topics._rows.recover, world.snapshot.recover = lambda: {ID: {0: 5}}, dict
    world.logs.know = lambda _held: None
    world.free = free
    world.topics.recover([topic()])
    assert (ID in world.topics.context.by_id) is shown
