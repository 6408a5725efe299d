"""The columns a trace has in Spark: requests as frames and compacted files name them, and events. Pure (pyspark,
pyarrow).

Spark has no unsigned types, and checks the Arrow schema of a source's first batch only, to the last bit: so the schema
asked for is translated here, once, and every batch is built by it.
"""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mpbroker.analysis.engine.input.columns import COMPACT, FRAME, TIMESTAMP
from mpbroker.errors import MpbrokerError

SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    TIMESTAMP: TimestampType(),
    pa.binary(): BinaryType(),
}
#: Records of other kinds than request: what they have in common, and the record itself.
EVENT = pa.schema(
    [
        *(FRAME.field(name) for name in ("run", "broker", "ts", "epoch_ns", "t0_ns", "ring")),
        pa.field("kind", pa.string(), nullable=False),
        *(FRAME.field(name) for name in ("conn_id", "listener", "processor", "error", "aux", "corr_id")),
        pa.field("record", pa.binary(), nullable=False),
    ]
)
#: Everything `mpbtrace` can give of a request.
REQUEST_COLUMNS = pa.schema([*FRAME, *(field for field in COMPACT if field.name not in FRAME.names)])


class ColumnError(MpbrokerError):
    """A schema asks for a column that traces do not have, or by another type."""

    exit_code = 2


def struct_of(schema: Iterable[pa.Field]) -> StructType:
    """The Spark schema of an Arrow schema of ours."""
    return StructType([StructField(field.name, SPARK_TYPES[field.type], field.nullable) for field in schema])


def arrow_of(wanted: StructType, known: pa.Schema) -> pa.Schema:
    """The Arrow schema that a batch must have when Spark wants these columns; ColumnError when it cannot have them."""
    fields = []
    for column in wanted.fields:
        place = known.get_field_index(column.name)
        if place < 0:
            raise ColumnError(f"a trace has no column {column.name}; there are: {', '.join(known.names)}")
        kind = known.field(place).type
        if column.dataType != SPARK_TYPES[kind]:
            raise ColumnError(
                f"column {column.name} has the type {SPARK_TYPES[kind].simpleString()}, "
                f"not {column.dataType.simpleString()}"
            )
        if known.field(place).nullable and not column.nullable:
            raise ColumnError(f"column {column.name} may be null")
        fields.append(pa.field(column.name, kind, column.nullable))
    return pa.schema(fields)


def narrow(names: Iterable[str], known: pa.Schema = REQUEST_COLUMNS) -> StructType:
    """The Spark schema of some columns."""
    return struct_of(known.field(name) for name in names)
