"""The keeper's view of topics: what the controller shows, with the settings in force, and nothing that is going."""

from types import SimpleNamespace

from mpbroker.log import kept_partitions
from mpbroker.log.kept_partitions import KeptPartitions
from mpbroker.shm.layout import TopicFlags
from mpbroker.shm.topic_table import TopicRow, journal_append, partition_link, rows_raise, topic_write
from tests.harness.small_core import small_core
from tests.unit.log.log_world import config_of

T, U = bytes([1] * 16), bytes([2] * 16)


def show(memory, row, topic_id, name, ordinals, overrides=b"{}", flags=TopicFlags.EXISTS, version=1):
    rows_raise(memory.core, row + 1, max(ordinals) + 1)
    for number, ordinal in enumerate(ordinals):
        memory.partition(ordinal, topic_id, number, topic_row=row, directory=f"{name}-{number}")
    for ordinal, following in zip(ordinals, [*ordinals[1:], -1], strict=True):
        partition_link(memory.core, ordinal, following + 1)
    topic_write(memory.core, row, int(flags), topic_id, name, len(ordinals), ordinals[0], overrides, version)
    journal_append(memory.core, row)


def test_partitions_come_change_and_go_with_their_topics():
    memory = small_core()
    view = KeptPartitions(memory.core, config_of())
    view.refresh()
    assert list(view.all) == [] and view.refresh() is False
    show(memory, 0, T, "t", [0, 2], b'{"retention.ms":"5"}')
    show(memory, 1, U, "u", [1])
    assert view.refresh() is True and view.refresh() is False
    assert [(p.ordinal, p.dir, p.who, p.topic_id) for p in sorted(view.all)] == [
        (0, "t-0", ("t", 0), T),
        (1, "u-0", ("u", 0), U),
        (2, "t-1", ("t", 1), T),
    ]
    assert {p.dir: p.settings.retention_ms for p in view.all} == {"t-0": 5, "t-1": 5, "u-0": 604_800_000}
    show(memory, 0, T, "t", [0, 2, 3], b'{"retention.ms":"6"}', version=2)
    assert view.refresh() and {p.settings.retention_ms for p in view.all if p.topic == "t"} == {6}
    assert len(view.all) == 4
    show(memory, 0, T, "t", [0, 2, 3], flags=TopicFlags.EXISTS | TopicFlags.DELETING, version=3)
    assert view.refresh() and [p.dir for p in view.all] == ["u-0"]


def test_a_reload_changes_what_topics_inherit():
    memory = small_core()
    show(memory, 0, T, "t", [0], b'{"retention.bytes":"7"}')
    view = KeptPartitions(memory.core, config_of())
    view.refresh()
    view.use_config(config_of("log.retention.ms=9"))
    assert [(p.settings.retention_ms, p.settings.retention_bytes) for p in view.all] == [(9, 7)]


class Moving:
    """Two topics of two partitions, in two log directories; `moves` counts partitions that changed theirs."""

    def __init__(self, monkeypatch):
        self.moves, self.generation, self.log_dirs, self.read = 0, 1, [0, 1, 1, 0], []
        rows = [TopicRow(5, int(TopicFlags.EXISTS), bytes([n]) * 16, f"t{n}", 2, 2 * n, b"{}", 1) for n in range(2)]
        self.rows = dict(enumerate(rows))
        for name, function in {
            "metadata_generation": lambda core: self.generation,
            "topic_count": lambda core: 3,
            "topics_changed": self.changed,
            "topic_read": lambda core, row: self.read.append(row) or self.rows.get(row),
            "topic_partitions": lambda core, topic_id, first, count: [first, first + 1],
            "partition_who": lambda core, ordinal: SimpleNamespace(log_dir=self.log_dirs[ordinal]),
        }.items():
            monkeypatch.setattr(kept_partitions, name, function)

    def changed(self, core, selectors):
        return [row for row, found in self.rows.items() if selectors[row] != found.selector]


def ordinals(view):
    return sorted(partition.ordinal for partition in view.all)


def test_a_keeper_of_one_log_directory_keeps_what_lies_there(monkeypatch):
    memory = Moving(monkeypatch)
    views = [KeptPartitions(memory, config_of(), log_dir=log_dir) for log_dir in (0, 1, None)]
    assert not any(view.loaded for view in views)
    assert [view.refresh() for view in views] == [True] * 3 and all(view.loaded for view in views)
    assert [ordinals(view) for view in views] == [[0, 3], [1, 2], [0, 1, 2, 3]]
    assert [view.refresh() for view in views] == [False] * 3
    memory.read.clear()
    memory.moves, memory.log_dirs[1] = 1, 0
    assert [view.refresh() for view in views] == [True, True, False], "who keeps all of them need not look"
    assert [ordinals(view) for view in views] == [[0, 1, 3], [2], [0, 1, 2, 3]]
    assert sorted(memory.read) == [0, 0, 1, 1], "every topic that is there, and no empty row"
    assert [view.refresh() for view in views] == [False] * 3


def test_before_the_controller_has_shown_anything_nothing_is_loaded(monkeypatch):
    memory = Moving(monkeypatch)
    memory.generation = 0
    view = KeptPartitions(memory, config_of(), log_dir=1)
    view.refresh()
    assert not view.loaded and not view.refresh()


def test_what_is_gone_or_going_is_not_kept(monkeypatch):
    memory = Moving(monkeypatch)
    view = KeptPartitions(memory, config_of())
    view.refresh()
    memory.generation, memory.rows[0] = 2, memory.rows[0]._replace(selector=6, flags=0)
    assert view.refresh() and ordinals(view) == [2, 3]
    monkeypatch.setattr(kept_partitions, "topic_partitions", lambda *words: None)
    memory.generation, memory.rows[1] = 3, memory.rows[1]._replace(selector=6)
    assert view.refresh() and ordinals(view) == [], "its partitions are being deleted"
    monkeypatch.setattr(kept_partitions, "topics_changed", lambda core, selectors: [2])
    memory.generation = 4
    assert view.refresh() and ordinals(view) == [], "nothing was ever there"


def test_topics_that_come_after_a_reload_have_its_settings():
    memory = small_core()
    view = KeptPartitions(memory.core, config_of())
    view.refresh()
    view.use_config(config_of("log.retention.ms=9"))
    show(memory, 0, T, "t", [0])
    assert view.refresh() and [p.settings.retention_ms for p in view.all] == [9]


def test_rows_that_have_not_changed_are_not_read_again(monkeypatch):
    memory = Moving(monkeypatch)
    view = KeptPartitions(memory, config_of())
    view.refresh()
    memory.read.clear()
    memory.generation, memory.rows[1] = 2, memory.rows[1]._replace(selector=6)
    assert view.refresh() and memory.read == [1] and ordinals(view) == [0, 1, 2, 3]
