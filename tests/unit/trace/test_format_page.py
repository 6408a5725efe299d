"""docs/trace-format.md says what the code does: every offset, number and name on it is compared."""

import re
from pathlib import Path

from mpbroker.analysis.engine.input.durations import SPANS, Span
from mpbroker.trace import (
    dictionary,
    dictionary_writer,
    gauge,
    lane_drain,
    manifest,
    mark_spool,
    notice,
    process_event,
    record,
    role_change,
    segment,
)

PAGE = (Path(__file__).parents[3] / "docs" / "trace-format.md").read_text()
TYPES = {"Q": "u64", "I": "u32", "i": "i32", "B": "u8", "h": "i16", "H": "u16", "13I": "13 × u32"}


def table(heading):
    """Cells of the table whose first line begins so."""
    lines = PAGE.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_records_table():
    places = record.layout()
    expected = [[str(places[name][0]), TYPES[code], name] for name, code in record.FIELDS]
    rows = table("| offset | type | field | meaning in a request")
    assert [row[:3] for row in rows] == expected
    assert next(row[3] for row in rows if row[2] == "stage") == ", ".join(record.STAGES)
    purgatory = next(row[3] for row in rows if row[2] == "purg_kind")
    assert (
        re.findall(r"(\d) (\w+)", purgatory)[1:]
        == [(str(n), name) for n, name in enumerate(record.PURGATORY_NAMES)][1:]
    )


def test_kinds_and_flags():
    assert [(int(row[0]), row[1]) for row in table("| kind | name |")] == list(enumerate(record.KIND_NAMES))
    flags = PAGE[PAGE.index("**Flags.**") : PAGE.index("**Kinds.**")]
    assert {int(bit, 16): name for name, bit in re.findall(r"([a-z-]+) (0x[0-9a-f]+)", flags)} == record.FLAG_NAMES
    assert f"Bits {record.SAMPLE_SHIFT}-15" in flags
    reasons = PAGE[PAGE.index("Reasons of kind 2") : PAGE.index("Clock samples")]
    assert {int(number): name for number, name in re.findall(r"(\d)\s([A-Z_]{4,})", reasons)} == {
        reason.value: reason.name for reason in notice.CloseReason
    }


def test_the_header():
    rows = {row[2]: (int(row[0]), row[1]) for row in table("| offset | type | field | meaning |")}
    sizes = {"8 bytes": 8, "u32": 4, "u64": 8, "i64": 8, "24 bytes": 24, "5 × u64": 40}
    offset = 0
    for name, (place, kind) in rows.items():
        if name != "OPEN_CRC":
            assert place == offset, name
            offset += sizes[kind]
    assert offset == segment.OPEN.size and rows["OPEN_CRC"][0] == segment.OPEN_CRC_OFFSET
    assert rows["magic"] == (0, "8 bytes") and f"`{segment.MAGIC.decode()}`" in PAGE
    parts = {row[2].split(":")[0]: (int(row[0]), row[1]) for row in table("| from | length | part")}
    assert parts == {
        "open fields": (0, str(segment.OPEN_CRC_OFFSET + 4)),
        "progress": (segment.PROGRESS_OFFSET, str(segment.PROGRESS.size + 4)),
        "close fields": (segment.CLOSE_OFFSET, str(segment.CLOSE.size + 4)),
        "JSON object": (segment.JSON_OFFSET, f"up to {segment.MAX_JSON_BYTES}"),
    }
    for fields in (segment.Progress._fields, segment.Closed._fields[:6]):
        assert all(f"`{name}`" in PAGE for name in fields)


def test_file_names():
    assert segment.file_name(1, 0xABCD1234, 7, 42) == "b1-abcd1234-r07-00000000000000000042.mpt"
    assert segment.file_name(1, 0xABCD1234, 7, 42, 1).endswith("42_000001.mpt") and "`_000001`" in PAGE
    assert dictionary.file_name(1, 0xABCD1234) == "dict-b1-abcd1234.jsonl"


def test_gauges_and_process_events():
    rows = table("| type | handler_id")
    assert [row[0] for row in rows] == [f"{number} {name}" for number, name in gauge.TYPE_NAMES.items()]
    assert [row[2].split(", ") for row in rows] == [[name for name, _ in fields] for fields in gauge.FIELDS.values()]
    section = PAGE[PAGE.index("### Process events") : PAGE.index("### Roles")]
    roles = section[section.index("Roles:") : section.index("`wait_status` is")]
    assert {int(number): name for number, name in re.findall(r"(\d+) ([a-z-]+)", roles)} == process_event.ROLE_NAMES
    assert "event, role, index, wait_status, restarts, listener" in section


def test_roles():
    section = PAGE[PAGE.index("### Roles") : PAGE.index("## Dictionary")]
    numbers = section[section.index("Their numbers:") : section.index("A leader of")]
    assert {int(number): name for number, name in re.findall(r"(\d) (\w+)", numbers)} == role_change.ROLE_NAMES
    names = ["log_end", "high_watermark", "controller_epoch", "leader"]
    assert ", ".join(["old_role", "new_role", *names]) in section and list(role_change.RoleChange._fields[6:]) == names
    assert f"0x{role_change.NO_LEADER:X}" in section


def test_the_dictionary(tmp_path):
    writer = dictionary_writer.DictionaryWriter(tmp_path, 1, 2)
    writer.client(1, "a")
    writer.topic(1, "a")
    writer.connection(1, 2, "p", 3, 4)
    writer.software(1, "n", "v")
    writer.marker("x", 1)
    writer.lose_notices(1)
    writer.flush()
    writer.close()
    told = {row[0].strip("`"): row[1].split(", ") for row in table("| `k` | fields")}
    assert told == {row["k"]: [name for name in row if name != "k"] for row in dictionary.rows(writer.path)}
    assert f"newest {dictionary.MAX_OF_A_KIND:,} rows" in PAGE.replace("\n", " ")
    assert f"most {dictionary.MAX_NAME_CHARS} characters" in PAGE


def test_the_manifest_and_bounds():
    section = PAGE[PAGE.index("## Manifest") : PAGE.index("## Marks")]
    assert set(re.findall(r"`(\w+)`", section)) == set(manifest.ManifestRow._fields)
    assert f"1 to {mark_spool.MAX_TEXT_CHARS} characters" in PAGE
    assert f"{lane_drain.MAX_WAITING_EVENTS:,} of its own records and {dictionary_writer.MAX_WAITING:,} names" in PAGE


def test_durations_begin_where_the_studies_begin_them():
    """Above all those of requests that are served natively, which have no handler_start."""
    spans = {
        name: Span(tuple(None if one == "t0" else one for one in starts.split(", else ")), end)
        for name, starts, end in table("| duration | from | to |")
    }
    assert spans == SPANS
