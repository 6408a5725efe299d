"""docs/conformance.md: every point once and in order, and every test it names is really there."""

import re

from tests.tidy.named_tests import exists
from tests.tidy.source_tree import ROOT

POINTS = 183
PAGE = ROOT / "docs" / "conformance.md"
ROW = re.compile(r"^\| (F\d{3}) \| (.+?) \| (.+) \|$", re.MULTILINE)
NOT_YET = "not yet"


def _rows() -> list[tuple[str, str, str]]:
    return ROW.findall(PAGE.read_text())


def test_every_point_stands_once_and_in_order():
    assert [row[0] for row in _rows()] == [f"F{number:03}" for number in range(1, POINTS + 1)]


def test_every_line_is_one_sentence_or_two():
    wrong = [
        point
        for point, sentence, _ in _rows()
        if (not sentence[0].isupper() and sentence[0] != "`") or not sentence.endswith(".") or len(sentence) > 300
    ]
    assert not wrong, wrong


def test_proofs_are_tests_that_exist():
    missing = [
        f"{point}: {proof}"
        for point, _, proofs in _rows()
        if proofs != NOT_YET
        for proof in proofs.split("<br>")
        if not (proof[0] == proof[-1] == "`" and exists(proof.strip("`")))
    ]
    assert not missing, "\n".join(missing)
