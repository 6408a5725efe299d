"""Catalogs of Spark that keep rollup tables (Iceberg): how a table is named, and a session that knows its catalog.

Runs in a command's process as Spark's driver. A catalog's settings are Spark's own, `--conf spark.sql.catalog.NAME.…`;
the class and, for a session that this process starts, the jar are filled in where nobody names them.
"""

import re

from mpbroker.analysis.engine.engines.cluster import Cluster
from mpbroker.analysis.engine.input.places import TABLE
from mpbroker.analysis.engine.rollups.layout import RollupError
from mpbroker.analysis.spark.failures import reported
from mpbroker.analysis.spark.session import OpenSession, SparkError, open_session, starts_jvm

#: By the Spark it is made for, and no other: Iceberg implements interfaces of Spark that change between versions.
ICEBERG_JARS = {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"}
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
PACKAGES = "spark.jars.packages"
_NAMING_JARS = {PACKAGES, "spark.jars", "spark.driver.extraClassPath"}


def name_of(place: str) -> tuple[str, ...]:
    """Catalog, namespaces and table of `table:CATALOG.NAMESPACE.TABLE`; RollupError."""
    parts = tuple(place.removeprefix(TABLE).split("."))
    if len(parts) < 3 or not all(re.fullmatch(r"\w[\w-]*", part) for part in parts):
        raise RollupError(f"{place} names no table: write {TABLE}CATALOG.NAMESPACE.TABLE, in letters, digits, _ and -")
    return parts


def iceberg_jar(spark_version: str) -> str:
    """Where Maven has it; SparkError when there is none for this Spark."""
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in ICEBERG_JARS:
        known = ", ".join(ICEBERG_JARS)
        raise SparkError(
            f"no Iceberg jar is known for Spark {minor}, only for {known}: pip install 'pyspark=={known}.*', or name "
            f"one with --conf {PACKAGES}=GROUP:ARTIFACT:VERSION"
        )
    return ICEBERG_JARS[minor]


def open_catalog(place: str, cluster: Cluster) -> OpenSession:
    """A session that knows the catalog of a table."""
    catalog, given = f"spark.sql.catalog.{name_of(place)[0]}", dict(cluster.settings)
    if starts_jvm(cluster.remote) and not _NAMING_JARS & given.keys():
        import pyspark

        given[PACKAGES] = iceberg_jar(pyspark.__version__)
    opened = open_session(**cluster._replace(settings=given)._asdict())
    try:
        with reported():
            if not opened.spark.conf.get(catalog, ""):
                opened.spark.conf.set(catalog, ICEBERG_CATALOG)
    except BaseException:
        opened.close()
        raise
    return opened
