"""Commands from handlers to the controller: found again by a re-run, answered once, freed."""

import pytest

from mpbroker import _native
from mpbroker.channel.command_channel import CommandChannel
from mpbroker.channel.handler_port import COMMAND_FULL, COMMAND_PARTS, COMMAND_TOO_LONG, HandlerPort
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER, SLOT_CONTROLLER
from mpbroker.shm.process_table import ProcessRow
from tests.harness.small_core import small_core


@pytest.fixture
def core():
    return small_core(commands=4).core


def test_a_command_and_its_answer(core):
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    assert controller.claim(0) is None
    number = handler.send(b"make it so", 17)
    assert controller.claim(1000) == (number, 17, b"make it so")
    assert controller.claim(0) is None
    assert handler.answers() == []
    assert controller.complete(number, b"done", 3)
    assert not controller.complete(number, b"done", 3)
    assert handler.serve_or_claim() is None  # rung for the answer
    assert handler.take_dirty() == (False, [])
    assert handler.answers() == [(number, b"done")]
    assert handler.answers() == []


def test_an_answer_names_the_metadata_that_shows_the_change(core):
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    number = handler.send(b"x", 17)
    controller.claim(0)
    controller.complete(number, b"done", 2**40 + 3)
    assert _native.CommandPort(core, core.handler_slot(0)).answers() == [(number, 17, b"done", 2**40 + 3)]


def test_answered_commands_are_counted(core):
    handler, controller, row = HandlerPort(core, 0), CommandChannel(core), ProcessRow(core, SLOT_CONTROLLER)
    for done in (1, 2):
        number = handler.send(b"x", done)
        controller.claim(0)
        assert row.counter(Counter.COMMANDS_DONE) == done - 1
        assert [controller.complete(number, b"done", 1) for _ in range(2)] == [True, False]
        assert row.counter(Counter.COMMANDS_DONE) == done


def test_the_table_and_a_command_are_bounded(core):
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    numbers = [handler.send(b"x", operation) for operation in range(1, 5)]
    assert sorted(numbers) == [0, 1, 2, 3]
    assert handler.send(b"x", 5) == COMMAND_FULL
    assert handler.send(bytes(40_961), 5) == COMMAND_TOO_LONG
    claimed = controller.claim(0)
    assert claimed is not None
    assert not controller.complete(claimed[0], bytes(24_513), 1)
    assert controller.complete(claimed[0], bytes(24_512), 1)
    # Nobody has a request of that number in flight any more: its answer makes room for the next.
    assert handler.send(b"x", 5) == claimed[0]


def test_a_second_run_of_a_request_finds_the_first_ones_command(core):
    dead, other, controller = HandlerPort(core, 0), HandlerPort(core, 1), CommandChannel(core)
    number = dead.send(b"x", 5)
    assert controller.claim(0) == (number, 5, b"x")
    assert other.send(b"x", 5) == number
    assert controller.claim(0) is None
    controller.complete(number, b"done", 1)
    assert dead.answers() == []
    assert other.answers() == [(number, b"done")]


def test_a_finished_command_is_found_too(core):
    dead, other, controller = HandlerPort(core, 0), HandlerPort(core, 1), CommandChannel(core)
    number = dead.send(b"x", 5)
    controller.claim(0)
    controller.complete(number, b"done", 1)
    assert other.send(b"x", 5) == number
    assert other.serve_or_claim() is None
    assert other.answers() == [(number, b"done")]


def test_a_controllers_successor_gets_what_it_held(core):
    handler, dead = HandlerPort(core, 0), CommandChannel(core)
    number = handler.send(b"x", 5)
    dead.claim(0)
    successor = CommandChannel(core)
    assert successor.recover() == 1
    assert successor.recover() == 0
    assert successor.claim(0) == (number, 5, b"x")
    assert successor.complete(number, b"done", 1)
    assert handler.answers() == [(number, b"done")]


def test_the_answer_goes_to_the_process_that_asked(core):
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    number = handler.send(b"x", 5)
    controller.claim(0)
    core.row(48).begin(1, 3, 0, 255)  # another process in the slot
    controller.complete(number, b"done", 1)
    assert HandlerPort(core, 0).answers() == []


def test_services_sleep_until_they_are_rung(core):
    assert not core.wait_service(113, 1)
    core.ring_service(113)
    assert core.wait_service(113, 60_000)
    assert not core.wait_service(113, 0)
    core.ring_everybody()
    assert core.wait_service(113, 60_000)


def test_only_handlers_send(core):
    with pytest.raises(TypeError):
        _native.CommandPort(core, SLOT_CONTROLLER).send(b"x", 1)
    with pytest.raises(IndexError):
        _native.CommandPort(core, 3)


def test_commands_nobody_asks_for_again_are_each_sent(core):
    first, second, controller = HandlerPort(core, 0), HandlerPort(core, 1), CommandChannel(core)
    one, other, third = first.send(b"one", 0), second.send(b"other", 0), first.send(b"third", 0)
    assert len({one, other, third}) == 3
    for number, command in ((one, b"one"), (other, b"other"), (third, b"third")):
        assert controller.claim(0) == (number, 0, command)
        controller.complete(number, command + b" done", 1)
    assert sorted(first.answers()) == sorted([(one, b"one done"), (third, b"third done")])
    assert second.answers() == [(other, b"other done")]


def test_a_full_table_keeps_the_answers_that_somebody_will_read(core):
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    assert ProcessorPort(core, 0).submit(0, 1, 1, 0, bytes(8), 0) >= 0
    request = handler.serve_or_claim()
    operations = [request.fill_number * COMMAND_PARTS, request.fill_number * COMMAND_PARTS + 1, 0]
    numbers = [handler.send(b"x", operation) for operation in operations]
    gone = handler.send(b"x", (request.fill_number + 1) * COMMAND_PARTS)
    for _ in range(4):
        controller.complete(controller.claim(0)[0], b"done", 1)
    assert handler.send(b"x", 0) == gone
    assert handler.send(b"x", 0) == COMMAND_FULL
    assert sorted(number for number, _ in handler.answers()) == sorted(numbers)


def test_commands_of_the_cluster_have_a_ring_of_their_own():
    core = small_core(commands=4, replicated=True).core
    handler, controller = HandlerPort(core, 0), CommandChannel(core)
    cluster = CommandChannel(core, SLOT_CLUSTER_CONTROLLER)
    mine, theirs = handler.send(b"log", 1), handler.send(b"topic", 2, SLOT_CLUSTER_CONTROLLER)
    assert cluster.claim(0) == (theirs, 2, b"topic")
    assert controller.claim(0) == (mine, 1, b"log")
    assert cluster.claim(0) is None
    assert not cluster.complete(mine, b"no", 1), "it is the other one's"
    assert cluster.complete(theirs, b"yes", 1)
    assert handler.answers() == [(theirs, b"yes")]
    assert controller.complete(mine, b"done", 1)


def test_a_successor_takes_the_commands_of_its_own_slot_again():
    core = small_core(commands=4, replicated=True).core
    handler = HandlerPort(core, 0)
    mine, theirs = handler.send(b"log", 1), handler.send(b"topic", 2, SLOT_CLUSTER_CONTROLLER)
    assert CommandChannel(core).claim(0) and CommandChannel(core, SLOT_CLUSTER_CONTROLLER).claim(0)
    successor = CommandChannel(core, SLOT_CLUSTER_CONTROLLER)
    assert successor.recover() == 1
    assert successor.claim(0) == (theirs, 2, b"topic")
    assert CommandChannel(core).claim(0) is None, f"command {mine} is still the controller's"


def test_a_broker_that_is_alone_has_nobody_for_them(core):
    with pytest.raises(ValueError, match="nobody takes commands"):
        HandlerPort(core, 0).send(b"topic", 2, SLOT_CLUSTER_CONTROLLER)
