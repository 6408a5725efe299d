"""The first rows of a study's table as HTML, with units in the headings and links to the whole table.

Runs in the process of a command. Tables are Arrow tables; column names end with their unit (`p99_us`, `wait_ms`, `share_pct`).
"""

import datetime
import math
from typing import TYPE_CHECKING, Any

from mpbroker.report import palette
from mpbroker.report.markup import text

if TYPE_CHECKING:
    import pyarrow as pa

TOP_ROWS = 15
_UNITS = {"us": "µs", "ms": "ms", "ns": "ns", "s": "s", "pct": "%", "bytes": "B", "mb": "MB", "per_s": "per s", "mb_per_s": "MB/s", "percent": "%"}
_MINUS, _NONE, _THIN = "\u2212", "–", "\u202f"


def table_html(name: str, stem: str, table: "pa.Table") -> str:
    """A scrollable table of at most TOP_ROWS rows. `stem`: the files' path without suffix, as seen from the page."""
    columns = [(column, column_heading(column), _is_number(table.schema.field(column).type)) for column in table.column_names]
    rows = table.slice(0, TOP_ROWS).to_pylist()
    head = "".join(f'<th scope="col"{_class(number)}>{text(heading)}</th>' for _, heading, number in columns)
    body = "".join("<tr>" + "".join(_cell(column, row[column], number) for column, _, number in columns) + "</tr>" for row in rows)
    shown = f"The first {len(rows)} of {grouped(table.num_rows)} rows" if table.num_rows > len(rows) else f"{table.num_rows} rows"
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{text(name)}, table"><table><caption>{shown}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            f'<p class="files">The whole table: <a href="{text(stem)}.parquet">Parquet</a><a href="{text(stem)}.csv">CSV</a></p>')


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
    return (written.rstrip("0").rstrip(".") if "." in written else written).replace("-", _MINUS)


def _cell(column: str, value: Any, number: bool) -> str:
    if column in ("epoch_ns", "window_ms", "conn_id", "corr_id", "api_key", "t0_ns") and isinstance(value, int):
        return f'<td class="number">{value}</td>'  # an identity or a moment: no separators
    if isinstance(value, str) and column in ("stage", "slowest_stage", "percentile") and palette.named_shade(value):
        return f'<td><span class="swatch {swatch_class(value)}"></span>{text(value)}</td>'
    shown = value_text(value)
    title = f' title="{text(shown)}"' if len(shown) > 40 else ""
    return f"<td{_class(number)}{title}>{text(shown)}</td>"


def swatch_class(stage: str) -> str:
    """The class that paints a swatch in a stage's colour (page.py writes the rule)."""
    return "c-" + palette.STAGE_ALIASES.get(stage, stage).replace(".", "")


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _is_number(kind: "pa.DataType") -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "decimal"))
