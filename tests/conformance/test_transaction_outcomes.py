"""Scripts of transactions end on this broker as they ended on Apache Kafka 4.3.1; see tests/conformance/
transaction_scripts. How Kafka's outcomes are recorded says `transaction_differential`. Where this broker does otherwise
on purpose stands in DIFFERENT."""

import pytest

from tests.conformance.transaction_differential import all_played, differences
from tests.conformance.transaction_scripts import SCRIPTS
from tests.conformance.transaction_scripts.stage import SETTINGS, read_outcomes
from tests.harness.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: Title → how the outcomes differ. Kafka answers "a duplicate", appends nothing, and the commit loses records (ADR 24).
DIFFERENT = {
    "a sequence of an ended transaction comes again in the next one v3": [
        "23 steps, Kafka 23",
        "[8][1]: ours 45 · Kafka 0",
        "[8][2]: ours -1 · Kafka 0",
        "[18][1]: ours 45 · Kafka 0",
        "[18][2]: ours -1 · Kafka 4",
    ]
}


def test_every_outcome_is_kafkas(tmp_path):
    recorded = read_outcomes()
    kafkas = [recorded[script.name, script.version] for script in SCRIPTS]
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        wrong = differences(SCRIPTS, all_played(SCRIPTS, broker.port()), kafkas)
    assert wrong == DIFFERENT, "\n".join(f"{title}: {lines}" for title, lines in wrong.items())
