"""What `trace study` and `lab run` print of an outcome: the answer, the ranked findings, then every study's sentences.
Runs in the command's process."""

from typing import Any


def outcome_text(outcome: Any, sentences: bool = True) -> str:
    """Of a runner's Outcome. `sentences`: those of the studies, too; they stand in the report in any case."""
    from mpbroker.analysis.engine.running import finding

    lines = [f"note: {sentence}" for sentence in outcome.meta["sentences"]]
    answer = [sentence for result in outcome.results for sentence in result.answer]
    if answer:
        lines += [outcome.meta.get("question", "answer:"), *(f"  {sentence}" for sentence in answer), ""]
    found = finding.leading(outcome.results)
    if found:
        lines += ["What costs most time, and what to change:", *finding.lines(found)]
    if sentences:
        lines += [""] * bool(found)
        lines += [f"{result.study}: {sentence}" for result in outcome.results for sentence in result.verdicts]
    return "\n".join([*lines, f"report: {outcome.report}"])
