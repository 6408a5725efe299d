"""What `trace study` and `lab run` print of an outcome: the answer, the ranked findings, then every study's sentences.
Runs in the command's process."""

from typing import Any


def _side_by_side(results: Any) -> list[str]:
    """Variants beside each other, where there are many of them: a sentence for each would be no answer."""
    from mpbroker.analysis.lab import side_by_side

    found = [result.tables[side_by_side.NAME] for result in results if side_by_side.NAME in result.tables]
    return [f"  {line}" for table in found if len(table) >= side_by_side.MANY for line in side_by_side.lines(table)]


def outcome_text(outcome: Any, sentences: bool = True) -> str:
    """Of a runner's Outcome. `sentences`: those of the studies, too; they stand in the report in any case."""
    from mpbroker.analysis.engine.running import finding, wording

    lines = [f"note: {sentence}" for sentence in outcome.meta["sentences"]]
    answer = [sentence for result in outcome.results for sentence in result.answer]
    if answer:
        lines += [outcome.meta.get("question", "answer:"), *(f"  {sentence}" for sentence in answer)]
        lines += [*_side_by_side(outcome.results), ""]
    found = finding.leading(outcome.results)
    if found:
        mean = wording.duration(outcome.meta["mean_request_us"] * 1000)
        lines += [f"What costs most time (a request takes {mean} on average), and what to change:"]
        lines += finding.lines(found)
    if sentences:
        lines += [""] * bool(found)
        lines += [f"{result.study}: {sentence}" for result in outcome.results for sentence in result.verdicts]
    return "\n".join([*lines, f"report: {outcome.report}"])
