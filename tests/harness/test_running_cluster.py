"""Who asks where partitions end asks again while leaders move, and hears of anything else."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.running_cluster import ends_of


class Client:
    """Answers partition by partition: an end, or an error's code."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def get_watermark_offsets(self, partition, timeout):
        kind, value = self.answers.pop(0)
        if kind == "error":
            raise KafkaException(KafkaError(value))
        return 0, 10 * partition.partition + value


def test_it_asks_again_while_leaders_move():
    moving = [("error", KafkaError.NOT_LEADER_FOR_PARTITION), ("error", KafkaError.OFFSET_NOT_AVAILABLE)]
    client = Client(("end", 3), *moving, ("end", 4))
    assert ends_of(client, "t", 2) == [3, 14] and client.answers == []


def test_it_hands_on_any_other_error():
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        ends_of(Client(("error", KafkaError.UNKNOWN_TOPIC_OR_PART), ("end", 1)), "t", 1)
