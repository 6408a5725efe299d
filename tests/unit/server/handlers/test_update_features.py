"""UpdateFeatures: the command that the controller gets, and its results as the answer."""

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import Failed, FeatureUpdate, TopicResult, TopicResults, UpdateFeatures
from mpbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
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
    assert answer.error_code == 0
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
