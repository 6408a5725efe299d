"""The coordinator's shell, method by method: what comes of effects, what is due, which partitions are opened and
closed."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.coordinator import shell as module
from mpbroker.coordinator.effects import Answer, Append, GiveBack, GroupRequest, PassOn
from mpbroker.coordinator.group_settings import GroupSettings, OwnSettings
from mpbroker.coordinator.shell import REPAIR_RETRY_MS
from mpbroker.coordinator.workbench import most_parked
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.harness.noted_calls import Script
from tests.unit.coordinator.shell_world import BEAT, NOW, Token, World


@pytest.fixture(autouse=True)
def tokens(monkeypatch):
    """The shell takes them for claimed requests."""
    monkeypatch.setattr(module, "Request", Token)


# effects


def test_effects_are_carried_out_in_order_and_so_is_what_follows_from_them():
    """An append that is settled at once gives effects while others are carried out."""
    world = World()
    made = world.made

    def carry_out(effect):
        world.done.append(effect)
        if effect == "append":
            made._take(["answer"])
            world.done.append("append is over")

    made._carry_out = carry_out
    made._take([])
    assert world.done == [] and not made._is_carrying
    made._take(["append", "other"])
    assert world.done == ["coordinator.decided", "append", "coordinator.decided", "append is over", "other", "answer"]
    assert not made._is_carrying


def test_effects_go_on_after_one_that_failed():
    world = World()
    world.made._carry_out = lambda effect: 1 / effect
    with pytest.raises(ZeroDivisionError):
        world.made._take([0, 1])
    assert not world.made._is_carrying and list(world.made._effects) == [1]
    world.made._take([])
    assert not world.made._effects


def test_what_becomes_of_each_effect():
    world = World()
    world.replace("_decide_group", "_append")
    request = Token()
    world.made._cells = {request: {1: 0}}
    asked, append = GroupRequest(request, 12, 3, BEAT), Append(1, 2, 3, None, 4, ())
    for effect in (Answer(request, "message"), PassOn(asked), GiveBack(asked, 5), append, "other"):
        world.made._carry_out(effect)
    assert world.done == [
        ("answers.answer", request, "message", 7),
        "coordinator.answered",
        ("_decide_group", asked),
        ("transactions.refuse_written", asked, 5),
        ("answers.give_back", request),
        "coordinator.answered",
        ("_append", append, 7),
        ("transactions.carry_out", "other"),
    ]
    assert world.made._cells == {}


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
@pytest.mark.parametrize("cells", [{}, {4: 1, 2: 0}])
def test_an_append_goes_to_its_topic_and_its_code_to_its_logic(topic, cells):
    logic = Script([], "logic.", appended=lambda *_: ["effect"])
    appended = {"appended": lambda *_: ["effect"]}
    world = World(
        port={"ensure_cells": lambda *_: True}, groups=appended, transactions={"topic": "t", "coordinator": logic}
    )
    world.replace("_take")
    world.made._topic, request = "offsets", Token()
    world.made._cells = {request: cells} if cells else {}
    effect = Append(4, 6, 9, request, 0, (), topic)
    world.made._append(effect, 7)
    asked, (name, *given, then) = world.done
    assert asked == ("port.ensure_cells", request, max(len(cells), 1))
    assert (name, given) == (
        "appends.append",
        ["offsets" if topic == OFFSETS_TOPIC else "t", effect, request, cells.get(4, 0), 7],
    )
    del world.done[:]
    then(56)
    told = ("groups.appended" if topic == OFFSETS_TOPIC else "logic.appended", 4, 9, 56, NOW)
    assert world.done == ["coordinator.appended", *([told] if topic == OFFSETS_TOPIC else []), ("_take", ["effect"])]
    assert logic._calls == ([] if topic == OFFSETS_TOPIC else [told])


@pytest.mark.parametrize(
    ("topic", "token", "has_room", "code"),
    [
        (None, "request", True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (None, None, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("offsets", "request", False, ErrorCode.NOT_ENOUGH_REPLICAS),
        ("offsets", None, False, None),  # it needs no cell
    ],
)
def test_an_append_that_cannot_be_tried(topic, token, has_room, code):
    world = World(port={"ensure_cells": lambda *_: has_room})
    world.replace("_take")
    world.made._topic = topic
    world.made._append(Append(4, 6, 9, Token() if token else None, 0, ()), 7)
    told = [one for one in world.done if one[0] == "groups.appended"]
    assert told == ([("groups.appended", 4, 9, code, NOW)] if code is not None else [])
    assert any(one[0] == "appends.append" for one in world.done) is (code is None)


def test_groups_that_are_made_anew_keep_the_settings_of_single_groups():
    """The topic of the offsets may come to be after those settings were read."""
    world = World()
    made, own = world.made, {"g": OwnSettings(45_001, 5_001, 1_001)}
    made._settings, made._own_settings, made._table = GroupSettings(partitions=50, max_groups=7), own, None
    made._ctx.boot_secret = b"s" * 16
    groups = made._make_groups(3)
    assert groups._env.settings_of("g") is own["g"] and groups._env.settings_of("h") == made._settings.common
    assert groups._env.settings == GroupSettings(partitions=3, max_groups=7)


# what is due, and rest


@pytest.mark.parametrize(
    ("unrepaired", "due", "expected"),
    [
        ([], (None, None, None, None), None),
        ([], (9, 12, None, 20), 9),
        ([], (30, 20, 12, 14), 12),
        ([], (30, None, None, 14), 14),
        ([], (None, 13, None, None), 13),
        (["one"], (None, None, None, None), NOW.ms + REPAIR_RETRY_MS),
        (["one"], (NOW.ms + REPAIR_RETRY_MS + 1, None, None, None), NOW.ms + REPAIR_RETRY_MS),
    ],
)
def test_the_next_deadline_is_the_first_of_all(unrepaired, due, expected):
    groups, transactions, appends, answers = due
    world = World(
        groups={"deadline_ms": lambda: groups},
        transactions={"next_due_ms": lambda now_ms: transactions},
        appends={"next_due_ms": lambda now_ms: appends},
        answers={"next_due_ms": lambda now_ms: answers},
    )
    world.made._unrepaired = unrepaired
    assert world.made.next_due_ms() == expected
    world.made._loader.next_due_ms = lambda now_ms: now_ms
    assert world.made.next_due_ms() == NOW.ms


def test_rest_and_settings(monkeypatch):
    world = World(groups={"counts": "counts"})
    world.made.rest()
    assert world.done == [("logs.close_stale",), ("counting.publish", "counts"), ("transactions.rest",)]
    del world.done[:]
    monkeypatch.setattr(module, "own_settings", lambda config: f"own of {config}")
    world.made.use_config("new")
    assert world.done == [("metadata.use_config", "new"), ("groups.use_own_settings", "own of new")]
    assert world.made._own_settings == "own of new"


# metadata


def topic(name, number, *rows):
    return SimpleNamespace(name=name, id=bytes([number]) * 16, partitions=list(rows))


def with_topics(world, *topics, leads=None):
    """Metadata of these topics; `leads`: row → epoch in which it is led here."""
    by_name = {one.name: one for one in topics}
    world.made._metadata._answers |= {"topics": lambda: topics, "topic": by_name.get}
    world.leads = leads or {}


@pytest.fixture
def followed(monkeypatch):
    world = World()
    monkeypatch.setattr(module, "led_since", lambda state, in_cluster: world.leads.get(state))
    monkeypatch.setattr(module, "Counting", lambda row: "new counting")
    world.made._logs._answers["state"] = lambda ordinal: ordinal
    answers = {name: lambda *_, _name=name: _name for name in ("open", "close", "topic_deleted")}
    world.made._make_groups = lambda partitions: Script(world.done, f"groups of {partitions}.", **answers)
    world.replace("_take")
    return world


def take(world):
    del world.done[:]
    world.made._take_metadata()
    return [one for one in world.done if not one[0].startswith(("metadata.", "logs.", "transactions."))]


def opening(number, epoch, row, of=3):
    opened = ("_take", "open")
    return [
        ("unknown.took_over", number),
        (f"groups of {of}.open", number, epoch, NOW),
        opened,
        ("loader.begin", number, row),
    ]


def closing(number, epoch, of=3):
    return [("loader.forget", number), (f"groups of {of}.close", number, epoch, NOW), ("_take", "close")]


def test_partitions_are_opened_as_they_come_to_be_led_here_and_closed_as_they_go(followed):
    world, offsets = followed, topic(OFFSETS_TOPIC, 1, 20, 21, 22)
    with_topics(world, offsets, leads={20: 5, 22: 0})
    assert take(world)[1:] == [*opening(0, 5, 20), *opening(2, 0, 22)] and world.made._opened == {0: 5, 2: 0}
    assert world.made._counting == "new counting" and world.made._topic is offsets
    assert take(world) == [("groups of 3.topics_changed", frozenset())], "nothing has changed"
    world.leads = {20: 6, 21: 1}
    assert take(world)[1:] == [*opening(0, 6, 20), *opening(1, 1, 21), *closing(2, 0)]
    assert world.made._opened == {0: 6, 1: 1}
    world.leads = {20: 5, 21: 1}
    assert take(world)[1:] == [] and world.made._opened == {0: 6, 1: 1}, "an older epoch opens nothing"


def test_an_offsets_topic_that_is_gone_or_another_one(followed):
    world = followed
    with_topics(world, topic(OFFSETS_TOPIC, 1, 20), leads={20: 5})
    take(world)
    with_topics(world, topic(OFFSETS_TOPIC, 2, 30, 31), leads={31: 1})
    found = take(world)
    assert found[:3] == closing(0, 5, of=1)
    assert found[-4:] == opening(1, 1, 31, of=2) and world.made._opened == {1: 1}
    with_topics(world)
    assert take(world)[:3] == closing(1, 1, of=2)
    assert world.made._topic is None and world.made._opened == {}


def test_topics_that_are_gone_or_made_anew_take_their_offsets_with_them(followed):
    world, offsets = followed, topic(OFFSETS_TOPIC, 1)
    with_topics(world, offsets, topic("kept", 3, 1), topic("grows", 4, 2), topic("gone", 5, 3), topic("anew", 6, 4))
    all_names = frozenset({OFFSETS_TOPIC, "kept", "grows", "gone", "anew"})
    assert take(world) == [("groups of 0.topics_changed", all_names)]
    with_topics(world, offsets, topic("kept", 3, 1), topic("grows", 4, 2, 9), topic("anew", 7, 4), topic("new", 8, 5))
    deleted = ("_take", "topic_deleted")
    assert take(world) == [
        ("groups of 0.topics_changed", frozenset({"grows", "gone", "anew", "new"})),
        ("groups of 0.topic_deleted", "gone", NOW),
        deleted,
        ("groups of 0.topic_deleted", "anew", NOW),
        deleted,
    ]


@pytest.mark.parametrize(("partition", "exists"), [(-1, False), (0, True), (1, True), (2, False)])
def test_whether_there_is_a_partition(partition, exists):
    world = World()
    with_topics(world, topic("t", 1, 5, 6))
    assert world.made._has_partition("t", partition) is exists and not world.made._has_partition("no", partition)


@pytest.mark.parametrize(
    ("is_open", "are_gone", "deleted", "unsure"),
    [(True, True, True, False), (True, False, False, True), (False, True, False, False)],
)
def test_offsets_of_unknown_topics_go_when_it_is_sure(is_open, are_gone, deleted, unsure):
    """A broker that was away does not know of topics yet that others know of."""
    world = World(
        groups={"topics": lambda partition: ["known", "gone"], "topic_deleted": lambda *_: "effects"},
        unknown={"are_gone": lambda partition: are_gone},
    )
    world.replace("_take")
    with_topics(world, topic("known", 1, 5))
    world.made._unsure, world.made._opened = {4}, {4: 1} if is_open else {}
    world.made._forget_gone(4)
    steps = [one for one in world.done if one[0] in ("groups.topic_deleted", "_take")]
    assert steps == ([("groups.topic_deleted", "gone", NOW), ("_take", "effects")] if deleted else [])
    assert (4 in world.made._unsure) is unsure


def test_nothing_unknown_is_nothing_to_wait_for():
    world = World(groups={"topics": lambda partition: ["known"]}, unknown={"are_gone": lambda partition: False})
    world.replace("_take")
    with_topics(world, topic("known", 1, 5))
    world.made._opened = {4: 1}
    world.made._forget_gone(4)
    assert world.made._unsure == set()
    assert not {"groups.topic_deleted", "_take"} & {one[0] for one in world.done}


def test_what_a_shell_is_made_with(monkeypatch):
    """Of a processor's entries some stay free; counters are there before the topic of the offsets is."""
    for name in (
        "EntryAnswers",
        "OffsetsLog",
        "OffsetsLoader",
        "UnknownTopics",
        "TransactionShell",
        "GroupCoordinator",
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: Script([], ""))
    monkeypatch.setattr(module, "Counting", lambda row: ("counting", row))
    config = load_broker_config(overrides=["offsets.topic.num.partitions=7"], environ={}, cores=2)
    core = SimpleNamespace(entry_count=24_000, processor_count=3, crash_point="crash point")
    ctx = SimpleNamespace(core=core, config=config, process_row="row", log="log", boot_secret=b"s" * 16)
    metadata = Script([], "", topics=list, topic=lambda name: None)
    made = module.Shell(ctx, "port", None, None, metadata, "table")
    assert made._settings == GroupSettings.of(config, 8000) and made._settings.max_parked == most_parked(8000)
    assert made._settings.partitions == 7 and made._counting == ("counting", "row")
    assert (made._is_carrying, made._is_in_cluster, made._unrepaired, made._crash_point) == (
        False,
        False,
        [],
        "crash point",
    )
