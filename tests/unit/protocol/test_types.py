"""Kinds and flags are numbered alike in Python and C."""

import re
from pathlib import Path

from mpbroker.protocol import codec
from mpbroker.protocol.types import KINDS

HEADER = (Path(__file__).resolve().parents[3] / "native" / "py_codec.h").read_text()


def test_kinds_have_the_numbers_of_the_c_enum():
    body = re.search(r"enum mpb_kind \{(.*?)\};", HEADER, re.S).group(1)
    names = re.findall(r"MPB_(\w+),?", body)
    assert tuple(name.lower() for name in names) == (*KINDS, "kinds")


def test_flags_have_the_numbers_of_the_c_enum():
    flags = dict(re.findall(r"MPB_(ARRAY|NULLABLE|COMPACT) = (\d+)", HEADER))
    assert {name: int(number) for name, number in flags.items()} == {
        "ARRAY": codec.ARRAY,
        "NULLABLE": codec.NULLABLE,
        "COMPACT": codec.COMPACT,
    }
