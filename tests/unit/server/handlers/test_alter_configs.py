"""AlterConfigs: it replaces all settings of a topic, and knows no loggers."""

from mpbroker.metadata.commands import AlterConfigs, ConfigChange, ConfigChanges, TopicResult, TopicResults
from mpbroker.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController

TOPIC, LOGGER = 2, 8


def test_it_replaces_and_knows_no_loggers(tmp_path):
    broker = InProcessBroker(tmp_path)
    controller = InProcessController(broker)
    settings = [AlterableConfig(name="retention.ms", value="5")]
    message = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=settings),
            AlterConfigsResource(resource_type=LOGGER, resource_name="0", configs=[]),
        ]
    )
    broker.send(message, 2)
    broker.step()
    sent = [ConfigChanges(TOPIC, "a", [ConfigChange("retention.ms", 0, "5")])]
    assert controller.serve(TopicResults([TopicResult("a")])) == [AlterConfigs(sent, replace=True)]
    [(_, _, frame)] = broker.collect()
    results = broker.decode(message, 2, frame).responses
    assert [(one.resource_name, one.error_code, one.error_message) for one in results] == [
        ("a", 0, None),
        ("0", 42, "Unknown resource type 8"),
    ]
