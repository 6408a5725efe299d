"""Scenarios as data: a question, broker variants, phases of time and groups of clients, read from TOML.

Pure but for reading the file. Whatever is wrong in a file becomes one sentence that names the place (ScenarioError,
exit code 2). docs/lab.md describes the keys; the scenarios that come with mpbroker stand in
mpbroker/analysis/lab/scenarios/.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.analysis.lab.generator_plan import APIS, ARRIVALS, LOOPS, TALKING
from mpbroker.analysis.lab.schedule import CLOSED
from mpbroker.analysis.lab.toml_fields import Field, ScenarioError, read_fields
from mpbroker.errors import MpbrokerError

FOLDER = Path(__file__).parent / "scenarios"
PROCESSES_MAX, REPEAT_MAX = 16, 100
SECONDS_MAX, LOAD_SECONDS_MAX, CLIENTS_MAX, REQUESTS_MAX = 120.0, 200.0, 1024, 3_000_000


class NoScenario(MpbrokerError):
    """There is no scenario of that name and no such file."""

    exit_code = 2


class Variant(NamedTuple):
    """One broker configuration; `broker`: overrides by Kafka's names. `cores`: so many for the broker and the others
    for the load, where the machine has enough (0: nothing is pinned)."""

    name: str
    control_listener: bool
    broker: dict[str, Any]
    cores: int = 0


class Phase(NamedTuple):
    """A stretch of the run; `share` of all its seconds."""

    name: str
    share: float


class Group(NamedTuple):
    """Clients that do the same thing. `listener` control means: the control plane's where a variant has one, else the
    data listener. `topic`: empty for one of the group's own. `rates`: per phase, requests a second of each client
    (schedule.CLOSED: as fast as answers come). `processes` generate its load (0: as many as its rate asks for).
    `read_bytes_per_s`: of each connection's answers (0: as they come). `group_size`, `turns`: of GeneratorPlan."""

    name: str
    clients: int
    listener: str
    api: str
    topic: str
    loop: str
    arrival: str
    in_flight: int
    value_bytes: int
    records: int
    acks: int
    nice: int
    processes: int
    rates: tuple[float, ...]
    read_bytes_per_s: int = 0
    group_size: int = 0
    turns: int = 10


class Answer(NamedTuple):
    """How the question is answered (answers.py): the way, the phase that others are compared with (or looked at), and
    these others."""

    how: str
    alone: str
    under: tuple[str, ...]


class Scenario(NamedTuple):
    """Everything a file says. `seconds` is the load of one variant; verdicts speak of the group `measured`.
    `options`: for the studies, as `trace study --set` gives them. `repeat`: runs of each variant, unless told."""

    name: str
    question: str
    seconds: float
    studies: tuple[str, ...]
    measured: str
    options: dict[str, str]
    broker: dict[str, Any]
    variants: tuple[Variant, ...]
    phases: tuple[Phase, ...]
    groups: tuple[Group, ...]
    answer: Answer
    repeat: int = 1

    def durations_s(self, seconds: float) -> list[float]:
        """The length of each phase when the whole load takes so long."""
        total = sum(phase.share for phase in self.phases)
        return [seconds * phase.share / total for phase in self.phases]


_SCENARIO = (
    Field("question", str),
    Field("seconds", float, least=0.5, most=SECONDS_MAX),
    Field("repeat", int, default=1, least=1, most=REPEAT_MAX),
    Field("studies", list, default=("latency", "throughput")),
    Field("measured", str),
    Field("options", dict, default={}),
    Field("broker", dict, default={}),
    Field("answer", dict, default={}),
    Field("variant", list),
    Field("phase", list),
    Field("group", list),
)
_ANSWER = (
    Field("how", str, default="", allowed=("phases", "growth", "level")),
    Field("alone", str, default=""),
    Field("under", list, default=()),
)
_VARIANT = (
    Field("name", str),
    Field("control_listener", bool, default=False),
    Field("cores", int, default=0, least=0, most=1024),
    Field("broker", dict, default={}),
)
_PHASE = (Field("name", str), Field("share", float, default=1.0, least=0.001, most=1000.0))
_GROUP = (
    Field("name", str),
    Field("clients", int, least=1, most=CLIENTS_MAX),
    Field("listener", str, default="data", allowed=("data", "control")),
    Field("api", str, allowed=APIS),
    Field("topic", str, default=""),
    Field("loop", str, default="open", allowed=LOOPS),
    Field("arrival", str, default="poisson", allowed=ARRIVALS),
    Field("in_flight", int, default=5, least=1, most=1000),
    Field("value_bytes", int, default=100, least=1, most=1_000_000),
    Field("records", int, default=1, least=1, most=10_000),
    Field("acks", int, default=-1, allowed=(-1, 1)),
    Field("nice", int, default=0, least=0, most=19),
    Field("processes", int, default=0, least=0, most=PROCESSES_MAX),
    Field("read_bytes_per_s", int, default=0, least=0, most=1 << 30),
    Field("group_size", int, default=0, least=0, most=CLIENTS_MAX),
    Field("turns", int, default=10, least=1, most=1000),
    Field("phases", list, default=()),
    Field("rate_per_s", (float, dict), default=None),
)


def names() -> list[str]:
    """The scenarios that come with mpbroker."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name_or_path: str) -> Scenario:
    """A scenario by its name, or from a file (anything that ends with .toml)."""
    path = Path(name_or_path) if name_or_path.endswith(".toml") else FOLDER / f"{name_or_path}.toml"
    if not path.is_file() or (not name_or_path.endswith(".toml") and name_or_path not in names()):
        raise NoScenario(f"there is no scenario {name_or_path!r}; there are: {', '.join(names())}, or any file *.toml")
    try:
        document = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    try:
        return parse(path.stem, document)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


def parse(name: str, document: dict[str, Any]) -> Scenario:
    """A scenario out of a parsed document; ScenarioError names what is wrong."""
    top = read_fields("", document, _SCENARIO)
    phases = tuple(Phase(**read_fields(f"phase {n}", row, _PHASE)) for n, row in _rows("phase", top["phase"]))
    groups = tuple(_group(n, row, phases) for n, row in _rows("group", top["group"]))
    variants = tuple(
        Variant(**read_fields(f"variant {n}", row, _VARIANT)) for n, row in _rows("variant", top["variant"])
    )
    scenario = Scenario(
        name,
        top["question"],
        top["seconds"],
        tuple(top["studies"]),
        top["measured"],
        {key: str(value) for key, value in top["options"].items()},
        top["broker"],
        variants,
        phases,
        groups,
        _answer(top["answer"], [phase.name for phase in phases]),
        top["repeat"],
    )
    _check(scenario)
    return scenario


def _answer(row: dict[str, Any], phases: list[str]) -> Answer:
    """Without a word about it: the first phase beside the others, or what the only one costs."""
    fields = read_fields("answer", row, _ANSWER)
    how = fields["how"] or ("phases" if len(phases) > 1 else "level")
    alone = fields["alone"] or phases[-1 if how == "level" else 0]
    under = tuple(fields["under"]) or tuple(name for name in phases if name != alone)
    unknown = {alone, *under} - set(phases)
    if unknown:
        raise ScenarioError(f"answer: there is no phase {', '.join(sorted(map(repr, unknown)))}")
    return Answer(how, alone, under)


def _rows(key: str, rows: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ScenarioError(f"{key}: at least one [[{key}]] is needed")
    return list(enumerate(rows, 1))


def _group(number: int, row: dict[str, Any], phases: tuple[Phase, ...]) -> Group:
    place = f"group {number}"
    fields = read_fields(place, row, _GROUP)
    active, rate = fields.pop("phases") or [phase.name for phase in phases], fields.pop("rate_per_s")
    given = rate if isinstance(rate, dict) else dict.fromkeys(active, rate)
    unknown = {*given, *active} - {phase.name for phase in phases}
    if unknown:
        raise ScenarioError(f"{place}: there is no phase {', '.join(sorted(map(repr, unknown)))}")
    if fields["loop"] == "closed":
        if rate is not None:
            raise ScenarioError(f'{place}: rate_per_s belongs to loop = "open"')
        given = dict.fromkeys(active, CLOSED)
    elif any(
        isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100_000
        for value in given.values()
    ):
        raise ScenarioError(f"{place}: rate_per_s is more than 0 and at most 100000 requests a second of each client")
    if fields["api"] in TALKING:
        if row.get("in_flight", 1) != 1:
            raise ScenarioError(f"{place}: in_flight is 1 for api={fields['api']}: it waits for each answer")
        fields["in_flight"] = 1
    return Group(**fields, rates=tuple(float(given.get(phase.name, 0)) for phase in phases))


def _check(scenario: Scenario) -> None:
    """What no single field can say."""
    for what, rows in (("variant", scenario.variants), ("phase", scenario.phases), ("group", scenario.groups)):
        if len({row.name for row in rows}) < len(rows):
            raise ScenarioError(f"two of the {what}s have one name")
    if scenario.measured not in {group.name for group in scenario.groups}:
        raise ScenarioError(f"measured: there is no group {scenario.measured!r}")
    if sum(group.clients for group in scenario.groups) > CLIENTS_MAX:
        raise ScenarioError(f"the groups have more than {CLIENTS_MAX} clients together")
    check_seconds(scenario, scenario.seconds)


def check_seconds(scenario: Scenario, seconds: float) -> None:
    """A run must end by itself within five minutes, and its log must fit into memory."""
    if not 0.5 <= seconds <= SECONDS_MAX or seconds * len(scenario.variants) > LOAD_SECONDS_MAX:
        raise ScenarioError(
            f"{seconds:g} seconds for each of {len(scenario.variants)} variants: allowed are 0.5 to "
            f"{SECONDS_MAX:g}, and {LOAD_SECONDS_MAX:g} for all variants together"
        )
    requests = sum(
        group.clients * max(rate, 0) * duration
        for group in scenario.groups
        for rate, duration in zip(group.rates, scenario.durations_s(seconds), strict=True)
    )
    if requests > REQUESTS_MAX:
        raise ScenarioError(f"{requests:.0f} requests are intended in one variant; at most {REQUESTS_MAX} are allowed")
