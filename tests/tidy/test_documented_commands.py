"""Every mpbroker command line that a page shows is one that the commands understand."""

import re
import shlex

import pytest

from mpbroker.cli.main import load, parser_for
from mpbroker.cli.usage import UsageError
from tests.tidy.source_tree import ROOT

PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```|((?:^    .*\n)+)", re.MULTILINE | re.DOTALL)
IN_A_BLOCK = re.compile(r"^ *(?:\$ |[^#\n]*\| )?mpbroker ([a-z].*)$", re.MULTILINE)
IN_THE_TEXT = re.compile(r"`mpbroker ([a-z][^`]*)`")
#: The text may name a command or a flag without what it needs.
INCOMPLETE = ("the following arguments are required", "expected one argument", "expected at least one argument")


def _lines():
    """(where, command line, whether it is one to be typed)."""
    for page in PAGES:
        text = page.read_text()
        blocks = "".join("".join(block) for block in BLOCK.findall(text))
        for typed, found in ((True, IN_A_BLOCK.findall(blocks)), (False, IN_THE_TEXT.findall(BLOCK.sub("", text)))):
            for one in found:
                command = one.partition(" #")[0].partition(" | ")[0].rstrip(" &")
                yield str(page.relative_to(ROOT)), " ".join(command.split()), typed


def test_there_are_enough():
    typed = [command for _, command, typed in _lines() if typed]
    assert len(typed) > 10 and len(list(_lines())) > 40


@pytest.mark.parametrize(("page", "command", "typed"), list(_lines()))
def test_a_command_of_a_page_is_understood(page, command, typed):
    words = shlex.split(command)
    end = next((at for at, word in enumerate(words) if word[0] in "<>"), len(words))
    words = [word for word in words[:end] if word != "…"]
    try:
        parser_for(words[0], load(words[0])).read(words[1:])
    except UsageError as error:
        assert not typed and any(reason in str(error) for reason in INCOMPLETE), f"{page}: {error}"
