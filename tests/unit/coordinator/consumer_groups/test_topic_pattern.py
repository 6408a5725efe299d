"""Patterns of topics: RE2's syntax, as far as it says what Python's says, and bounded whatever the text."""

import random
import re

import pytest

from mpbroker.coordinator.consumer_groups.topic_pattern import BadPattern, TopicPattern

NAMES = [
    "",
    "t",
    "tt",
    "a",
    "b",
    "ab",
    "abc",
    "aa",
    "aaa",
    "abb",
    "axb",
    "a.b",
    "a-b",
    "A_1",
    "foo",
    "123",
    "xy",
    "ABC",
]
ALIKE = [
    "t.*",
    "a|b",
    "(ab)*c?",
    "a{2,3}",
    "a{2,}",
    "a{0}",
    "[a-c]+",
    "^foo$",
    r"\d+",
    r"\D*",
    "[^a]b",
    "(?i)abc",
    "(?i:A)b",
    r"a\.b",
    "a.b",
    "(a|b)*abb",
    "",
    "x??y*?",
    r"[\w.-]+",
    "(?:a|x){1,2}y?",
    "$",
    "^$",
    "a*$",
    "(^|b)a?$",
    "(?P<name>a)b",
    r"\x61\x62",
    "[]a]",
    "a{,3}",
    "[a-]*b",
]


@pytest.mark.parametrize("pattern", ALIKE)
def test_where_both_know_the_syntax_the_matches_are_those_of_re(pattern):
    ours, theirs = TopicPattern(pattern), re.compile(pattern)
    for name in NAMES:
        expected = name == "a{,3}" if pattern == "a{,3}" else bool(theirs.fullmatch(name))
        assert ours.matches(name) == expected, name


def test_random_patterns_match_what_re_matches():
    chooser = random.Random(848)
    for _ in range(300):
        pattern = "".join(chooser.choice(["a", "b", ".", "(a|b)", "[ab]", "a*", "b+", "(ab)?", "|"]) for _ in range(5))
        ours, theirs = TopicPattern(pattern), re.compile(pattern)
        for name in NAMES:
            assert ours.matches(name) == bool(theirs.fullmatch(name)), (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("[[:alpha:]]+", ["t", "abc"]),
        ("[[:^alpha:]]+", ["123"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\pL+", ["t", "abc", "ABC"]),
        (r"\p{Lu}+", ["ABC"]),
        (r"\PL+", ["123"]),
        (r"\p{^L}+", ["123"]),
        (r"\P{^Lu}+", ["ABC"]),
        (r"\Aab\z", ["ab"]),
        ("(?<n>fo+)", ["foo"]),
        ("(?U)a+", ["a", "aa", "aaa"]),
    ],
)
def test_what_only_re2_has(pattern, names):
    matcher = TopicPattern(pattern)
    assert [
        name for name in ["t", "abc", "123", "a.b", "ABC", "ab", "foo", "a", "aa", "aaa"] if matcher.matches(name)
    ] == (
        [name for name in ["t", "abc", "123", "a.b", "ABC", "ab", "foo", "a", "aa", "aaa"] if name in names]
        if pattern not in ("[[:alpha:]]+", r"\pL+")
        else ["t", "abc", "ABC", "ab", "foo", "a", "aa", "aaa"]
    )


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(",
            "a)",
            "[a",
            "*",
            "a**",
            "a{2}{3}",
            r"\1",
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            r"\b",
            "x{1001}",
            "x{3,2}",
            "[b-a]",
        ),
        *(
            r"\p{Greek}",
            "(?P<n",
            "(?P<1>a)",
            "(?P<a b>a)",
            "a\\",
            "((a{100}){100}){100}",
            "((a{0}){1000}){1000}",
            "(" * 200,
            "a" * 5000,
            "[[:no:]]",
        ),
    ],
)
def test_everything_else_is_refused_at_once(pattern):
    with pytest.raises(BadPattern):
        TopicPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$", "(.*a){20}", "(x+x+)+y", "(.{0,20}a){30}"])
def test_no_pattern_takes_long(pattern):
    matcher = TopicPattern(pattern)
    for name in ("a" * 249, "ab" * 124, "x" * 249):
        matcher.matches(name)
        matcher.matches(name)
    assert matcher.steps < 2_000_000


@pytest.mark.parametrize(
    ("pattern", "fits"), [("[ab]{1000}[ab]{990}", True), ("[ab]{1000}[ab]{1000}", False), ("(?:[ab]{50}){41}", False)]
)
def test_an_expression_makes_two_thousand_states_at_most(pattern, fits):
    """Memory and time of every look at a topic's name are bounded by them."""
    if fits:
        assert len(TopicPattern(pattern)._states) <= 2000
    else:
        with pytest.raises(BadPattern, match="too large"):
            TopicPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("[é-ü]|a", ["a"], ["é", "b", ""]),
        ("[y-é]+", ["y", "z~"], ["x", "a"]),
        ("[a-c]", ["a", "b", "c"], ["d", "`"]),
        ("[a]", ["a"], ["b"]),
    ],
)
def test_ranges_that_leave_what_topic_names_can_have(pattern, matches, others):
    matcher = TopicPattern(pattern)
    assert [name for name in [*matches, *others] if matcher.matches(name)] == matches
