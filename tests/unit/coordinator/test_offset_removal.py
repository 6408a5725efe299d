"""What a transaction was about to commit is forgotten with its partition, and a transaction with its last offset."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.offset_removal import drop_transactional

A, B, C = ("t", 0), ("t", 1), ("u", 0)


@pytest.mark.parametrize(
    "name, was_there, left",
    [
        (A, True, {8: {B: 3}, 9: {C: 4}}),
        (B, True, {7: {A: 1}, 8: {A: 2}, 9: {C: 4}}),
        (C, True, {7: {A: 1}, 8: {A: 2, B: 3}}),
        (("u", 1), False, {7: {A: 1}, 8: {A: 2, B: 3}, 9: {C: 4}}),
    ],
)
def test_a_partition_goes_from_every_transaction(name, was_there, left):
    group = SimpleNamespace(transactional={7: {A: 1}, 8: {A: 2, B: 3}, 9: {C: 4}})
    assert drop_transactional(group, name) is was_there and group.transactional == left
