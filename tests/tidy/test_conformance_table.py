"""docs/conformance.md: every point once, in order, with one of three words, and every test it names is really there."""

import re
from collections import Counter

from tests.tidy.named_tests import exists
from tests.tidy.source_tree import ROOT

POINTS = 183
PAGE = ROOT / "docs" / "conformance.md"
ROW = re.compile(r"^\| (F\d{3}) \| (.+?) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NOT_YET, NOTHING, INSTEAD = "not yet", "—", "instead: "
HOLDS, ABSENT = "holds", "absent"
DIFFERENTLY = re.compile(r"holds differently \(\[ADR (\d+)\]\((adr/(\d{4})-[a-z0-9-]+\.md)\)\)")


def _rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text())


def test_every_point_stands_once_and_in_order():
    assert [row[0] for row in _rows()] == [f"F{number:03}" for number in range(1, POINTS + 1)]


def test_every_line_is_a_few_sentences():
    wrong = [
        point
        for point, sentence, *_ in _rows()
        if (not sentence[0].isupper() and sentence[0] != "`") or not sentence.endswith(".") or len(sentence) > 300
    ]
    assert not wrong, wrong


def test_a_point_holds_or_holds_differently_by_a_decision_or_is_absent():
    for point, _, kind, _ in _rows():
        if kind in (HOLDS, ABSENT):
            continue
        found = DIFFERENTLY.fullmatch(kind)
        assert found, f"{point}: {kind}"
        assert int(found[1]) == int(found[3]) and (PAGE.parent / found[2]).is_file(), point


def test_what_the_page_counts_is_so():
    kinds = Counter(kind.split(" (")[0] for _, _, kind, _ in _rows())
    said = f"{kinds[HOLDS]} hold, {kinds['holds differently']} hold differently, {kinds[ABSENT]} are absent"
    assert said in " ".join(PAGE.read_text().split())


def test_what_is_absent_has_no_proof_but_at_most_what_happens_instead():
    for point, sentence, kind, proofs in _rows():
        instead = [proof.startswith(INSTEAD) for proof in proofs.split("<br>")]
        assert all(instead) or proofs == NOTHING if kind == ABSENT else not any(instead) and proofs != NOTHING, point
        assert kind != ABSENT or "Less than Kafka" not in sentence, f"{point}: absent is less enough"


def test_proofs_are_tests_that_exist():
    missing = [
        f"{point}: {proof}"
        for point, _, _, proofs in _rows()
        if proofs not in (NOT_YET, NOTHING)
        for proof in (each.removeprefix(INSTEAD) for each in proofs.split("<br>"))
        if not (proof[0] == proof[-1] == "`" and exists(proof.strip("`")))
    ]
    assert not missing, "\n".join(missing)
