"""The topics that a controller knows, by name, by id and by the name of their metrics."""

import pytest

from mpbroker.controller.controller_context import NO_ROW, ControllerContext, TopicState


def topic(name, number):
    return TopicState(bytes([number] * 16), name, [[0]], {}, 1)


@pytest.fixture
def both():
    """Two names whose metrics cannot be told apart, as an old store may have."""
    return topic("a.b", 1), topic("a_b", 2)


def test_a_topic_is_known_by_its_name_and_its_id_until_it_is_removed(both):
    context = ControllerContext([both[0]])
    context.add(both[1])
    assert list(context.by_name) == ["a.b", "a_b"] and list(context.by_id.values()) == list(both)
    context.remove(both[0])
    assert list(context.by_name) == ["a_b"] and list(context.by_id) == [both[1].id]


def test_names_collide_whose_dots_and_underscores_are_the_same(both):
    context = ControllerContext(both)
    assert [context.colliding(name) for name in ("a.b", "a_b", "ab", "a.b.c")] == ["a_b", "a.b", None, None]
    assert ControllerContext([topic("x_y_z", 1), topic("x.y.z", 2)]).colliding("x.y_z") == "x.y.z", "the first by name"


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_left_of_two_still_collides_and_then_nothing_does(both, first):
    context = ControllerContext(both)
    context.remove(both[first])
    assert context.colliding(both[first].name) == both[1 - first].name
    assert context.colliding(both[1 - first].name) is None, "with itself"
    context.remove(both[1 - first])
    assert [context.colliding(name) for name in ("a.b", "a_b")] == [None, None]
    context.add(both[0])
    assert context.colliding("a_b") == "a.b"


def test_a_topic_that_nobody_shows_yet_has_no_row():
    """The same number as a start gives to a deletion whose topic nobody shows."""
    assert topic("t", 1).row == NO_ROW == -1
