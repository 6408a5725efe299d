"""The argument parsers of the commands, and a walk over them for completion. Runs in the command's process."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from mpbroker.cli.usage import UsageError, example_text, guess

_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)'")


class Parser(argparse.ArgumentParser):
    """Mistakes become UsageErrors that name the help of the very subcommand, and guess what was meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{self._guess(message)} (see `{self.prog} --help`)")

    def _guess(self, message: str) -> str:
        wrong = _INVALID_CHOICE.search(message)
        choices = [str(choice) for action in self._actions for choice in action.choices or ()]
        return guess(wrong[1], choices) if wrong else ""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments in `words`; UsageError."""
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            chosen = list(path_of(self, words))[-1]
            near = "".join(guess(word.partition("=")[0], flags(chosen)) for word in unknown[:1])
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)}{near} (see `{chosen.prog} --help`)")
        return arguments


def parser_for(name: str, command: Any) -> Parser:
    """The parser of a command, which is a module with DESCRIPTION, EXAMPLES and define."""
    parser = Parser(
        prog=f"mpbroker {name}",
        description=command.DESCRIPTION,
        epilog=example_text(command.EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.define(parser)
    return parser


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name → parser of what follows a command: `create` of `topic`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def path_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of the subcommands that `words` name."""
    yield parser
    for word in words:
        found = subcommands(parser).get(word)
        if found is not None:
            parser = found
            yield parser


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What may be given by flags, in the order of the help."""
    return [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]


def positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What stands without a flag; subcommands are not among them."""
    return [
        action
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
    ]


def flags(parser: argparse.ArgumentParser) -> list[str]:
    """All flags, long and short."""
    return [flag for action in options(parser) for flag in action.option_strings]
