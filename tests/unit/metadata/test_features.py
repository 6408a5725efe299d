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
        (21, 1, None),
        (21, 2, "to a newer version"),
        (22, 1, "only supports versions 1-21"),
        (20, 9, "given upgrade type"),
    ],
)
def test_metadata_versions_from_20(level, kind, part):
    sentence = refusal("metadata.version", level, kind, FeatureLevels(1, 20), 3)
    assert (sentence is None) if part is None else part in sentence
