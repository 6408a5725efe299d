"""The assignor `uniform` in cases whose targets are known: who gives what to whom, and in which order."""

import pytest

from mpbroker.coordinator.consumer_groups.uniform_assignor import _balance, assign


def topics(letters):
    return frozenset(letter.encode() * 16 for letter in letters)


def target(text):
    """Of `A013 B2`: partitions 0, 1 and 3 of topic A, partition 2 of topic B."""
    return {letter.encode() * 16: frozenset(map(int, numbers)) for letter, *numbers in text.split()}


@pytest.mark.parametrize(
    ("sizes", "readers", "present", "expected"),
    [
        (
            "A4 B5 C1",
            {"a": "ABC", "b": "AC", "c": "BC", "d": "C"},
            {"a": "B0124 C0", "b": "C", "c": "A13 B01 C0", "d": "B234"},
            {"a": "B01 A3", "b": "A012", "c": "B234", "d": "C0"},
        ),
        (
            "A5 B3",
            {"a": "AB", "b": "AB", "c": "AB", "d": "AB"},
            {"a": "", "b": "A0134", "c": "A0134 B", "d": ""},
            {"a": "A2 B0", "b": "A01", "c": "B12", "d": "A34"},
        ),
        (
            "A1 B3 C1",
            {"a": "ABC", "b": "ABC", "c": "B", "d": "ABC"},
            {"a": "A C0", "b": "C", "c": "B01 C", "d": "C0"},
            {"a": "C0", "b": "B2", "c": "B01", "d": "A0"},
        ),
        (
            "A3 B4",
            {"a": "A", "b": "A", "c": "AB"},
            {"a": "A0", "b": "", "c": "A2"},
            {"a": "A02", "b": "A1", "c": "B0123"},
        ),
        (
            "A1 B1",
            {"a": "AB", "b": "AB", "c": "AB", "d": "AB"},
            {"a": "B0", "b": "", "c": "A0", "d": "A0 B0"},
            {"a": "B0", "b": "", "c": "A0", "d": ""},
        ),
        (
            "A4 B3 C5",
            {"a": "BC", "b": "C"},
            {"a": "C12", "b": "B012 C1"},
            {"a": "C1 B012", "b": "C0234"},
        ),
    ],
)
def test_one_question_has_one_answer(sizes, readers, present, expected):
    sizes = {letter.encode() * 16: int(number) for letter, number in sizes.split()}
    subscriptions = {member: topics(letters) for member, letters in readers.items()}
    found = assign(subscriptions, sizes, {member: target(text) for member, text in present.items()})
    assert found == {member: target(text) for member, text in expected.items()}


@pytest.mark.parametrize(
    ("owned", "loads", "moved", "expected"),
    [
        ({"a": [0, 1, 2, 3]}, [6, 0, 1], True, ({"a": [0], "b": [3, 2], "c": [1]}, [3, 2, 2])),
        ({"a": [0], "b": [1]}, [1, 1, 0], False, ({"a": [0], "b": [1]}, [1, 1, 0])),
        ({"a": [0], "b": [1]}, [2, 1, 0], True, ({"a": [], "b": [1], "c": [0]}, [1, 1, 1])),
        ({"b": [0, 1], "c": [2]}, [0, 4, 3], True, ({"b": [], "c": [2], "a": [1, 0]}, [2, 2, 3])),
        ({"a": [], "c": [5]}, [9, 0, 9], True, ({"a": [], "c": [], "b": [5]}, [9, 1, 8])),
        ({}, [3, 0, 0], False, ({}, [3, 0, 0])),
    ],
)
def test_partitions_go_from_who_has_most_to_who_has_fewest(owned, loads, moved, expected):
    """Until nobody has two more than another reader of the topic."""
    loads = dict(zip("abc", loads, strict=True))
    assert _balance(owned, list("abc"), loads) is moved
    assert (owned, list(loads.values())) == expected
