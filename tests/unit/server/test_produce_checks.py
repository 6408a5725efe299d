"""Every check of docs/produce-checks.md, by the native path and by Python: the same answer, trace, counters and cells.

The page's table and the data here are compared too, so neither can change alone.
"""

import re
from itertools import zip_longest

import pytest

from mpbroker.errors import ErrorCode, error_name
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.server.replica_append import ADDS_PARTITIONS_SINCE
from tests.harness.produce_ways import Outcome, Ways
from tests.tidy.source_tree import ROOT
from tests.unit.server.produce_checks import ACCEPTED, CHECKS, CONNECTION, Case, Check, make_topics

PAGE = ROOT / "docs" / "produce-checks.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
CLOSED = 3
NEWER = (8, 9, 11, 12, 13)
AT_THE_APPEND = next(i for i, check in enumerate(CHECKS) if check.native)


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    return Ways(tmp_path_factory.mktemp("ways"), make_topics)


def run(ways: Ways, case: Case) -> tuple[Outcome, bool]:
    """What a case comes to, and whether the native path served it."""
    undo = [case.change(broker) for broker in ways.brokers] if case.change else []
    before = ways.served_natively()
    try:
        outcome = ways.both(case.frame)
    finally:
        for each in undo:
            each()
    return outcome, ways.served_natively() > before


def partitions(ways: Ways, case: Case, outcome: Outcome) -> list:
    answer = ways.native.decode(ProduceRequest(), case.version, outcome.frame)
    return [part for topic in answer.responses for part in topic.partition_responses] if answer else []


CASES = [
    pytest.param(check, case, id=f"{number}.{n}")
    for number, check in enumerate(CHECKS, 1)
    for n, case in enumerate(check.cases)
]


@pytest.mark.parametrize(("check", "case"), CASES)
def test_both_ways_refuse_alike(ways, check: Check, case: Case):
    outcome, natively = run(ways, case)
    parts = partitions(ways, case, outcome)
    assert tuple(part.error_code for part in parts) == case.codes
    if check.whom == CONNECTION:
        assert outcome.kind == CLOSED and outcome.frame is None and not natively
        return
    assert natively == check.native
    for part in (part for part in parts if part.error_code):
        assert (part.base_offset, part.log_append_time_ms) == (-1, -1)
        if part.error_code == check.code and case.version >= 5:
            assert part.log_start_offset == (0 if check.log_start else -1)
    assert check.code in case.codes
    if CHECKS.index(check) >= AT_THE_APPEND:
        assert [cell[-1] for cell in outcome.cells] == list(case.codes)
    assert outcome.trace["error"] == next(code for code in case.codes if code)


@pytest.mark.parametrize("version", NEWER)
@pytest.mark.parametrize(("check", "case"), [each for each in CASES if each.values[1].request])
def test_both_ways_refuse_alike_in_newer_versions(ways, version, check: Check, case: Case):
    """Where the answer names records, they are Python's. From version 12 on an unknown transaction is the coordinator's
    to judge (tests/integration/test_transactions_second_version.py)."""
    if version >= ADDS_PARTITIONS_SINCE and check.name == "its transaction is one that the partition knows of":
        return
    outcome, natively = run(ways, case.at(version))
    parts = partitions(ways, case.at(version), outcome)
    assert natively == (check.native and not any(part.record_errors for part in parts) and not unreadable(check))
    unknown_id = version >= 13 and check.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not unknown_id:
        assert tuple(part.error_code for part in parts) == codes_in(version, check, case)


def codes_in(version: int, check: Check, case: Case) -> tuple[int, ...]:
    """Kafka 4 has a newer code for a transaction that must be aborted."""
    newer = version >= 11 and check.name == "its transaction is one that the partition knows of"
    return (ErrorCode.TRANSACTION_ABORTABLE,) if newer and case.codes == (48,) else case.codes


def unreadable(check: Check) -> bool:
    """It has to be read once more before it is known that there is nothing to name."""
    return check.name == "every record can be read"


@pytest.mark.parametrize("version", NEWER)
@pytest.mark.parametrize("case", [case for case in ACCEPTED if case.request])
def test_both_ways_append_alike_in_newer_versions(ways, version, case):
    outcome, natively = run(ways, case.at(version))
    assert natively
    codes = [part.error_code for part in partitions(ways, case.at(version), outcome)]
    assert set(codes) <= {0, 45} and bool(codes) == bool(case.codes)  # what was sent before may be out of order now


@pytest.mark.parametrize("case", ACCEPTED, ids=range(len(ACCEPTED)))
def test_both_ways_append_alike(ways, case):
    outcome, natively = run(ways, case)
    assert natively
    assert tuple(part.error_code for part in partitions(ways, case, outcome)) == case.codes
    if case.codes:
        assert all(cell is not None and cell[-1] == 0 for cell in outcome.cells)


def test_the_trace_tells_the_records_sent(ways):
    [sent] = [case for check in CHECKS for case in check.cases if case.codes == (2, 0)]
    outcome, natively = run(ways, sent)
    assert natively and outcome.trace["aux"] == 5


def test_the_page_has_these_rows():
    def row(number: int, check: Check) -> tuple[str, ...]:
        code = f"`{error_name(check.code)}`" if check.code is not None else "closed"
        return (
            str(number),
            check.name,
            code,
            check.whom,
            "yes" if check.log_start else "no",
            "native" if check.native else "Python",
        )

    rows = [row(number, check) for number, check in enumerate(CHECKS, 1)]
    for page, data in zip_longest(ROW.findall(PAGE.read_text("utf-8")), rows):
        assert page == data
