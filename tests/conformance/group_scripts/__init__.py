"""Scripts of groups, played to Apache Kafka once and to this broker ever since."""

from tests.conformance.group_scripts import answering, consuming, joining, migrating  # noqa: F401  (they register their scripts)
from tests.conformance.group_scripts.stage import NEXT, PREVIEW, SCRIPTS

#: Those of the next-generation protocol as Kafka 3.9 could play them: version 0, which knows no patterns.
PREVIEWS = [
    one._replace(release=PREVIEW, version=0 if one.name.startswith("consumers") else one.version)
    for one in SCRIPTS
    if one.release == NEXT and one.name != "consumers: patterns" and one.version
]

__all__ = ["PREVIEWS", "SCRIPTS"]
