"""The keeper's view of topics: what the controller shows, with the settings in force, and nothing that is going."""

from mpbroker.log.kept_partitions import KeptPartitions
from mpbroker.shm.layout import TopicFlags
from mpbroker.shm.topic_table import journal_append, partition_link, rows_raise, topic_write
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
