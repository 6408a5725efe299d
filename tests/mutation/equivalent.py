"""Changes that no test can notice, each with its reason: tests/mutation/equivalent.txt."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutation.change import Change

FILE = Path(__file__).with_name("equivalent.txt")
ENTRY = re.compile(r"^(\S+?)(?: #(\d+))?\n  - (.+)\n  \+ (.+)\n((?:    .+\n)+)", re.MULTILINE)

#: Path, line before, line after, and which of the lines that are changed alike.
Key = tuple[str, str, str, int]


def key_of(change: Change) -> Key:
    """What names a change whatever stands in other lines."""
    return change.path, change.before, change.after, change.nth


def known_equivalents(text: str | None = None) -> dict[Key, str]:
    """Key → reason."""
    text = FILE.read_text() if text is None else text
    return {
        (path, before, after, int(nth or 1)): " ".join(reason.split())
        for path, nth, before, after, reason in ENTRY.findall(text)
    }
