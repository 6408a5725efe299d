"""Tables: units in headings, numbers people can read, names that stay names."""

import datetime

import pyarrow as pa
import pytest

from mpbroker.analysis.report import table_view
from tests.unit.analysis.report.sample_results import NASTY


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("p50_us", "p50 µs"),
        ("p999_us", "p99.9 µs"),
        ("p9999_us", "p99.99 µs"),
        ("mb_per_s", "mb per s"),
        ("requests_per_s", "requests per s"),
        ("cpu_share_pct", "cpu share %"),
        ("api", "api"),
    ],
)
def test_headings(name, heading):
    assert table_view.column_heading(name) == heading


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (1234567, "1\u202f234\u202f567"),
        (-5, "\u22125"),
        (0.0, "0"),
        (1.5, "1.5"),
        (0.000123456, "0.000123"),
        (2717.27, "2\u202f717"),
        (True, "yes"),
        ("x", "x"),
        (datetime.datetime(2026, 9, 21, 1, 2, 3, 456789), "2026-09-21 01:02:03.456"),  # noqa: DTZ001 (Arrow gives such)
    ],
)
def test_values(value, shown):
    assert table_view.value_text(value) == shown


def test_a_table_shows_its_top_and_says_so():
    html = table_view.table_html(
        "exemplars",
        "tables/tail.exemplars",
        pa.table({"client": [NASTY] * 20, "stage": ["queue"] * 20, "n": [1000] * 20}),
    )
    assert html.count("<tr>") == 1 + table_view.TOP_ROWS and "The first 15 of 20 rows" in html
    assert "<img" not in html and 'class="swatch c-queue"' in html and '<td class="number">1\u202f000</td>' in html
    assert 'href="tables/tail.exemplars.parquet"' in html and 'href="tables/tail.exemplars.csv"' in html


def test_moments_shares_and_identities():
    table = pa.table(
        {
            "window_ms": [1_795_282_331_000],
            "excess_share": [0.618],
            "conn_id": [12345],
            "mean_us": [-1e-13],
            "wait_ms": [1500],
        }
    )
    html = table_view.table_html("x", "tables/x", table)
    assert (
        ">window UTC<" in html
        and ">17:32:11.000<" in html
        and ">61.8 %<" in html
        and ">12345<" in html
        and ">0<" in html
    )
    assert ">wait ms<" in html and "1\u202f500" in html and "1 row<" in html


def test_nanoseconds_are_shown_in_a_unit_that_people_read():
    """By what most of a column is; moments, and what is next to nothing, stay what they are."""
    table = pa.table(
        {
            "p99_ns": [43_571_692, 122_453_033, None],
            "mean_ns": [1500.0, float("nan"), 0.0],
            "wait_ns": [37_257_237_696, 0, 5_059_583_574],
            "step_ns": [12, 840, 7],
            "opened_epoch_ns": [1_795_282_331_000_000_000] * 3,
        }
    )
    html = table_view.table_html("x", "tables/x", table)
    for heading in ("p99 ms", "mean µs", "wait s", "step ns", "opened epoch UTC"):
        assert f">{heading}<" in html, heading
    for shown in ("43.57", "122.5", "1.5", "37.26", "5.06", "840", "17:32:11.000"):
        assert f">{shown}<" in html, shown
