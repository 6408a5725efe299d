"""What every store is given and gives back: values, what a transaction may hold, when a check is true."""

import msgspec
import pytest

from mpbroker.metadata import meta_store
from mpbroker.metadata.meta_store import (
    MAX_KEY_BYTES,
    Absent,
    Check,
    Compacted,
    Delete,
    DeletePrefix,
    Entry,
    Limits,
    ModRev,
    Op,
    Put,
    Value,
    Version,
    check_request,
    holds,
    prefix_end,
)

CHECKS = [Absent("k"), Version("k", 2), ModRev("k", 7), Value("k", b"v")]
OPS = [Put("k", b"v"), Put("k", b"v", 3), Delete("k"), DeletePrefix("k")]


def test_what_was_given_does_not_change_behind_anybody():
    kinds = [one for one in vars(meta_store).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    assert len(kinds) == 18 and all(kind.__struct_config__.frozen for kind in kinds)


@pytest.mark.parametrize(("one", "kind"), [*((one, Check) for one in CHECKS), *((one, Op) for one in OPS)])
def test_a_check_or_an_op_that_is_written_down_says_which_it_is(one, kind):
    written = msgspec.json.encode(one)
    assert msgspec.json.decode(written)["type"] == type(one).__name__
    assert msgspec.json.decode(written, type=kind) == one


def test_an_entry_that_is_written_down_is_a_row():
    assert msgspec.json.encode(Entry("k", b"v", 1, 2, 3)) == b'["k","dg==",1,2,3,null]'


@pytest.mark.parametrize(
    ("entry", "true"),
    [
        (None, [True, False, False, False]),
        (Entry("k", b"v", 2, 1, 7), [False, True, True, True]),
        (Entry("k", b"w", 1, 7, 2), [False, False, False, False]),
        (Entry("k", b"w", 7, 2, 2), [False, False, False, False]),
        (Entry("k", b"v", 3, 7, 8), [False, False, False, True]),
    ],
)
def test_when_a_check_is_true(entry, true):
    assert [holds(check, entry) for check in CHECKS] == true


LIMITS = Limits(3, 10)
MANY = [Put("a", b""), Delete("b"), DeletePrefix("c"), Put("d", b"")]


@pytest.mark.parametrize(
    ("checks", "ops", "sentence"),
    [
        (CHECKS[:3], MANY[:3], None),
        (CHECKS, MANY[:3], "4 checks and 3 ops, allowed are 3 of each"),
        (CHECKS[:3], MANY, "3 checks and 4 ops, allowed are 3 of each"),
        ([], [Put("abc", b"4567"), Put("d", b"8")], None),
        ([], [Put("abc", b"4567"), Put("d", b"890")], "more than 10 bytes in one transaction"),
        ([], [Put("abcdef", b"7890")], None),
        ([], [Put("abcdef", b"7890"), DeletePrefix("g"), Delete("h")], None),
        ([], [Put("a", b"1"), Delete("a")], "two operations of one transaction touch the same key"),
        ([], [Put("ab", b"1"), DeletePrefix("a")], "two operations of one transaction touch the same key"),
        ([], [Delete("a"), DeletePrefix("a")], "two operations of one transaction touch the same key"),
        ([], [Delete("a"), DeletePrefix("ab")], None),
        ([], [DeletePrefix("a"), DeletePrefix("ab")], "two operations of one transaction touch the same keys"),
        ([], [DeletePrefix("a"), DeletePrefix("a")], "two operations of one transaction touch the same keys"),
        ([], [DeletePrefix("ab"), DeletePrefix("ac")], None),
        ([Absent("a"), Absent("a")], [Put("a", b"")], None),
    ],
)
def test_what_a_transaction_may_hold(checks, ops, sentence):
    if sentence is None:
        check_request(LIMITS, checks, ops)
        return
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        check_request(LIMITS, checks, ops)


@pytest.mark.parametrize("make", [Absent, Delete, DeletePrefix])
@pytest.mark.parametrize(
    ("key", "legal"),
    [("a", True), ("", False), ("ä", False), ("a\x7f", False), ("a" * MAX_KEY_BYTES, True), ("a" * 1025, False)],
)
def test_a_key_is_ascii_and_not_too_long(make, key, legal):
    checks, ops = ([make(key)], []) if make is Absent else ([], [make(key)])
    if legal:
        check_request(LIMITS, checks, ops)
        return
    with pytest.raises(ValueError, match=r"^illegal key ") as told:
        check_request(LIMITS, checks, ops)
    assert str(told.value) == f"illegal key {key[:80]!r}"


def test_the_key_behind_a_prefix_and_the_first_revision_that_is_kept():
    assert [prefix_end(prefix) for prefix in ("a", "ab", "a/")] == ["b", "ac", "a0"]
    error = Compacted(5)
    assert (str(error), error.min_rev) == ("revisions below 5 are no longer kept", 5)
