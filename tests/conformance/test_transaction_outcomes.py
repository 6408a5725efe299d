"""Scripts of transactions end on this broker as they ended on Apache Kafka 4.3.1; see tests/conformance/
transaction_scripts. How Kafka's outcomes are recorded says `transaction_differential`."""

import pytest

from tests.conformance.transaction_differential import all_played, differences
from tests.conformance.transaction_scripts import SCRIPTS
from tests.conformance.transaction_scripts.stage import SETTINGS, read_outcomes
from tests.harness.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_every_outcome_is_kafkas(tmp_path):
    recorded = read_outcomes()
    kafkas = [recorded[script.name, script.version] for script in SCRIPTS]
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        wrong = differences(SCRIPTS, all_played(SCRIPTS, broker.port()), kafkas)
    assert not wrong, "\n".join(f"{title}: {lines}" for title, lines in wrong.items())
