"""What a study is: two lines that say what it answers, what it needs, and a function from an engine to a result.

Studies are the modules of mpbroker/analysis/studies; each has a module-level `STUDY`. To add one: that file and its
test. Runs in a command's process; needs no third-party package itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from mpbroker.analysis.engine.engines.engine import Ask, Engine
    from mpbroker.analysis.engine.running.finding import Finding

Needs = Literal["rollup", "requests", "order"]


class Figure(NamedTuple):
    """A picture of a result. `spec`: {"data": [...], "layout": {...}} as plotly reads it, nothing but JSON values."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]


@dataclass
class StudyResult:
    """What a study found.

    findings    causes with the request time they explain; the run's list takes the dearest of all studies
    verdicts    whole sentences with numbers, the most important first
    answer      of a scenario: sentences that answer the question it asks
    study       set by the runner
    """

    tables: "dict[str, pa.Table]" = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    study: str = ""
    summary: str = ""
    findings: "list[Finding]" = field(default_factory=list)
    answer: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StudyParameters:
    """What the command line said. `baseline`: an engine of the same kind over the traces to compare with
    (--baseline)."""

    window_ms: int = 1000
    warmup_ms: int | None = None  # None: the study finds the steady state itself
    target_p99_ms: float | None = None
    exemplars: int = 50
    baseline: "Engine | None" = None
    options: Mapping[str, str] = field(default_factory=dict)  # --set name=value, for studies with knobs of their own


class Study(NamedTuple):
    """`needs`: "rollup" (any size), "requests" (record level), "order" (record level, and refuses sampled traces).

    `asks`: which tables `run` will ask for, as far as this can be told from the activity by run and API; what all
    studies of a run ask for is read in one scan.
    """

    name: str
    summary: str
    needs: Needs
    run: "Callable[[Engine, StudyParameters], StudyResult]"
    asks: "Callable[[Engine, pa.Table, StudyParameters], list[Ask]] | None" = None
