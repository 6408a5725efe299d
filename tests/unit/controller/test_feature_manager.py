"""UpdateFeatures in the controller: stored with its answer, shown behind that, whoever dies in between."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import FeatureUpdate, TopicResult, UpdateFeatures
from mpbroker.metadata.features import FeatureLevels, finalized
from tests.harness.controller_world import Killed, World

DOWN = UpdateFeatures([FeatureUpdate("metadata.version", 20, 2)])


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def levels(world):
    return finalized(world.core)


def test_levels_are_stored_and_shown_and_a_refused_one_stops_no_other(world):
    both = UpdateFeatures([FeatureUpdate("kraft.version", 1, 1), FeatureUpdate("group.version", 2, 1)])
    refused, done = world.run(both).results
    assert refused == TopicResult(
        "group.version",
        ErrorCode.INVALID_UPDATE_VERSION,
        "Invalid update version 2 for feature group.version. Local controller 0 only supports versions 0-1",
    )
    assert done == TopicResult("kraft.version") and levels(world) == FeatureLevels(1, 21, 1)
    world.run(DOWN)
    assert levels(world) == FeatureLevels(2, 20, 1)
    world.boot()
    assert levels(world) == FeatureLevels(2, 20, 1)


def test_a_check_changes_nothing(world):
    world.run(UpdateFeatures(DOWN.updates, validate_only=True))
    assert levels(world) == FeatureLevels()


@pytest.mark.parametrize("point", ["controller.prepared", "controller.committed", "controller.shown"])
def test_a_controller_that_dies_leaves_all_or_nothing_of_it(world, point):
    world.armed = (point, world.passed[point] + 1)
    with pytest.raises(Killed):
        world.run(DOWN, operation=5)
    world.successor()
    assert levels(world) == (FeatureLevels() if point == "controller.prepared" else FeatureLevels(1, 20))
    assert world.run(DOWN, operation=5).results == [TopicResult("metadata.version")]
    assert levels(world) == FeatureLevels(1, 20)
