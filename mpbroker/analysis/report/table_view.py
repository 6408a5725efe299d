"""The first rows of a study's table as HTML, with units in the headings and links to the whole table.

Runs in the process of a command. Tables are Arrow tables; column names end with their unit (`p99_us`, `wait_ms`,
`share_pct`).
"""

import datetime
import math
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.running.wording import STAGE_NAMES
from mpbroker.analysis.report import palette
from mpbroker.analysis.report.markup import text

if TYPE_CHECKING:
    import pyarrow as pa

TOP_ROWS = 15
_IDENTITIES = ("conn_id", "connection", "corr_id", "correlation_id", "api_key", "t0_ns", "pid")
_UNITS = {
    "us": "µs",
    "ms": "ms",
    "ns": "ns",
    "s": "s",
    "pct": "%",
    "bytes": "B",
    "mb": "MB",
    "per_s": "per s",
    "mb_per_s": "MB/s",
    "percent": "%",
}
#: 2001 to 2096: numbers beyond are durations.
_EARLIEST_S, _LATEST_S = 1_000_000_000, 4_000_000_000
_LARGER = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
_MINUS, _NONE, _THIN = "\u2212", "–", "\u202f"


def table_html(name: str, stem: str, table: "pa.Table") -> str:
    """A scrollable table of at most TOP_ROWS rows. `stem`: the files' path without suffix, as seen from the page."""
    rows, renamed = _readable(table.slice(0, TOP_ROWS).to_pylist())
    table = table.rename_columns([renamed.get(column, column) for column in table.column_names])
    columns = [
        (column, _heading_over(column, rows), _is_number(table.schema.field(column).type))
        for column in table.column_names
    ]
    head = "".join(f'<th scope="col"{_class(number)}>{text(heading)}</th>' for _, heading, number in columns)
    body = "".join(
        "<tr>" + "".join(_cell(column, row[column], number) for column, _, number in columns) + "</tr>" for row in rows
    )
    shown = (
        f"The first {len(rows)} of {grouped(table.num_rows)} rows"
        if table.num_rows > len(rows)
        else counted_rows(table.num_rows)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(name)}, '
        f'table"><table><caption>{shown}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<p class="files">The whole table: <a href="{text(stem)}.parquet">Parquet</a><a '
        f'href="{text(stem)}.csv">CSV</a></p>'
    )


def _readable(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Nanoseconds in the unit that most of a column's values are whole ones of; and the columns' new names. The files
    keep them as they are."""
    renamed: dict[str, str] = {}
    divisors: dict[str, int] = {}
    for column in rows[0] if rows else ():
        values = [value for row in rows if isinstance(value := row[column], int | float) and math.isfinite(value)]
        values = [value for value in values if value]
        if not column.endswith("_ns") or column in _IDENTITIES or not values:
            continue
        if any(moment_text(column, value) for value in values):
            continue
        middle = sorted(map(abs, values))[len(values) // 2]
        for unit, divisor in _LARGER:
            if middle >= divisor and f"{column[:-2]}{unit}" not in rows[0]:
                renamed[column], divisors[column] = f"{column[:-2]}{unit}", divisor
                break
    return [
        {renamed.get(name, name): _divided(value, divisors.get(name)) for name, value in row.items()} for row in rows
    ], renamed


def _divided(value: Any, divisor: int | None) -> Any:
    return value if divisor is None or value is None else value / divisor


def counted_rows(number: int) -> str:
    """`1 row`, `2 rows`."""
    return f"{grouped(number)} row{'' if number == 1 else 's'}"


def column_heading(name: str) -> str:
    """`p99_us` → `p99 µs`, `p9999_us` → `p99.99 µs`, `queue_wait_ms` → `queue wait ms`."""
    for ending in sorted(_UNITS, key=len, reverse=True):
        if name.endswith("_" + ending):
            return f"{column_heading(name.removesuffix('_' + ending))} {_UNITS[ending]}"
    if name.startswith("p99") and name[1:].isdigit() and len(name) > 3:
        return f"p99.{name[3:]}"
    return name.replace("_", " ")


def value_text(value: Any) -> str:
    """A cell: thousands apart, four figures of a fraction, a dash for nothing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return grouped(value)
    if isinstance(value, float):
        return _fraction(value)
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return str(value)[:200]


def moment_text(column: str, value: Any) -> str | None:
    """A time of day (UTC) for what is a time since 1970 by name and size: window_ms, from_ms, opened_epoch_ns; else
    None."""
    for ending, per_s in (("_ms", 1_000), ("_ns", 1_000_000_000)):
        if column.endswith(ending) and isinstance(value, int) and _EARLIEST_S * per_s <= value < _LATEST_S * per_s:
            moment = datetime.datetime.fromtimestamp(value // (per_s // 1000) / 1000, datetime.UTC)
            return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return None


def grouped(number: int) -> str:
    """1234567 → 1 234 567 with thin spaces."""
    return f"{number:,}".replace(",", _THIN).replace("-", _MINUS)


def _fraction(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return grouped(round(value))
    digits = max(0, min(6, 3 - math.floor(math.log10(abs(value)))))
    written = f"{value:.{digits}f}"
    if not float(written):
        return "0"
    return (written.rstrip("0").rstrip(".") if "." in written else written).replace("-", _MINUS)


def _heading_over(column: str, rows: list[dict[str, Any]]) -> str:
    if any(moment_text(column, row[column]) for row in rows):
        return f"{column[:-3].replace('_', ' ')} UTC"
    return column_heading(column)


def _cell(column: str, value: Any, number: bool) -> str:
    if moment := moment_text(column, value):
        return f'<td class="number" title="{value}">{moment[11:]}</td>'
    if column in _IDENTITIES and isinstance(value, int):
        return f'<td class="number">{value}</td>'  # an identity: no separators
    if isinstance(value, str) and column in ("stage", "slowest_stage", "percentile") and palette.named_shade(value):
        plain = STAGE_NAMES.get(value, value)
        return f'<td title="{text(value)}"><span class="swatch {swatch_class(value)}"></span>{text(plain)}</td>'
    shown = _percent(value) if _is_share(column) and isinstance(value, float) else value_text(value)
    title = f' title="{text(shown)}"' if len(shown) > 40 else ""
    return f"<td{_class(number)}{title}>{text(shown)}</td>"


def _is_share(column: str) -> bool:
    return column == "share" or column.endswith("_share")


def _percent(value: float) -> str:
    return f"{_fraction(100 * value)} %" if math.isfinite(value) else _NONE


def swatch_class(stage: str) -> str:
    """The class that paints a swatch in a stage's colour (page.py writes the rule)."""
    return "c-" + palette.STAGE_ALIASES.get(stage, stage).replace(".", "")


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _is_number(kind: "pa.DataType") -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "decimal"))
