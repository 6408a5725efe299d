"""The README: short, its commands exist, its table of APIs is the registry's."""

import re

from mpbroker.cli.main import COMMANDS, load, parser_for
from mpbroker.server.api_document import with_table
from tests.tidy.source_tree import ROOT

README = ROOT / "README.md"
MAX_LINES = 120


def _targets() -> set[str]:
    """Makefile targets that have a rule."""
    return set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _commands() -> list[list[str]]:
    """Every full `mpbroker …` command line: indented lines, with what stands around the command taken away."""
    lines = re.findall(r"^    (?:.*\| )?mpbroker (.+)$", README.read_text(), re.MULTILINE)
    return [line.partition("#")[0].replace("&", "").split() for line in lines]


def test_it_is_short():
    assert len(README.read_text().splitlines()) <= MAX_LINES


def test_the_api_table_is_the_registry():
    text = README.read_text()
    assert with_table(text) == text, "run `make docs`"


def test_make_targets_exist():
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", README.read_text(), re.MULTILINE))
    assert named >= {"run", "test"} and not named - _targets()


def test_commands_parse():
    commands = _commands()
    assert len(commands) >= 4
    for words in commands:
        parser_for(words[0], load(words[0])).parse_args(words[1:])


def test_the_commands_of_the_table_are_those_there_are():
    named = set(re.findall(r"`mpbroker ([a-z]+)`", README.read_text()))
    assert named == set(COMMANDS)
