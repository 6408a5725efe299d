"""Where partitions lie that moved between log directories: what the store is told, which copies are gone on with."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import moves as moves_module
from mpbroker.controller.moves import Moves
from mpbroker.shm.layout import PartitionFlags
from tests.harness.controller_world import Lines

ONLINE = PartitionFlags.ONLINE
ID, OTHER = b"i" * 16, b"o" * 16


class World:
    """One topic of two partitions in the rows 5 and 6; `settled` are those that were noted elsewhere."""

    def __init__(self, monkeypatch):
        self.count, self.told, self.settled, self.asked, self.retired = 0, [], set(), [], []
        self.ask_error = 0
        self.lines, self.counted = Lines(), []
        topic = SimpleNamespace(id=ID, name="t", ordinals=[5, 6])
        self.topic = topic
        self.rows = {n: SimpleNamespace(flags=ONLINE, topic_id=ID, log_dir=1) for n in (5, 6)}
        self.copies = {0: [], 1: [], 2: []}
        homes = [SimpleNamespace(log_dir=number, path=str(number)) for number in self.copies]
        self.logs = SimpleNamespace(are_several=True, settle=self._settle, ask_move=self._ask, online_homes=homes)
        place = SimpleNamespace(
            find_futures=lambda path: self.copies[int(path)],
            made_at=lambda _path, name: float(name),
            directory_name="{}-{}".format,
            retire_future=lambda path, name, topic_id: self.retired.append((int(path), name, topic_id)),
        )
        monkeypatch.setattr(moves_module, "partition_directory", place)
        self.moves = Moves(
            context=SimpleNamespace(by_id={ID: topic}, by_name={"t": topic}),
            store=SimpleNamespace(add_partitions=lambda topics, **how: self.told.append((topics, how))),
            rows=SimpleNamespace(who=self.rows.get),
            logs=self.logs,
            moves=lambda: self.count,
            log=self.lines,
            count=self.counted.append,
        )

    def _settle(self, topic, partition, ordinal, log_dir):
        assert topic is self.topic and ordinal == partition + 5 and log_dir == self.rows[ordinal].log_dir
        return partition in self.settled

    def _ask(self, ordinal, topic_id, log_dir):
        self.asked.append((ordinal, topic_id, log_dir))
        return self.ask_error

    def copy(self, log_dir, made_s, partition=0, topic="t", topic_id=ID):
        found = SimpleNamespace(topic=topic, partition=partition, topic_id=topic_id, name=str(made_s))
        self.copies[log_dir].append(found)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.mark.parametrize("settled", [set(), {0}, {1}, {0, 1}])
def test_the_store_is_told_once_where_they_lie(world, settled):
    world.settled = settled
    for _ in range(2):
        world.moves.note()
    assert world.told == ([([world.topic], {"operation": 0, "answer": b""})] if settled else [])
    world.count = 1
    world.moves.note()
    assert len(world.told) == 2 * bool(settled)


def test_a_broker_of_a_cluster_tells_nobody_and_one_directory_has_no_moves(world):
    world.settled, world.moves._store = {0}, None
    world.moves.note()
    assert world.moves._seen == 0
    world.logs.are_several, world.count = False, 1
    world.moves.note()
    assert world.moves._seen == 0


@pytest.mark.parametrize("change", [{"flags": 0}, {"topic_id": OTHER}])
def test_what_is_offline_or_another_topics_lies_nowhere(world, change):
    world.settled = {0}
    vars(world.rows[5]).update(change)
    world.moves.note()
    assert not world.told


def test_the_youngest_copy_is_gone_on_with(world):
    world.copy(0, 30)
    world.copy(2, 50)
    world.copy(0, 40, partition=1)
    world.moves.resume()
    assert sorted(world.asked) == [(5, ID, 2), (6, ID, 0)] and world.retired == [(0, "t-0", ID)]


@pytest.mark.parametrize("how", [{"topic": "gone"}, {"topic_id": OTHER}, {"partition": 2}])
def test_a_copy_of_what_the_store_does_not_know_stays(world, how):
    """An older store may have been put back, and the copy be all there is; nor does it send a known one away."""
    world.copy(0, 30)
    world.copy(2, 40, **how)
    world.moves.resume()
    assert world.asked == [(5, ID, 0)] and not world.retired and world.counted == ["stray_directories"]
    [said] = world.lines.named("stray_directory")
    assert said["directory"] == "2/40" and said["left"] == "as it is" and "put the metadata back" in said["remedy"]


@pytest.mark.parametrize(
    "flags, log_dir, error, asked, stays",
    [
        (ONLINE, 1, 0, True, True),
        (ONLINE, 1, 7, True, False),  # the row takes no move
        (ONLINE, 0, 0, False, False),  # it is the partition itself that lies there
        (0, 1, 0, False, True),  # its log directory is offline: the copy may be all there is
    ],
)
def test_whether_a_copy_stays(world, flags, log_dir, error, asked, stays):
    world.rows[5].flags, world.rows[5].log_dir, world.ask_error = flags, log_dir, error
    world.copy(0, 30)
    world.moves.resume()
    assert (bool(world.asked), not world.retired) == (asked, stays)


@pytest.mark.parametrize("several, moves", [(False, 0), (True, 1)])
def test_while_the_rows_know_nothing_is_looked_for(world, several, moves):
    world.logs.are_several, world.count = several, moves
    world.copy(0, 30, topic="gone")
    world.moves.resume()
    assert not world.asked and not world.retired


@pytest.mark.parametrize("ages", [(5.0, 7.0, 6.0), (7.0, 5.0, 6.0), (5.0, 6.0, 7.0)])
def test_of_several_copies_the_youngest_is_wanted_wherever_it_lies(monkeypatch, ages):
    homes = [SimpleNamespace(path=f"/{number}", log_dir=number) for number in range(3)]
    made_at = {f"/{number}": age for number, age in enumerate(ages)}
    copy, retired, asked = SimpleNamespace(topic="t", partition=0, name="t-0-future"), [], []
    monkeypatch.setattr(moves_module.partition_directory, "find_futures", lambda path: [copy])
    monkeypatch.setattr(moves_module.partition_directory, "made_at", lambda path, name: made_at[path])
    logs = SimpleNamespace(are_several=True, online_homes=homes)
    moves = Moves(context=None, store=None, rows=None, logs=logs, moves=lambda: 0, log=None, count=None)
    monkeypatch.setattr(moves, "_retire", lambda home, found: retired.append(ages[home.log_dir]))
    monkeypatch.setattr(moves, "_is_known", lambda home, found: True)
    monkeypatch.setattr(moves, "_ask", lambda home, found: asked.append(ages[home.log_dir]) or True)
    moves.resume()
    assert (retired, asked) == ([5.0, 6.0], [7.0])
