"""Single steps of what a controller finds at its start: whose directories are whose, and which row a topic keeps."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import controller_recovery as module
from mpbroker.controller.controller_recovery import ControllerRecovery, TablesTooSmall
from mpbroker.errors import KafkaError, MpbrokerError
from mpbroker.log.log_loader import PartitionToLoad

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


@pytest.mark.parametrize(
    ("directory", "moved", "left"),
    [
        (found(), True, True),
        (found(), False, False),
        (found(topic_id=b"U"), True, False),
        (found(topic_id=None), True, False),
        (found(2), True, False),
        (found(topic="u"), True, False),
    ],
    ids=["left", "not moved", "another topic's", "of no topic", "beyond", "unknown"],
)
def test_what_a_move_left_gets_another_name(monkeypatch, directory, moved, left):
    renamed, told, asked = [], [], []
    place = SimpleNamespace(
        was_moved_here=lambda path: asked.append(path) or moved,
        retire=lambda *words: renamed.append(words) or "new name",
        STRAY_SUFFIX="-stray",
    )
    monkeypatch.setattr(module, "partition_directory", place)
    logs = SimpleNamespace(
        find=lambda topic, partition: SimpleNamespace(log_dir=4),
        home=lambda log_dir: SimpleNamespace(path=f"/{log_dir}"),
    )
    log = SimpleNamespace(warning=lambda event, **fields: told.append((event, fields)))
    context = SimpleNamespace(by_name={"t": TOPIC})
    assert recovery(logs=logs, log=log)._moved_away(context, SimpleNamespace(path="/1"), directory) is left
    assert renamed == ([("/1", "t-0", b"T", "-stray")] if left else [])
    assert told == (
        [("moved_partition_left", {"directory": "/1/t-0", "renamed": "new name", "to": "/4"})] if left else []
    )
    assert asked in ([], ["/4/t-0"])


@pytest.mark.parametrize("error", [0, 56])
def test_a_partition_that_is_offline_is_shown_as_that(error):
    told, counted = [], []
    logs = SimpleNamespace(show_offline=lambda partition: error)
    made = recovery(logs=logs, count=counted.append, log=SimpleNamespace(error=lambda event, **_: told.append(event)))
    if error:
        with pytest.raises(KafkaError, match="the row of t-0 cannot be written"):
            made._show_offline(SimpleNamespace(dir="t-0"), "gone")
    else:
        made._show_offline(SimpleNamespace(dir="t-0"), "gone")
    assert counted == ["partitions_offline_at_start"] and told == ["partition_offline"]


@pytest.mark.parametrize("error", [0, 56])
def test_partitions_that_were_never_committed_are_hidden_set_aside_and_their_rows_given_back(error):
    done = []
    rows = SimpleNamespace(
        who=lambda ordinal: SimpleNamespace(dir=f"d{ordinal}"), release=lambda given: done.append(("release", given))
    )
    logs = SimpleNamespace(
        hide=lambda ordinal: done.append(("hide", ordinal)) or error,
        retire=lambda *words: done.append(("retire", *words)),
    )
    live = {b"T": {0: 10, 1: 11, 2: 12}, b"U": {0: 20}}
    made, context = recovery(rows=rows, logs=logs), SimpleNamespace(by_id={b"T": TOPIC})
    if error:
        with pytest.raises(KafkaError, match=r"partition row 12 \(d12\) of an uncommitted topic"):
            made._throw_away_unknown(context, live)
        assert done == [("hide", 12)]
        return
    made._throw_away_unknown(context, live)
    assert done == [
        ("hide", 12), ("retire", "d12", b"T"), ("release", [12]),
        ("hide", 20), ("retire", "d20", b"U"), ("release", [20]),
    ]  # fmt: skip
    assert live == {b"T": {0: 10, 1: 11}, b"U": {}}


def test_a_log_that_was_not_loaded_ends_the_start():
    rows = SimpleNamespace(who=lambda ordinal: SimpleNamespace(topic_id=b"T" if ordinal == 10 else bytes(16)))
    made = recovery(rows=rows)
    good, bad = (SimpleNamespace(ordinal=ordinal, topic_id=b"T", dir=f"d{ordinal}") for ordinal in (10, 11))
    made._check_shown([good])
    with pytest.raises(MpbrokerError, match="the log of d11 was not loaded"):
        made._check_shown([good, bad])


@pytest.mark.parametrize("error", [0, 56])
def test_a_log_whose_directory_is_missing_is_made_empty_and_said(error):
    told, made = [], []
    logs = SimpleNamespace(create=lambda *words: made.append(words) or error)
    run = recovery(logs=logs, log=SimpleNamespace(warning=lambda event, **fields: told.append((event, fields))))
    if error:
        with pytest.raises(KafkaError, match="the log of t-1 cannot be created"):
            run._create(TOPIC, 1, 11, "t-1", 2)
    else:
        run._create(TOPIC, 1, 11, "t-1", 2)
    assert made == [(TOPIC, 1, 11, 2)]
    assert told == [("log_directory_missing", {"directory": "t-1", "made": "empty"})]


def test_a_successor_knows_in_which_directory_each_row_lies_and_hides_what_no_topic_shows():
    done = []
    note = lambda name, given=None: lambda *words: done.append((name, *words)) or given  # noqa: E731
    rows = SimpleNamespace(
        recover=lambda: {b"U": {0: 10, 1: 11}}, who=lambda row: SimpleNamespace(log_dir=row - 8, dir=f"d{row}"),
        release=note("release"),
    )  # fmt: skip
    snapshot = SimpleNamespace(
        recover=lambda: {b"V": 5}, retire=note("hide"), release=note("give back"), announce_all=note("announce")
    )
    logs = SimpleNamespace(
        know=note("know"),
        hide=note("hide log", 0),
        retire=note("retire"),
        online_homes=[],
        load=note("load"),
        half_made=dict,
        creations_are_over=note("over"),
    )
    store = SimpleNamespace(load_operations=note("operations"), load_topics=list, load_deletions=list)
    deletions = SimpleNamespace(pending={}, add=note("add"), finish_all=note("finish"))
    run = recovery(store=store, snapshot=snapshot, rows=rows, logs=logs, deletions=deletions)
    assert run.run().by_id == {}
    assert done[:5] == [("operations",), ("know", {10: 2, 11: 3}), ("finish",), ("hide", 5), ("give back", 5)]
    assert done[-1] == ("announce",) and ("retire", "d10", b"U") in done


@pytest.mark.parametrize(("topic_id", "unique"), [(b"T", b"T"), (None, bytes(16))])
def test_what_a_creation_left_that_was_never_committed_goes_under_its_id_or_none(monkeypatch, topic_id, unique):
    renamed, told = [], []
    place = SimpleNamespace(
        find_all=lambda path: [
            found(0, "forgotten", topic_id),
            found(0, "u", topic_id),
            found(0, "pending"),
            found(1, "u", topic_id),
            found(2, "u", b"O"),
        ],
        is_unused=lambda path, name, is_noted: is_noted and name != "u-1",
        retire=lambda *words: renamed.append(words) or "new name",
        DELETE_SUFFIX="-delete",
    )
    monkeypatch.setattr(module, "partition_directory", place)
    homes = [SimpleNamespace(path="/1", log_dir=0), SimpleNamespace(path="/2", log_dir=1)]
    over, counted = [], []
    logs = SimpleNamespace(
        online_homes=homes, half_made=lambda: {"u": {b"T"}}, creations_are_over=lambda: over.append(len(told))
    )
    line = lambda event, **fields: told.append((event, fields["directory"]))  # noqa: E731
    made = recovery(
        logs=logs, log=SimpleNamespace(info=line, warning=line), count=counted.append,
        deletions=SimpleNamespace(pending={"pending": 1}),
    )  # fmt: skip
    made._look_for_strays(SimpleNamespace(by_name={}))
    assert renamed == [("/1", "u-0", unique, "-delete"), ("/2", "u-0", unique, "-delete")]
    assert told == [
        ("stray_directory", "forgotten-0"), ("unused_directory", "u-0"), ("stray_directory", "u-1"),
        ("stray_directory", "u-2"), ("stray_directory", "/2/forgotten-0"), ("unused_directory", "u-0"),
        ("stray_directory", "/2/u-1"), ("stray_directory", "/2/u-2"),
    ]  # fmt: skip
    assert counted == ["stray_directories"] * 6 and over == [8]


@pytest.mark.parametrize("loaded", [True, False])
def test_each_partition_of_a_start_is_kept_loaded_made_or_shown_offline(loaded):
    """One has a row already, one a log, one nothing, one a directory that failed, one finds its place taken; what
    was loaded is looked at."""
    done, counted = [], []
    note = lambda name, given=0: lambda *words: done.append((name, *words)) or given  # noqa: E731
    places = {
        1: SimpleNamespace(log_dir=2, has_log=True, problem=""),
        2: SimpleNamespace(log_dir=3, has_log=False, problem=""),
        3: SimpleNamespace(log_dir=4, has_log=False, problem="gone"),
        4: SimpleNamespace(log_dir=5, has_log=False, problem=""),
    }
    free = iter((21, 22, 23, 24))
    rows = SimpleNamespace(
        allocate=lambda: next(free), who=lambda ordinal: SimpleNamespace(topic_id=b"T" if loaded else bytes(16))
    )
    logs = SimpleNamespace(
        find=lambda topic, partition: places[partition], load=note("load", 4711),
        in_the_way=lambda name, topic_id: "taken" if (name, topic_id) != ("t-2", b"T") else "",
        create=note("create"), show_offline=lambda found: done.append(("offline", found.dir, found.ordinal)) or 0,
    )  # fmt: skip
    line = lambda event, **fields: done.append((event, fields.get("error")))  # noqa: E731
    made = recovery(
        rows=rows, logs=logs, count=counted.append, log=SimpleNamespace(error=line, warning=line, info=line),
        store=SimpleNamespace(pass_producer_ids=note("ids", True)),
        settings_of=lambda configs: ("settings", configs),
    )  # fmt: skip
    topic = SimpleNamespace(id=b"T", name="t", replicas=[[0]] * 5, row=5, ordinals=[], configs={"a": "b"})
    context = SimpleNamespace(by_id={b"T": topic})
    if not loaded:
        with pytest.raises(MpbrokerError, match="the log of t-1 was not loaded"):
            made._fill_in(context, {b"T": {0: 20}})
        return
    made._fill_in(context, {b"T": {0: 20}})
    assert topic.ordinals == [20, 21, 22, 23, 24]
    found = PartitionToLoad(21, b"T", 5, "t", 1, 2, "t-1", ("settings", {"a": "b"}))
    assert done == [
        ("log_directory_missing", None), ("create", topic, 2, 22, 3),
        ("partition_offline", "gone"), ("offline", "t-3", 23),
        ("partition_offline", "taken"), ("offline", "t-4", 24),
        ("load", [found]), ("ids", 4711), ("producer_ids_passed", None),
    ]  # fmt: skip
    assert counted == ["partitions_offline_at_start"] * 2


def test_a_start_that_has_no_row_left_for_a_partition_says_what_to_do():
    def allocate():
        raise IndexError

    with pytest.raises(TablesTooSmall, match=r"mpbroker\.max\.partitions"):
        recovery(rows=SimpleNamespace(allocate=allocate))._allocate()
