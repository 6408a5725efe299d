"""Real controller processes killed with SIGKILL at named points; the next one answers as if nothing had happened."""

import os
import signal

import pytest

from mpbroker.metadata.commands import (
    AllocateProducerIds,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionCount,
)
from mpbroker.shm.topic_table import rows_high
from tests.harness.controller_process import ControllerProcess
from tests.harness.small_core import small_plan

pytestmark = pytest.mark.slow

COMMANDS = {
    "create": (CreateTopics([NewTopic("new", 2)]), {"stays": 2, "gone": 2, "new": 2}),
    "delete": (DeleteTopics(["gone"]), {"stays": 2}),
    "extend": (CreatePartitions([PartitionCount("stays", 4)]), {"stays": 4, "gone": 2}),
}
BEFORE = {"stays": 2, "gone": 2}
POINTS = [
    ("create", "controller.directory_made"),
    ("create", "controller.partition_created:2"),
    ("create", "controller.prepared"),
    ("create", "controller.committed"),
    ("create", "controller.linked"),
    ("create", "metadata.row_half"),
    ("create", "metadata.row_written"),
    ("create", "metadata.row_committed"),
    ("create", "metadata.journal_written"),
    ("create", "metadata.generation_raised"),
    ("create", "controller.answer_ready"),
    ("delete", "controller.committed"),
    ("delete", "metadata.row_committed"),
    ("delete", "controller.topic_hidden"),
    ("delete", "controller.partition_hidden"),
    ("delete", "controller.directory_renamed:2"),
    ("delete", "controller.deletion_finished"),
    ("extend", "controller.prepared"),
    ("extend", "controller.linked"),
]


@pytest.fixture
def controller(tmp_path):
    process = ControllerProcess(tmp_path)
    process.start()
    yield process
    process.close()


def arm(controller: ControllerProcess, points: str) -> None:
    controller.core.arm(points)


def prepared(controller: ControllerProcess) -> None:
    assert controller.run(CreateTopics([NewTopic("stays", 2), NewTopic("gone", 2)]), 1) == {"stays": 0, "gone": 0}


def live_directories(controller: ControllerProcess) -> list[str]:
    names = [entry.name for entry in os.scandir(controller.data_dir) if entry.is_dir()]
    return sorted(name for name in names if not name.endswith("-delete"))


def check(controller: ControllerProcess, topics: dict[str, int]) -> None:
    assert controller.topics() == topics
    wanted = [f"{topic}-{number}" for topic, count in topics.items() for number in range(count)]
    assert live_directories(controller) == sorted(wanted)


@pytest.mark.parametrize(("command", "point"), POINTS)
def test_killed_at(controller, command, point):
    prepared(controller)
    stays = controller.cache.topic("stays")
    asked, after = COMMANDS[command]
    arm(controller, point)
    controller.send(asked, 5)
    assert controller.died() == signal.SIGKILL
    for name, count in controller.topics().items():
        assert count in (BEFORE.get(name), after.get(name))
    controller.start(wait=False)
    assert {result.error_code for result in controller.answer().results} == {0}
    check(controller, after)
    assert controller.cache.topic("stays").partitions[:2] == stays.partitions
    assert set(controller.run(asked, 5).values()) == {0}  # the same request once more
    check(controller, after)
    assert controller.stop() == 0


def test_killed_while_it_recovers(controller):
    prepared(controller)
    arm(controller, "controller.committed,controller.topic_recovered,metadata.journal_written:2")
    asked, after = COMMANDS["delete"]
    controller.send(asked, 5)
    for _ in range(3):  # one death at each point
        assert controller.died() == signal.SIGKILL
        controller.start(wait=False)
    assert {result.error_code for result in controller.answer().results} == {0}
    check(controller, after)


def test_a_new_start_of_the_broker_finds_everything(controller):
    prepared(controller)
    controller.run(DeleteTopics(["gone"]), 2)
    controller.send(AllocateProducerIds(), 3)
    first = controller.answer()
    assert (first.first_id, first.count) == (0, 1000)
    assert controller.stop() == 0
    controller.boot(small_plan())
    controller.start()
    check(controller, {"stays": 2})
    controller.send(AllocateProducerIds(), 3)
    assert controller.answer().first_id == 1000
    assert rows_high(controller.core) == (1, 2)
