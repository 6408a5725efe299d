"""Spark's types of our columns, and what a schema may ask for."""

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from mpbroker.analysis.engine.input.columns import COMPACT, FRAME
from mpbroker.analysis.spark.arrow_types import EVENT, REQUEST_COLUMNS, ColumnError, arrow_of, narrow, struct_of


def test_every_column_has_a_type_in_spark():
    for schema in (FRAME, COMPACT, EVENT):
        assert arrow_of(struct_of(schema), REQUEST_COLUMNS if schema is not EVENT else EVENT).equals(schema)
    assert {*FRAME.names, *COMPACT.names} == {*REQUEST_COLUMNS.names}


def test_a_schema_of_some_columns():
    wanted = StructType(
        [StructField("ts", TimestampType()), StructField("total_ns", LongType()), StructField("run", StringType())]
    )
    found = arrow_of(wanted, REQUEST_COLUMNS)
    assert found.names == ["ts", "total_ns", "run"] and found.field("ts").type == pa.timestamp("us", "UTC")
    assert all(field.nullable for field in found), "a schema written by hand says so, and the batches must agree"
    assert narrow(["run"]).fields[0].nullable is False


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (StructField("latency", LongType()), "no column latency; there are: run, broker, "),
        (StructField("total_ns", IntegerType()), "total_ns has the type bigint, not int"),
        (StructField("total_ns", LongType(), nullable=False), "column total_ns may be null"),
    ],
)
def test_what_a_trace_cannot_give(field, sentence):
    with pytest.raises(ColumnError, match=sentence):
        arrow_of(StructType([field]), REQUEST_COLUMNS)
