"""Apache Kafka's answers to the corpus, a file for each release: one line per case, versions with equal answers
together.

Those of 3.9.2 are what this broker is held against; 4.3.1 was asked about the versions that 3.9 does not know.

Line: {"case": name, "versions": [..], "answers": [..]}. Written by `python -m tests.conformance.differential --record`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.corpus.case import Case

FILES = {
    release: Path(__file__).with_name(f"kafka_{release.replace('.', '_')}_answers.jsonl") for release in ("3.9", "4.3")
}


def write(path: Path, answers: list[tuple[Case, list[Any]]]) -> None:
    """Write the file anew."""
    groups: dict[tuple[str, str], list[int]] = {}
    for case, outcomes in answers:
        groups.setdefault((case.name, json.dumps(outcomes, ensure_ascii=False, separators=(",", ":"))), []).append(
            case.version
        )
    lines = [
        f'{{"case":{json.dumps(name)},"versions":{json.dumps(versions, separators=(",", ":"))},"answers":{outcomes}}}\n'
        for (name, outcomes), versions in sorted(groups.items(), key=lambda item: (item[0][0], item[1]))
    ]
    path.write_text("".join(lines), "utf-8")


def read(path: Path) -> dict[tuple[str, int], list[Any]]:
    """(case name, version) → Kafka's answers."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        for version in row["versions"]:
            found[row["case"], version] = row["answers"]
    return found
