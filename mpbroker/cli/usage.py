"""What every command says the same way: examples, usage errors, guesses at what was meant.

Runs in the command's process.
"""

from collections.abc import Iterable, Sequence

from mpbroker.errors import MpbrokerError

USAGE = 2


class UsageError(MpbrokerError):
    """The command line cannot be understood."""

    exit_code = USAGE


def example_text(examples: Sequence[tuple[str, str]]) -> str:
    """Examples as they stand at the end of a help text."""
    return "\n".join(["examples:", *(f"  {line}\n      {meaning}" for line, meaning in examples)])


def guess(word: str, known: Iterable[str]) -> str:
    """`; did you mean start?`, or nothing when no known word is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""
