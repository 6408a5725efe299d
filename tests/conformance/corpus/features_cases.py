"""UpdateFeatures 0 and 1: changes that a node of Kafka 3.9 refuses, and those that change nothing. ListConfigResources 0."""

from __future__ import annotations

from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from mpbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.conformance.corpus.case import Exchange, case

UP, DOWN, DOWN_WITH_LOSS = 1, 2, 3
OF_3_9 = ("metadata.version", "kraft.version")  # those of Kafka 4 have tests of their own
NAMES = (*OF_3_9, "nonsense", "")
CHECKED_ONLY = (1,)  # version 0 cannot ask what would be


def updating(*updates: tuple[str, int, int], only: bool = False) -> UpdateFeaturesRequest:
    """(feature, level, kind of change) of each; `only`: just check."""
    return UpdateFeaturesRequest(timeout_ms=5000, validate_only=only, feature_updates=[
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind > UP, upgrade_type=kind)
        for name, level, kind in updates])


def _finalized(x: Exchange) -> None:
    x.settle()
    answer = x.quietly(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    x.outcomes.append(sorted([each.name, each.min_version_level, each.max_version_level]
                             for each in answer.finalized_features if each.name in OF_3_9))


@case("features: levels they may have", CHECKED_ONLY)
def levels(x: Exchange, version: int) -> None:
    for name in NAMES:
        for level in (-1, 0, 1, 3, 4, 16, 17, 20, 21, 22, 32767):
            for kind in (UP, DOWN, DOWN_WITH_LOSS):
                x.ask(updating((name, level, kind), only=True), version)
    _finalized(x)


@case("features: kinds of change", CHECKED_ONLY)
def kinds(x: Exchange, version: int) -> None:
    for kind in (0, 4, -1, 127):
        for name, level in (("metadata.version", 21), ("nonsense", 1)):
            x.ask(updating((name, level, kind), only=True), version)


@case("features: several at once", (0, 1))
def several(x: Exchange, version: int) -> None:
    for only in (False, True)[:1 + version]:
        for updates in ([], [("nonsense", 1, UP), ("metadata.version", 21, UP)], [("a", 1, UP), ("b", 1, UP)],
                        [("metadata.version", 21, UP), ("metadata.version", 21, UP)], [("nonsense", 1, UP)] * 2):
            x.ask(updating(*updates, only=only), version)
    _finalized(x)


@case("features: what they are already", (0, 1))
def the_same(x: Exchange, version: int) -> None:
    for name, level, kind in (("metadata.version", 21, UP), ("metadata.version", 21, DOWN), ("kraft.version", 0, UP)):
        x.ask(updating((name, level, kind)), version)
    _finalized(x)


@case("client metrics: no subscriptions", (0,))
def subscriptions(x: Exchange, version: int) -> None:
    x.ask(ListConfigResourcesRequest(), version)
