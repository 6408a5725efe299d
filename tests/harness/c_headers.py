"""Numbers that headers of the C code define, read from their text."""

import math
import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"


def defined(header: str, name: str) -> int:
    """What stands behind `#define name`: a number, or numbers that are multiplied."""
    [text] = re.findall(rf"^#define {name} (\S.*?)(?:\s*/[*/].*)?$", (NATIVE / header).read_text(), re.MULTILINE)
    assert re.fullmatch(r"[\d\s*()]+", text), f"{name} is more than a product: {text}"
    return math.prod(map(int, re.findall(r"\d+", text)))
