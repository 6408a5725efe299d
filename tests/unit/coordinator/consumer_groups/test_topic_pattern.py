"""Patterns of topics: RE2's syntax, as far as it says what Python's says, and bounded whatever the text."""

import random
import re

import pytest

from mpbroker.coordinator.consumer_groups import topic_pattern
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


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a$b", "ab"),
        ("a^b", "ab"),
        ("a^", "a"),
        ("(a$|b)*", "ab"),
        (".", "é"),
        (".*", "aé"),
        ("[^a]", "é"),
        ("a?$b?", "b"),
    ],
)
def test_an_end_is_at_the_end_and_a_character_of_no_topic_is_never_met(pattern, name):
    assert not TopicPattern(pattern).matches(name)


@pytest.mark.parametrize(
    ("pattern", "name", "steps"),
    [
        ("ab", "ab", (1, 8, 10)),
        ("ab", "x", (1, 3, 4)),
        ("a|b", "b", (3, 9, 10)),
        ("a*", "aaa", (3, 15, 18)),
        ("a*", "", (3, 6, 9)),
        ("^a$", "a", (2, 8, 9)),
    ],
)
def test_steps_are_counted_at_first_for_each_state_then_for_each_character(pattern, name, steps):
    """As it is made, with a name that it has not met, and with the same once more."""
    matcher = TopicPattern(pattern)
    counted = [matcher.steps]
    for _ in range(2):
        matcher.matches(name)
        counted.append(matcher.steps)
    assert tuple(counted) == steps


@pytest.mark.parametrize(("pattern", "fits"), [("abc", True), ("abcd", False), ("a{2}", True), ("a{3}", False)])
def test_so_many_parts_are_built_and_no_more(monkeypatch, pattern, fits):
    monkeypatch.setattr(topic_pattern, "MAX_BUILT", 4)
    if fits:
        assert TopicPattern(pattern).matches({"abc": "abc", "a{2}": "aa"}[pattern])
    else:
        with pytest.raises(BadPattern, match="too large"):
            TopicPattern(pattern)


def test_sets_of_states_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(topic_pattern, "MAX_SETS", 3)
    matcher = TopicPattern("a{0,9}")
    kept = []
    for length in range(1, 7):
        assert matcher.matches("a" * length)
        kept.append((len(matcher._moves), len(matcher._ends)))
    assert kept == [(1, 1), (2, 2), (3, 3), (1, 1), (3, 1), (3, 1)]
