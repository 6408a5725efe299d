"""Single steps of what a controller finds at its start: whose directories are whose, and which row a topic keeps."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.controller_recovery import ControllerRecovery, TablesTooSmall

TOPIC = SimpleNamespace(id=b"T", name="t", replicas=[[0], [0]], row=-1)


def recovery(**parts):
    nothing = lambda *_, **__: None  # noqa: E731
    given = dict.fromkeys(
        ("store", "snapshot", "rows", "logs", "deletions", "settings_of", "log", "crash_point", "count"), nothing
    )
    return ControllerRecovery(**{**given, **parts})


def found(partition=0, topic="t", topic_id=b"T"):
    return SimpleNamespace(topic=topic, partition=partition, topic_id=topic_id, name=f"{topic}-{partition}")


@pytest.mark.parametrize(
    ("directory", "several", "there", "belongs"),
    [
        (found(), False, None, True),
        (found(topic_id=None), False, None, True),
        (found(topic_id=b"U"), False, None, False),
        (found(topic="u"), False, None, False),
        (found(1), False, None, True),
        (found(2), False, None, False),
        (found(), True, 1, True),
        (found(), True, 0, False),
    ],
)
def test_a_directory_belongs_to_its_topic_and_of_several_one(directory, several, there, belongs):
    logs = SimpleNamespace(are_several=several, find=lambda topic, partition: SimpleNamespace(log_dir=there))
    context = SimpleNamespace(by_name={"t": TOPIC})
    assert recovery(logs=logs)._belongs(context, SimpleNamespace(log_dir=1), directory) is belongs


@pytest.mark.parametrize(
    ("live", "shown", "asked", "row"),
    [({0: 10, 1: 11}, 5, [], 5), ({0: 10, 1: 11}, None, [3], 3), ({1: 11}, None, [4], 4), ({}, None, [None], 8)],
    ids=["shown", "the first of two", "named", "none"],
)
def test_a_topic_keeps_the_row_that_shows_it_or_that_its_partitions_name(live, shown, asked, row):
    reserved = []
    snapshot = SimpleNamespace(reserve=lambda wanted: reserved.append(wanted) or (8 if wanted is None else wanted))
    rows = SimpleNamespace(who=lambda ordinal: SimpleNamespace(topic_row={10: 3, 11: 4}[ordinal]))
    topic = SimpleNamespace(row=-1)
    recovery(snapshot=snapshot, rows=rows)._take_rows(topic, live, shown)
    assert (topic.row, reserved) == (row, asked)


def test_a_topic_for_which_there_is_no_row_says_what_to_do():
    def reserve(_):
        raise IndexError

    with pytest.raises(TablesTooSmall, match=r"mpbroker\.max\.topics"):
        recovery(snapshot=SimpleNamespace(reserve=reserve))._take_rows(TOPIC, {}, None)


def test_deletions_are_gone_on_with():
    done = []
    deletions = SimpleNamespace(
        pending={"old": 1},
        add=lambda record, shown, ordinals: done.append((record.id, shown, ordinals)),
        finish_all=lambda: done.append("finished"),
    )
    records = [SimpleNamespace(id=(bytes(15) + one).hex()) for one in (b"a", b"b")]
    live, shown = {bytes(15) + b"a": {0: 7, 1: 9}, b"other": {0: 1}}, {bytes(15) + b"b": 3, b"other": 2}
    store = SimpleNamespace(load_deletions=lambda: records)
    recovery(store=store, deletions=deletions)._resume_deletions(live, shown)
    assert done == [(records[0].id, -1, [7, 9]), (records[1].id, 3, []), "finished"]
    assert deletions.pending == {} and set(live) == set(shown) == {b"other"}, "what is left is nobody's"
