"""The files of Apache Kafka's outcomes of the group scripts: one line per script, versions with equal ones together.

Those of the classic protocol are 3.9's, those of the next-generation one 4.3's; what 3.9 made of the latter when it was
a preview stands in a third file.

Line: {"script": name, "versions": [..], "outcomes": [..]}. Written by `python -m tests.conformance.group_differential
--record`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.group_scripts.stage import CLASSIC, NEXT, PREVIEW, Script

FILES = {
    CLASSIC: Path(__file__).with_name("kafka_3_9_outcomes.jsonl"),
    NEXT: Path(__file__).with_name("kafka_4_3_outcomes.jsonl"),
    PREVIEW: Path(__file__).with_name("kafka_3_9_preview_outcomes.jsonl"),
}


def write(path: Path, outcomes: list[tuple[Script, list[Any]]]) -> None:
    """Write the file anew."""
    rows: dict[tuple[str, str], list[int]] = {}
    for script, found in outcomes:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        rows.setdefault((script.name, text), []).append(script.version)
    lines = [
        f'{{"script":{json.dumps(name)},"versions":{json.dumps(versions, separators=(",", ":"))},"outcomes":{text}}}\n'
        for (name, text), versions in sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    ]
    path.write_text("".join(lines), "utf-8")


def read(*releases: str) -> dict[tuple[str, int], list[Any]]:
    """(script's name, version) → Kafka's outcomes."""
    found = {}
    for release in releases or (CLASSIC, NEXT):
        for line in FILES[release].read_text("utf-8").splitlines():
            row = json.loads(line)
            for version in row["versions"]:
                found[row["script"], version] = row["outcomes"]
    return found
