"""Finalized levels of features: kept in one word, changed by Kafka's rules (its answers are in the corpus)."""

import pytest

from mpbroker.metadata.features import FeatureLevels, finalized, finalized_level, publish, refusal
from tests.harness.small_core import small_core


def test_what_is_published_is_read_and_before_that_what_a_new_cluster_has():
    core = small_core().core
    assert finalized(core) == FeatureLevels(0, 21, 0, 2, 1)
    publish(core, FeatureLevels(7, 18, 1, 0, 1))
    assert finalized(core) == FeatureLevels(7, 18, 1, 0, 1)
    assert finalized_level(core, "metadata.version") == 18 and finalized_level(core, "transaction.version") == 0
    core.features = 2**64 - 1
    assert finalized(core) == FeatureLevels(2**32 - 1, 255, 255, 255, 255)


@pytest.mark.parametrize(
    ("level", "kind", "part"),
    [
        (18, 1, "without setting the upgrade type"),
        (18, 2, None),
        (17, 3, None),
        (16, 2, "might delete metadata"),
        (16, 3, "Unsafe metadata downgrade"),
        (3, 2, "less than 3.3-IV0"),
        (3, 3, "Invalid metadata.version 3. Unable to set"),
        (4, 2, "Invalid metadata.version 4. Refusing to perform the requested downgrade"),
        (4, 3, "Invalid metadata.version 4. Unsafe metadata downgrade"),
        (17, 2, None),
        (0, 2, "only supports versions 1-21"),
        (-1, 2, "A feature version cannot be less than 0."),
        (20, 1, None),
        (20, 2, None),
        (20, 0, "given upgrade type"),
        (20, 4, "given upgrade type"),
        (21, 1, None),
        (21, 2, "to a newer version"),
        (22, 1, "only supports versions 1-21"),
        (20, 9, "given upgrade type"),
    ],
)
def test_metadata_versions_from_20(level, kind, part):
    sentence = refusal("metadata.version", level, kind, FeatureLevels(1, 20), 3)
    assert (sentence is None) if part is None else part in sentence


@pytest.mark.parametrize(
    ("present", "level", "kind", "part"),
    [
        (16, 16, 1, None),
        (16, 16, 2, None),
        (16, 17, 1, None),
        (16, 15, 2, "might delete"),
        (4, 4, 3, None),
        (4, 5, 1, None),
    ],
)
def test_what_is_in_force_may_stay_however_old_it_is(present, level, kind, part):
    sentence = refusal("metadata.version", level, kind, FeatureLevels(1, present), 3)
    assert (sentence is None) if part is None else part in sentence


@pytest.mark.parametrize(
    ("name", "level", "kind", "sentence"),
    [
        ("no.such", 1, 1, "Local controller 3 does not support this feature."),
        ("no.such", 0, 2, None),
        ("no.such", 0, 1, None),
        ("kraft.version", 1, 1, None),
        ("kraft.version", 2, 1, "Local controller 3 only supports versions 0-1"),
        ("transaction.version", 2, 1, None),
        ("transaction.version", 3, 1, "Local controller 3 only supports versions 0-2"),
        ("group.version", 1, 1, None),
        ("group.version", 2, 1, "Local controller 3 only supports versions 0-1"),
        ("group.version", 0, 2, None),
    ],
)
def test_what_this_program_could_run(name, level, kind, sentence):
    why = None if sentence is None else f"Invalid update version {level} for feature {name}. {sentence}"
    assert refusal(name, level, kind, FeatureLevels(), 3) == why


def test_levels_by_their_features_names():
    levels = FeatureLevels(5, 21, 1, 2, 1)
    names = ("metadata.version", "kraft.version", "transaction.version", "group.version", "no.such")
    assert [levels.of(name) for name in names] == [21, 1, 2, 1, 0]
    changed = [levels.with_level(name, 0) for name in names]
    assert [one[:] for one in changed] == [
        (5, 0, 1, 2, 1),
        (5, 21, 0, 2, 1),
        (5, 21, 1, 0, 1),
        (5, 21, 1, 2, 0),
        (5, 21, 1, 2, 1),
    ]
