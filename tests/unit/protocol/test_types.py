"""Kinds and flags are numbered alike in Python and C."""

import re
from pathlib import Path

from mpbroker.protocol import codec
from mpbroker.protocol.types import KINDS, nullable_since, since, tagged, until

HEADER = (Path(__file__).resolve().parents[3] / "native" / "python" / "py_codec.h").read_text()


def test_kinds_have_the_numbers_of_the_c_enum():
    body = re.search(r"enum mpb_kind \{(.*?)\};", HEADER, re.DOTALL).group(1)
    names = re.findall(r"MPB_(\w+),?", body)
    assert tuple(name.lower() for name in names) == (*KINDS, "kinds")


def test_flags_have_the_numbers_of_the_c_enum():
    flags = dict(re.findall(r"MPB_(ARRAY|NULLABLE|COMPACT) = (\d+)", HEADER))
    assert {name: int(number) for name, number in flags.items()} == {
        "ARRAY": codec.ARRAY,
        "NULLABLE": codec.NULLABLE,
        "COMPACT": codec.COMPACT,
    }


def test_marks_of_different_kinds_are_never_equal():
    """typing.Annotated caches by equality (Python 3.11.2): equal marks would give one field the versions of another."""
    marks = [kind(3) for kind in (since, until, nullable_since, tagged)]
    assert all(one != other for one in marks for other in marks if one is not other)
    assert since(3) == since(3) != since(4)
