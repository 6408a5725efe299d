"""The list at the head of a report, as a run of the study `latency` beside another one gives it."""

import pytest

pytest.importorskip("pyarrow")

from collections.abc import Sequence
from pathlib import Path

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.reusing_engine import ReusingEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import finding
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Study, StudyParameters
from mpbroker.analysis.studies import latency


def leading(
    paths: Sequence[Path], study: Study, parameters: StudyParameters = StudyParameters(), beside: Study = latency.STUDY
) -> list[Finding]:
    """The dearest first."""
    engine = ReusingEngine(choose_engine("local", open_input(list(paths))))
    try:
        return finding.leading([one.run(engine, parameters) for one in (beside, study)])
    finally:
        engine.close()
