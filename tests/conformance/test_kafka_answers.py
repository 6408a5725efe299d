"""What Apache Kafka 3.9.2 answered to every case of the corpus, this broker answers too; for versions of APIs that 3.9
lacks, what 4.3.1 answered. The answers are on record (`python -m tests.conformance.differential --record` wrote them
down), so this needs no Kafka."""

import json

import pytest

from tests.conformance.corpus import CASES
from tests.conformance.corpus.case import run_case
from tests.conformance.recorded_answers import FILES, read
from tests.harness.broker import Broker

LIKE_THE_KAFKA_THAT_WAS_ASKED = {"num.partitions": 1, "broker.rack": "RACK1", "min.insync.replicas": 1, "node.id": 0}

RUN = "answers"  # as long as the names in the recorded run, for cases about the length of names


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("answers"), overrides=LIKE_THE_KAFKA_THAT_WAS_ASKED) as running:
        yield running


@pytest.fixture(scope="module")
def answers():
    return {release: read(path) for release, path in FILES.items()}


def test_every_case_is_on_record_and_every_record_is_of_a_case(answers):
    for release, recorded in answers.items():
        assert {(case.name, case.version) for case in CASES if case.kafka == release} == set(recorded)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_kafkas_answer_is_ours(broker, answers, case):
    ours = json.loads(json.dumps(run_case(case, "127.0.0.1", broker.port(), RUN)))
    expected = answers[case.kafka][case.name, case.version]
    assert len(ours) == len(expected)
    for number, (mine, kafkas) in enumerate(zip(ours, expected, strict=True)):
        assert mine == kafkas, f"answer {number}"
