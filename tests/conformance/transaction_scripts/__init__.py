"""Scripts of transactions, played to Apache Kafka 4.3.1 and to this broker. Importing this registers all of them."""

from tests.conformance.transaction_scripts import ending, offsets, second_version, starting  # noqa: F401
from tests.conformance.transaction_scripts.stage import SCRIPTS as SCRIPTS
