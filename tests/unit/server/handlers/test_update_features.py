"""UpdateFeatures: the command that the controller gets, and its results as the answer."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    CommandTooLarge,
    Failed,
    FeatureUpdate,
    ProducerIds,
    TopicResult,
    TopicResults,
    UpdateFeatures,
)
from mpbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from mpbroker.server.apis import PARKED
from mpbroker.server.handlers import update_features
from mpbroker.server.waiting_for_locks import LEAST_PATIENCE_MS
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


def answered(tmp_path, answer, version=1):
    broker = InProcessBroker(tmp_path)
    controller = InProcessController(broker)
    message = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey("kraft.version", 1), FeatureUpdateKey("x", 2, upgrade_type=3)],
        validate_only=version > 0,
    )
    broker.send(message, version)
    broker.step()
    commands = controller.serve(answer)
    [(_, _, frame)] = broker.collect()
    return commands, broker.decode(message, version, frame)


def test_the_controller_is_asked_and_each_feature_has_its_result(tmp_path):
    results = TopicResults([TopicResult("kraft.version"), TopicResult("x", 95, "no")])
    commands, answer = answered(tmp_path, results)
    updates = [FeatureUpdate("kraft.version", 1, 1), FeatureUpdate("x", 2, 3)]
    assert commands == [UpdateFeatures(updates, validate_only=True)]
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [(each.feature, each.error_code, each.error_message) for each in answer.results] == [
        ("kraft.version", 0, None),
        ("x", 95, "no"),
    ]


def test_version_0_asks_for_upgrades(tmp_path):
    commands, _ = answered(tmp_path, TopicResults([]), version=0)
    assert commands == [UpdateFeatures([FeatureUpdate("kraft.version", 1, 1), FeatureUpdate("x", 2, 1)])]


def test_a_controller_that_failed_fails_all_of_it(tmp_path):
    _, answer = answered(tmp_path, Failed(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and answer.results == []


@pytest.mark.parametrize(
    ("timeout_ms", "waits_ms"), [(0, LEAST_PATIENCE_MS), (LEAST_PATIENCE_MS + 1, LEAST_PATIENCE_MS + 1)]
)
@pytest.mark.parametrize("takes", [True, False])
def test_this_brokers_own_controller_is_given_a_second_at_least(monkeypatch, timeout_ms, waits_ms, takes):
    """In a cluster, too: it judges for the others."""
    asked = []
    monkeypatch.setattr(
        update_features, "park_for_controller", lambda *words, local: asked.append((*words[3:], local)) or takes
    )
    outcome = update_features.handle("context", "request", UpdateFeaturesRequest(timeout_ms=timeout_ms))
    [(until_ms, build, local)] = asked
    assert (until_ms, local) == (waits_ms, True)
    late = [build([None]), build([ProducerIds()]), *([] if takes else [outcome])]
    assert {one.error_code for one in late} == {ErrorCode.REQUEST_TIMED_OUT} and (outcome is PARKED) is takes


def test_more_features_than_a_command_holds_are_refused(monkeypatch):
    def too_large(command):
        raise CommandTooLarge("too many")

    monkeypatch.setattr(update_features, "encode_command", too_large)
    answer = update_features.handle("context", "request", UpdateFeaturesRequest())
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "too many")
