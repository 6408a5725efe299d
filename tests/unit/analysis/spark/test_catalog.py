"""Tables of a catalog, as far as no JVM is needed: their names, columns and partitions, and which jar fits."""

import pytest

from mpbroker.analysis.engine.engines.choose_engine import open_engine
from mpbroker.analysis.engine.engines.engine import EngineError
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.places import ElsewhereError, is_remote, local_path
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.layout import HOUR_NS, RollupError
from mpbroker.analysis.spark.catalog import iceberg_jar, name_of
from mpbroker.analysis.spark.catalog_table import conditions, table_columns
from mpbroker.analysis.spark.session import SparkError
from mpbroker.cli.main import main


def test_a_table_is_named_with_its_catalog():
    assert name_of("table:lake.fleet.rollups") == ("lake", "fleet", "rollups")
    assert name_of("table:lake.a.b-2.rollups") == ("lake", "a", "b-2", "rollups")
    for wrong in (
        "table:rollups",
        "table:fleet.rollups",
        "table:lake..rollups",
        "table:lake.fleet.a`b",
        "table:a.b.c d",
    ):
        with pytest.raises(RollupError, match=r"write table:CATALOG\.NAMESPACE\.TABLE"):
            name_of(wrong)


def test_a_table_is_read_by_spark_alone():
    assert is_remote("table:lake.fleet.rollups") and not is_remote("tables/lake")
    with pytest.raises(ElsewhereError, match="here files of this machine are read"):
        local_path("table:lake.fleet.rollups")
    with pytest.raises(EngineError, match="leave out --engine local"):
        open_engine("local", ["table:lake.fleet.rollups"], {})
    with pytest.raises(EngineError, match="a rollup table is studied alone"):
        open_engine("spark", ["table:lake.fleet.rollups", "traces"], {})


def test_the_jar_is_that_of_the_spark_there_is():
    assert iceberg_jar("4.1.4").startswith("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:")
    with pytest.raises(SparkError, match=r"no Iceberg jar is known for Spark 4\.10, only for 4\.1: pip install"):
        iceberg_jar("4.10.0")


def test_one_table_has_the_columns_of_every_dataset():
    found = table_columns()
    assert list(found)[:4] == ["dataset", "dt", "hour", "node"]
    schemas = [layout.schema_of(ask) for ask in layout.datasets(layout.WINDOW_MS).values()]
    assert found.keys() >= {name for schema in (*schemas, layout.SEGMENT_ROW) for name in schema.names}


def test_partitions_are_chosen_as_files_of_a_folder_are():
    """By hours and brokers, read by another program's SQL, against layout.may_hold."""
    duckdb = pytest.importorskip("duckdb")
    begin = 20_000 * 24
    partitions = [layout.Partition(begin + hour, node) for hour in range(-30, 30) for node in (1, 2, 3)]
    values = ", ".join(
        f"('counts', DATE'1970-01-01' + {one.hour // 24}, {one.hour % 24}, {one.node}), "
        f"('stages', DATE'1970-01-01' + {one.hour // 24}, {one.hour % 24}, {one.node})"
        for one in partitions
    )
    times = [None, begin * HOUR_NS, (begin - 5) * HOUR_NS + 1, (begin + 20) * HOUR_NS - 1, (begin + 2) * HOUR_NS]
    for from_ns in times:
        for to_ns in times:
            for brokers in (None, (2,), (1, 3), ()):
                rows = RowFilter(from_ns, to_ns, None, brokers)
                where = " AND ".join(conditions("counts", rows, "p."))
                query = f"SELECT dt, hour, node FROM (VALUES {values}) AS p(dataset, dt, hour, node) WHERE {where}"
                found = sorted(f"dt={dt}/hour={hour:02}/node={node}" for dt, hour, node in duckdb.sql(query).fetchall())
                wanted = sorted(one.folder() for one in partitions if layout.may_hold(one.folder(), rows))
                assert found == wanted, rows


def test_a_setting_without_a_value_is_refused(tmp_path, capsys):
    for words in (["study", "latency", "--in", str(tmp_path)], ["rollup", str(tmp_path), "table:lake.fleet.rollups"]):
        assert main(["trace", *words, "--conf", "spark.jars"]) == 2
        assert "write --conf NAME=VALUE" in capsys.readouterr().err
    assert main(["trace", "study", "latency", "--engine", "local", "--in", str(tmp_path), "--conf", "a=b"]) == 2
    assert "leave out --engine local" in capsys.readouterr().err
