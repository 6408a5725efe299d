"""`mpbroker completion bash|zsh|fish`: what makes a shell complete commands, flags and choices, from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mpbroker.cli import completion_scripts
from mpbroker.cli.completion_scripts import Place

DESCRIPTION = """\
Print a completion script for bash, zsh or fish: commands, flags and choices. It is generated from
the commands, so print it again after an update."""
EXAMPLES = (
    ("mpbroker completion bash > ~/.local/share/bash-completion/completions/mpbroker", "bash, from the next shell on"),
    ('eval "$(mpbroker completion bash)"', "bash, in this shell"),
    ('mpbroker completion zsh > "${fpath[1]}/_mpbroker"', "zsh"),
    ("mpbroker completion fish > ~/.config/fish/completions/mpbroker.fish", "fish"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("shell", choices=list(completion_scripts.SHELLS), metavar="bash|zsh|fish")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(completion_scripts.SHELLS[arguments.shell](list(places())), end="")
    return 0


def places() -> Iterator[Place]:
    """Every place of a command line where something may follow: after `mpbroker`, `mpbroker topic` and so on."""
    from mpbroker.cli import main

    yield Place((), dict(main.COMMANDS) | {"help": "show the help of a command"}, [])
    for name in main.COMMANDS:
        yield from _below((name,), main.parser_for(name, main.load(name)))


def _below(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Place]:
    from mpbroker.cli import parsers

    summaries = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    below = parsers.subcommands(parser)
    words = {name: summaries.get(name, "") for name in below}
    for action in parsers.positionals(parser):
        words |= {str(choice): "" for choice in action.choices or ()}
    yield Place(path, words, [completion_scripts.option(action) for action in parsers.options(parser)])
    for name, one in below.items():
        yield from _below((*path, name), one)
