"""Which of several log directories: a new partition's, and where one is that the store knows."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.partition_logs import FIRST_EPOCH, Home, PartitionLogs, Place
from mpbroker.log.partition_directory import MOVED_HERE, future_name, left_name, prepare
from mpbroker.shm.layout import PartitionFlags

ID = b"i" * 16
NAME = "t-0"


class Logs:
    """Directories that a test takes offline or fills; partitions are only counted."""

    def __init__(self) -> None:
        self.offline: set[int] = set()
        self.full: set[int] = set()

    def log_dir_online(self, log_dir):
        return log_dir not in self.offline

    def takes_appends(self, log_dir):
        return log_dir not in self.full

    def create(self, **_):
        return 0

    def set_flags(self, ordinal, set, clear):
        return 0


class Loader:
    """What checkpoints say."""

    def __init__(self) -> None:
        self.written = 0
        self.highest_producer_id = -1

    def written_up_to(self, topic, partition):
        return self.written


@pytest.fixture
def logs():
    return Logs()


@pytest.fixture
def several(tmp_path, logs):
    homes = [Home(number, str(tmp_path / name), name, Loader()) for number, name in enumerate("abc")]
    for home in homes:
        (tmp_path / home.id).mkdir()
    first, *further = homes
    return PartitionLogs(logs, first.path, first.load, lambda: 0, lambda name: None, further, first.id)


def topic(*directories):
    return TopicState(ID, "t", [[0]] * 9, {}, 0, directories=list(directories))


def put(tmp_path, home, topic_id=ID):
    prepare(str(tmp_path / home), NAME, topic_id)
    (tmp_path / home / NAME / f"{0:020d}.log").write_bytes(b"x")


def test_a_new_partition_goes_where_there_are_fewest_of_those_that_can_hold_it(several, logs):
    made = topic()
    for number in range(4):
        assert several.create(made, number, number) == 0
    assert made.directories == ["a", "b", "c", "a"]
    several.hide(2)
    assert several.create(made, 4, 4) == 0 and made.directories[4] == "c"
    logs.offline, logs.full = {1}, {2}
    assert several.create(made, 5, 5) == 0 and made.directories[5] == "a"
    logs.offline = {0, 1}
    assert several.create(made, 6, 6) == 56 and several.online and not several.has_room


def test_it_is_where_the_store_says_though_there_is_another(several, tmp_path):
    put(tmp_path, "b")
    put(tmp_path, "c")
    assert several.find(topic("c"), 0) == Place(2, True)


def test_what_was_moved_by_hand_is_served_from_there(several, tmp_path):
    put(tmp_path, "b")
    assert (
        several.find(topic("c"), 0) == several.find(topic("removed"), 0) == several.find(topic(), 0) == Place(1, True)
    )


def test_in_doubt_it_is_offline_and_nothing_is_made_anew(several, logs, tmp_path):
    assert "not among log.dirs" in several.find(topic("removed"), 0).problem
    put(tmp_path, "b")
    logs.offline = {2}
    assert "offline" in several.find(topic("c"), 0).problem
    logs.offline = set()
    put(tmp_path, "a")
    assert "found in" in several.find(topic("c"), 0).problem


def test_anothers_directory_is_not_taken_for_it_and_keeps_its_name(several, tmp_path):
    put(tmp_path, "b", b"j" * 16)
    problem = f"{tmp_path / 'b'}/t-0 holds records of another topic, or nobody knows of which; move it away"
    assert several.find(topic("c"), 0) == Place(2, False)
    assert several.in_the_way(NAME, ID) == problem and several.in_the_way(NAME, b"j" * 16) == ""
    assert several.create(topic(), 0, 0) == 56
    assert several.retire(NAME, ID) is None and (tmp_path / "b" / NAME).exists()


def test_one_directory_needs_no_note(tmp_path, logs):
    (tmp_path / "a").mkdir()
    alone = PartitionLogs(logs, str(tmp_path / "a"), Loader(), lambda: 0, lambda name: None, id="a")
    made = topic()
    assert alone.create(made, 0, 0) == 0 and made.directories == []
    assert alone.find(made, 0) == alone.find(topic("a"), 0) == Place(0, False)
    assert "not among log.dirs" in alone.find(topic("b"), 0).problem


def test_of_two_the_one_that_was_marked_as_moved_there_counts(several, tmp_path):
    put(tmp_path, "a")
    put(tmp_path, "b")
    (tmp_path / "b" / NAME / MOVED_HERE).touch()
    assert several.find(topic("a"), 0) == Place(1, True)
    (tmp_path / "a" / NAME / MOVED_HERE).touch()  # in doubt: where the store says
    assert several.find(topic("a"), 0) == Place(0, True)


def test_one_that_moved_to_a_directory_that_is_offline_is_not_made_anew(several, logs, tmp_path):
    """Everything died before the store knew."""
    put(tmp_path, "b")
    (tmp_path / "a" / left_name(NAME, ID)).mkdir()
    (tmp_path / "a" / left_name(NAME, ID) / f"{0:020d}.log").touch()
    assert several.find(topic("a"), 0) == Place(1, True)
    logs.offline = {1}
    assert "moved to another log directory" in several.find(topic("a"), 0).problem


def test_a_deleted_topics_copies_go_too(several, tmp_path):
    put(tmp_path, "a")
    prepare(str(tmp_path / "b"), future_name(NAME, ID), ID)
    assert several.retire(NAME, ID)
    names = [entry.name for home in "ab" for entry in (tmp_path / home).iterdir()]
    assert len(names) == 2 and all(name.endswith("-delete") for name in names)


def test_the_store_hears_of_what_lies_elsewhere_now(several):
    made = topic("a", "b", "")
    assert [several.settle(made, number, number, 1) for number in range(3)] == [True, False, True]
    assert made.directories == ["b", "b", "b"]
    assert not several.settle(topic(""), 0, 7, 0)  # made while there was one
    grown = topic("a")
    assert not several.settle(grown, 1, 8, 0) and several.settle(grown, 1, 8, 2)  # of which nothing is noted yet
    assert grown.directories == ["a", "c"]


def test_two_directories_are_several(tmp_path, logs):
    (tmp_path / "a").mkdir()
    further = [Home(1, str(tmp_path), "b", Loader())]
    for more, several in ((further, True), ([], False)):
        made = PartitionLogs(logs, str(tmp_path / "a"), Loader(), lambda: 0, lambda name: None, more, "a")
        assert made.are_several is several


@pytest.mark.parametrize(("written", "has_log"), [(0, False), (1, True)])
def test_what_a_checkpoint_says_was_written_was_there(several, written, has_log):
    several.home(0).load.written = written
    assert several.find(topic("a"), 0) == Place(0, has_log)


def test_the_first_of_those_in_doubt_is_named_with_all_of_them(several, tmp_path):
    for home in "bca":
        put(tmp_path, home)
    found = several.find(topic(), 0)
    paths = ", ".join(str(tmp_path / home) for home in "abc")
    assert found == Place(0, problem=f"found in {paths}; move all but the right one away")


class Loading(Loader):
    """Notes what it is to load."""

    def __init__(self):
        super().__init__()
        self.given = []

    def __call__(self, partitions):
        self.given.append([one.ordinal for one in partitions])


def test_partitions_are_loaded_directory_by_directory_and_count_where_they_lie(tmp_path, logs):
    loaders = [Loading(), None, Loading()]
    for name in "abc":
        (tmp_path / name).mkdir()
    first, *further = [Home(n, str(tmp_path / name), name, loaders[n]) for n, name in enumerate("abc")]
    made = PartitionLogs(logs, first.path, first.load, lambda: 0, lambda name: None, further, first.id)
    rows = [SimpleNamespace(ordinal=10 + n, log_dir=log_dir) for n, log_dir in enumerate((2, 0, 2, 1))]
    loaders[2].highest_producer_id = 7
    assert made.load(rows) == 7
    assert (loaders[0].given, loaders[2].given) == ([[11]], [[10, 12]])
    made.load([rows[3]])
    assert (loaders[0].given, loaders[2].given) == ([[11]], [[10, 12]]), "nothing of theirs"
    assert made._held == {0: 1, 1: 1, 2: 2}
    made.load([SimpleNamespace(ordinal=10, log_dir=0)])
    assert {number: held for number, held in made._held.items() if held} == {0: 2, 1: 1, 2: 1}
    made.know({1: 2, 5: 2})
    assert made._held == {2: 2}


@pytest.mark.parametrize(("error", "flag_error", "told"), [(0, 0, 0), (0, 56, 56), (7, 56, 7)])
def test_a_row_without_a_log_says_what_it_is(several, logs, error, flag_error, told):
    """Of a directory that is offline, or of a replica that is elsewhere."""
    published, flags = [], []
    logs.publish = lambda **fields: published.append(fields) or error
    logs.set_flags = lambda *words: flags.append(words) or flag_error
    one = SimpleNamespace(ordinal=7, topic_id=ID, topic_row=3, partition=4, log_dir=1, dir="t-4")
    several.know({7: 0, 8: 0})
    assert several.show_offline(one) == told and several._held == {0: 1, 1: 1}
    assert several.show_absent(8, ID, 3, 5) == told and several._held == {0: 0, 1: 1}
    common = {"topic_id": ID, "topic_row": 3, "state": {}, "hidden": True}
    assert published == [
        {"ordinal": 7, "partition": 4, "log_dir": 1, "dir": "t-4"} | common,
        {"ordinal": 8, "partition": 5, "log_dir": 0, "dir": ""} | common,
    ]
    exists, deleted = int(PartitionFlags.EXISTS), int(PartitionFlags.DELETED)
    assert flags == ([] if error else [(7, exists, 0), (8, exists, deleted)])


@pytest.mark.parametrize(
    ("offline", "full", "unread", "online", "some_offline", "has_room"),
    [
        (set(), set(), False, True, False, True),
        ({1}, set(), False, True, True, True),
        ({0, 1, 2}, set(), False, False, True, False),
        (set(), {0, 1, 2}, False, True, False, False),
        (set(), {0, 2}, False, True, False, True),
        (set(), {0, 2}, True, True, True, False),
    ],
)
def test_what_can_be_used(several, logs, offline, full, unread, online, some_offline, has_room):
    logs.offline, logs.full = offline, full
    if unread:
        several._homes[1] = several.home(1)._replace(load=None)
    assert (several.online, several.some_offline, several.has_room) == (online, some_offline, has_room)


@pytest.mark.parametrize(
    ("owner", "records", "goes"),
    [(ID, b"x", True), (ID, b"", True), (b"j" * 16, b"x", False), (None, b"x", False), (None, b"", True)],
    ids=["its own", "its own, empty", "another's", "nobody knows whose", "nobody's, empty"],
)
def test_a_directory_is_renamed_if_it_is_the_topics_or_nobodys_and_empty(several, tmp_path, owner, records, goes):
    directory = tmp_path / "b" / NAME
    if owner is None:
        directory.mkdir()
    else:
        prepare(str(tmp_path / "b"), NAME, owner)
    (directory / f"{0:020d}.log").write_bytes(records)
    renamed = several.retire(NAME, ID)
    assert (renamed is not None, directory.exists()) == (goes, not goes)
    assert not goes or (tmp_path / "b" / renamed).is_dir()


@pytest.mark.parametrize(
    ("directories", "log_dir", "changed", "after"),
    [
        (["a"], 0, False, ["a"]),
        ([], 0, False, []),
        ([""], 0, False, [""]),
        (["b"], 0, True, ["a"]),
        ([], 2, True, ["c"]),
        (["c"], 2, False, ["c"]),
    ],
)
def test_where_a_partition_lies_is_noted_if_it_was_elsewhere(several, directories, log_dir, changed, after):
    made = topic(*directories)
    assert several.settle(made, 0, 5, log_dir) is changed
    assert made.directories == after and several._held == {log_dir: 1}


def test_a_place_that_has_a_problem_has_nothing_to_load_and_epochs_begin_with_0():
    assert Place(0, problem="offline").has_log is False and FIRST_EPOCH == 0
