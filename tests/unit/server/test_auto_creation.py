"""Topics that metadata requests ask for: each is asked for once, and again when that came to nothing."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.metadata.commands import decode_command
from mpbroker.server import auto_creation
from mpbroker.server.auto_creation import MAX_UNDER_WAY, AutoCreation


class Commands:
    """Takes commands while it has room; `answers`: what to call with the answer."""

    def __init__(self):
        self.sent, self.answers, self.has_room = [], [], True

    def send(self, encoded, operation, then):
        assert operation == 0, "nobody asks again: it is no operation whose result is kept"
        if self.has_room:
            command = decode_command(encoded)
            assert command.forward, "in a cluster another broker may be the controller"
            self.sent.append([topic.name for topic in command.topics])
            self.answers.append(then)
        return self.has_room


@pytest.fixture
def world():
    commands = Commands()
    config = load_broker_config(environ={}, cores=2)
    return SimpleNamespace(commands=commands, creation=AutoCreation(commands, lambda: config))


def test_what_is_under_way_is_not_asked_for_again(world):
    assert world.creation.create(["a", "b"]) and world.creation.create(["b", "c"]) and world.creation.create(["a"])
    assert world.commands.sent == [["a", "b"], ["c"]]
    world.commands.answers[0](None)
    assert world.creation.create(["a", "c"]) and world.commands.sent[2:] == [["a"]]


def test_what_found_no_room_is_asked_for_again(world):
    world.commands.has_room = False
    assert not world.creation.create(["a"])
    world.commands.has_room = True
    assert world.creation.create(["a"]) and world.commands.sent == [["a"]]


def test_no_more_are_under_way_than_may_be(world, monkeypatch):
    names = [f"topic-{number}" for number in range(MAX_UNDER_WAY + 3)]
    assert world.creation.create(names)
    assert sum(len(part) for part in world.commands.sent) == MAX_UNDER_WAY
    assert world.creation.create(["one more"]) and sum(len(part) for part in world.commands.sent) == MAX_UNDER_WAY


def test_a_name_that_fits_in_no_command_is_refused(world, monkeypatch):
    def too_large(*_):
        raise auto_creation.CommandTooLarge

    monkeypatch.setattr(auto_creation, "encode_in_parts", too_large)
    assert world.creation.create(["a"]) is False and world.commands.sent == []
