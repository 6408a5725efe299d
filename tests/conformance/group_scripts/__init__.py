"""Scripts of groups, played to Apache Kafka once and to this broker ever since."""

from tests.conformance.group_scripts import answering, consuming, joining, migrating  # noqa: F401  (they register their scripts)
from tests.conformance.group_scripts.stage import SCRIPTS

__all__ = ["SCRIPTS"]
