"""A piece of text and what stands there instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Characters `start` to `end` (exclusive) become `text`."""

    operator: str
    start: int
    end: int
    text: str

    def apply(self, whole: str) -> str:
        """The whole text with the change."""
        return whole[: self.start] + self.text + whole[self.end :]
