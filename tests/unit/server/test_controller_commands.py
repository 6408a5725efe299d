"""Commands of a handler: what is sent, who hears the answer, and what happens when the table is full."""

from types import SimpleNamespace

import pytest

from mpbroker.metadata.commands import CommandTooLarge, ControlAnswer, encode_answer
from mpbroker.server import controller_commands
from mpbroker.server.controller_commands import MAX_PARTS, ControllerCommands, encode_in_parts
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER, SLOT_CONTROLLER


class Port:
    """A handler's: commands get numbers until there is no room, answers are what the test puts there."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, int, int]] = []
        self.asked = 0
        self.room = 2
        self.there: list[tuple[int, bytes]] = []

    def send(self, encoded, operation, target):
        if len(self.sent) == self.room:
            return -1
        self.sent.append((encoded, operation, target))
        return len(self.sent) - 1

    def answers(self):
        self.asked += 1
        there, self.there = self.there, []
        return there


@pytest.mark.parametrize("in_cluster", [False, True])
def test_each_answer_reaches_who_asked(in_cluster):
    port, refreshed, heard = Port(), [], []
    commands = ControllerCommands(port, SimpleNamespace(refresh=lambda: refreshed.append(len(heard))), in_cluster)
    assert commands.take_answers() == 0 and port.asked == 0, "nobody waits: the table is not looked at"
    assert commands.send(b"a", 5, lambda answer: heard.append(("a", answer)))
    assert commands.send(b"b", 6, lambda answer: heard.append(("b", answer)), local=True)
    assert not commands.send(b"c", 7, heard.append), "the table is full"
    elsewhere = SLOT_CLUSTER_CONTROLLER if in_cluster else SLOT_CONTROLLER
    assert port.sent == [(b"a", 5, elsewhere), (b"b", 6, SLOT_CONTROLLER)]
    assert commands.take_answers() == 0 and port.asked == 1
    first, second = ControlAnswer(1), ControlAnswer(2)
    port.there = [(1, encode_answer(second)), (9, encode_answer(first))]
    assert commands.take_answers() == 2 and heard == [("b", second)], "one is nobody's"
    port.there = [(0, encode_answer(first))]
    assert commands.take_answers() == 1 and [who for who, _ in heard] == ["b", "a"]
    assert refreshed == [0, 1, 1], "before an answer is given, what it says can be seen"
    assert commands.take_answers() == 0 and port.asked == 3


@pytest.fixture
def slots(monkeypatch):
    """A command may weigh 10; the weights of those that were encoded."""

    def encode(command):
        if sum(command) > 10:
            raise CommandTooLarge(f"{sum(command)} is too much")
        return bytes(command)

    monkeypatch.setattr(controller_commands, "encode_command", encode)


def parts_of(*items):
    return [(list(some), encoded) for some, encoded in encode_in_parts(items, list)]


@pytest.mark.parametrize(
    ("items", "parts"),
    [
        ([], [[]]),
        ([10], [[10]]),
        ([5, 5], [[5, 5]]),
        ([5, 6], [[5], [6]]),
        ([5, 6, 4], [[5], [6, 4]]),
        ([1, 2, 3, 4, 9], [[1, 2], [3], [4], [9]]),
    ],
)
def test_what_fits_into_no_command_is_halved_until_it_fits(slots, items, parts):
    assert parts_of(*items) == [(part, bytes(part)) for part in parts]


@pytest.mark.parametrize("items", [(11,), (1, 11), (11, 1), (1, 1, 11, 1)])
def test_one_that_is_too_large_by_itself_is_refused(slots, items):
    with pytest.raises(CommandTooLarge, match="11 is too much"):
        parts_of(*items)


def test_a_request_may_need_so_many_commands_and_no_more(slots):
    assert [len(part) for part, _ in parts_of(*[10] * MAX_PARTS)] == [1] * MAX_PARTS
    with pytest.raises(CommandTooLarge, match=f"would take {MAX_PARTS + 1} .*allowed are {MAX_PARTS}"):
        parts_of(*[10] * (MAX_PARTS + 1))
