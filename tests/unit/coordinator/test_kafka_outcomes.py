"""Scripts of groups end as they ended with Apache Kafka 3.9.2 (tests/conformance/group_scripts): every row of its
tables of states and answers, played to the logic alone in a time of its own."""

import pytest

from tests.conformance.differential import _paths
from tests.conformance.group_differential import alone
from tests.conformance.group_scripts import SCRIPTS
from tests.conformance.group_scripts.recorded import read

OUTCOMES = read()


def test_every_script_is_on_record_and_every_record_is_of_a_script():
    assert {(script.name, script.version) for script in SCRIPTS} == set(OUTCOMES)
    assert len(SCRIPTS) > 100


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.title)
def test_the_outcome_is_kafkas(script):
    ours, kafkas = alone(script), OUTCOMES[script.name, script.version]
    assert not list(_paths(ours, kafkas))
    assert ours == kafkas
