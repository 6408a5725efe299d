"""The .properties syntax, against what java.util.Properties documents."""

import pytest

from mpbroker.config.properties import parse_properties
from mpbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb = 2\nc:3\nd 4\ne\t=\t5", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")]),
        ("# comment\n  ! comment\n\n  \na=1", [("a", "1")]),
        ("fruits = apple, \\\n    banana, \\\n    pear\nx=1", [("fruits", "apple, banana, pear"), ("x", "1")]),
        ("a=one\\\n# two", [("a", "one# two")]),
        ("a=x\\\\\nb=y", [("a", "x\\"), ("b", "y")]),
        ("a\\ b\\=c=d", [("a b=c", "d")]),
        ("a\\:=b", [("a:", "b")]),
        ("\\=\\=:b", [("==", "b")]),
        ("a=\\u0041\\t\\q", [("a", "A\tq")]),
        ("a=xyz\\u00e9\\u0041", [("a", "xyzéA")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=v", [("", "v")]),
        ("a==b", [("a", "=b")]),
        ("a = : b", [("a", ": b")]),
        ("a : = b", [("a", "= b")]),
        ("url=http://x:1", [("url", "http://x:1")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=v  ", [("a", "v  ")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("a=x\\", [("a", "x")]),
        ("", []),
    ],
)
def test_syntax(text, pairs):
    assert [(key, value) for key, value, _ in parse_properties(text)] == pairs


def test_lines_are_counted_from_the_first_of_a_continued_one():
    found = parse_properties("# c\na=1,\\\n2\n\nb=3")
    assert [(p.key, p.line) for p in found] == [("a", 2), ("b", 5)]


def test_a_broken_escape_names_file_and_line():
    with pytest.raises(ConfigError, match=r"f\.properties, line 2.*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12x4", "f.properties")
