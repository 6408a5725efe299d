"""The headline of a scenario: sentences that answer its question, in the way that its table `answer` names. Pure.

    phases   how much slower the measured group is in other phases than alone, in each variant
    growth   how its latency grows from phase to phase, and what gives out first
    level    what a request costs in one phase, and where that time goes

Latencies are net p99s: from the intended send time, without the client's own wait for a core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.lab import generator_table, repeats, side_by_side
from mpbroker.analysis.lab.latency_table import PART_NAMES, PARTS
from mpbroker.analysis.lab.scenario import Scenario

Row = dict[str, Any]
KNEE = 10.0  # times the latency of the lightest phase: from there on it is not the same service
ALIKE = 1.2  # variants whose answers differ by less are told to be alike
MIN_REQUESTS = 100  # for a p99
PARTS_NAMED = 3
ONE_RUN = "One run each describes, it does not prove: `--repeat 5`."


def answer(
    scenario: Scenario,
    latency: Sequence[Row],
    waits: Sequence[Row],
    generators: Sequence[Row] = (),
    runs: Sequence[Row] = (),
) -> list[str]:
    """Sentences, the headline first. `latency`, `waits`, `generators`: rows of client_latency, where_it_waits and
    generator_load; `runs`: of repeats.runs_table, where variants were repeated."""
    mine = [row for row in latency if row["group"] == scenario.measured]
    parts = [row for row in waits if row["group"] == scenario.measured]
    if scenario.answer.how == "growth":
        return _growth(scenario, mine, parts, generators)
    found = _WAYS[scenario.answer.how](scenario, mine, parts)
    many = len(scenario.variants) >= side_by_side.MANY
    if many:  # a table has the rest
        found = [words for words in found if not words.startswith("“")] or _ends(scenario, mine)
        found = [words.replace("It is lowest", f"p99 of {scenario.measured} is lowest") for words in found]
    if runs:
        judged = side_by_side.judged(scenario, runs) if many else []
        found = [words.replace(f" {ONE_RUN}", "") for words in found]
        found = [*judged, *found] if judged else [*found, *repeats.sentences(scenario, runs)]
    asked = {scenario.answer.alone, *(scenario.answer.under if scenario.answer.how == "phases" else ())}
    weak = generator_table.sentences([row for row in generators if row["phase"] in asked], scenario.measured)
    return [*found, *weak]


def _phases(scenario: Scenario, latency: Sequence[Row], _: Sequence[Row]) -> list[str]:
    found: list[str] = []
    worst: dict[str, Row] = {}
    for variant in scenario.variants:
        rows = {row["phase"]: row for row in latency if row["variant"] == variant.name}
        alone = rows.get(scenario.answer.alone)
        under = [rows[name] for name in scenario.answer.under if name in rows]
        if alone is None or not under or not alone["net_p99_us"]:
            continue
        under.sort(key=lambda row: -row["net_p99_us"])
        worst[variant.name] = under[0]
        found.append(_slowed(scenario, variant.name, alone, under))
    return [*found, *_most_and_least(worst), *_few([row for row in latency if row["phase"] == scenario.answer.alone])]


def _slowed(scenario: Scenario, variant: str, alone: Row, under: list[Row]) -> str:
    """`“default”: the p99 of quiet is 0.54 ms alone and 9.5 ms under “flood”: 18 times.`"""
    worst, *others = under
    words = (
        f"{_prefix(scenario, variant)}p99 of {scenario.measured} is {_ms(alone)} alone (“{alone['phase']}”) and "
        f"{_ms(worst)} under “{worst['phase']}”: {_times(worst['net_p99_us'] / alone['net_p99_us'])}"
    )
    more = [f"{_ms(row)} under “{row['phase']}” ({_times(row['net_p99_us'] / alone['net_p99_us'])})" for row in others]
    return words + (f"; {wording.listed(more)}." if more else ".")


def _most_and_least(worst: dict[str, Row]) -> list[str]:
    """How much the variants differ where each is worst."""
    if len(worst) < 2:
        return []
    ranked = sorted(worst, key=lambda name: worst[name]["net_p99_us"])
    least, most = ranked[0], ranked[-1]
    ratio = worst[most]["net_p99_us"] / max(worst[least]["net_p99_us"], 0.001)
    if ratio < ALIKE:
        return [f"The variants hardly differ in that. {ONE_RUN}"]
    return [
        f"It is lowest with “{least}” ({_ms(worst[least])}) and highest with “{most}” ({_ms(worst[most])}), "
        f"{_times(ratio)} as much. {ONE_RUN}"
    ]


def _ends(scenario: Scenario, latency: Sequence[Row]) -> list[str]:
    """The lowest and the highest in the phase that is looked at."""
    return _most_and_least({row["variant"]: row for row in latency if row["phase"] == scenario.answer.alone})


def _growth(scenario: Scenario, latency: Sequence[Row], waits: Sequence[Row], generators: Sequence[Row]) -> list[str]:
    found: list[str] = []
    for variant in scenario.variants:
        rows = [row for row in latency if row["variant"] == variant.name]
        if not rows or not rows[0]["net_p99_us"]:
            continue
        first, base = rows[0], rows[0]["net_p99_us"]
        limit = _generator_limit(rows, generators)
        if limit is not None:
            found += _unknown_limit(scenario, rows, *limit)
            continue
        knee = _knee([row["net_p99_us"] for row in rows])
        prefix = _prefix(scenario, variant.name)
        if knee is None:
            last = max(rows, key=lambda row: row["net_p99_us"])
            found.append(
                f"{prefix}p99 of {scenario.measured} goes from {_ms(first)} (“{first['phase']}”) to at most "
                f"{_ms(last)} (“{last['phase']}”): {_times(last['net_p99_us'] / base)}; no load is too much for good."
            )
            continue
        held = rows[knee - 1]
        found.append(
            f"{prefix}p99 of {scenario.measured} holds up to “{held['phase']}” ({_ms(held)}) and breaks at "
            f"“{rows[knee]['phase']}” ({_ms(rows[knee])}, {_times(rows[knee]['net_p99_us'] / base)} that of "
            f"“{first['phase']}”)."
        )
        found += _gives_out(waits, variant.name, rows[knee]["phase"])
    return [*found, *_few(latency)]


def _generator_limit(rows: Sequence[Row], generators: Sequence[Row]) -> tuple[int, Row] | None:
    """The first phase from which on the generator gave out in every one, and its row there."""
    place, found = len(rows), None
    while place:
        row = rows[place - 1]
        gave_out = generator_table.worst(generators, row["variant"], row["phase"], row["group"])
        if gave_out is None:
            break
        place, found = place - 1, gave_out
    return None if found is None else (place, found)


def _unknown_limit(scenario: Scenario, rows: Sequence[Row], place: int, generator: Row) -> list[str]:
    """The generator gave out first: what the broker did until then, and that no more is known of it."""
    prefix = _prefix(scenario, rows[0]["variant"])
    until, held = "", rows[max(0, place - 1)]
    if place:
        until = (
            f"p99 of {scenario.measured} is {_ms(held)} at “{held['phase']}” ({_ms(rows[0])} at “{rows[0]['phase']}”); "
        )
    return [
        f"{prefix}{until}from “{rows[place]['phase']}” on the load generator gives out, not the broker "
        f"({generator_table.told(generator)}): the broker's limit is not known."
    ]


def _knee(p99s: Sequence[float]) -> int | None:
    """The first phase from which on every one passes KNEE times the first: one that is worse than those after it is
    noise, not a limit."""
    place = len(p99s)
    while place and p99s[place - 1] > KNEE * p99s[0]:
        place -= 1
    return place if 0 < place < len(p99s) else None


def _gives_out(waits: Sequence[Row], variant: str, phase: str) -> list[str]:
    """Where the slowest requests of that phase waited."""
    for row in waits:
        if (row["variant"], row["phase"]) == (variant, phase) and row["which"] != "all" and row["net_us"] > 0:
            part = max(PARTS, key=lambda name: row[name])
            share = wording.share(row[part] / row["net_us"])
            return [f"What gives out first there: {share} of the time of its slowest 1 % is {PART_NAMES[part]}."]
    return []


def _level(scenario: Scenario, latency: Sequence[Row], waits: Sequence[Row]) -> list[str]:
    found, phase = [], scenario.answer.alone
    for row in latency:
        if row["phase"] != phase:
            continue
        words = (
            f"{_prefix(scenario, row['variant'])}{'a' if len(scenario.variants) > 1 else 'A'} request of "
            f"{scenario.measured} takes "
            f"{wording.duration(row['net_p50_us'] * 1000)} (p50) and {_ms(row)} (p99) in phase “{phase}”"
        )
        found.append(words + _spent(waits, row["variant"], phase) + ".")
    return [*found, *_few([row for row in latency if row["phase"] == phase])]


def _spent(waits: Sequence[Row], variant: str, phase: str) -> str:
    """`; of the mean of 0.5 ms, 40 % is …, 30 % …`."""
    for row in waits:
        if (row["variant"], row["phase"], row["which"]) == (variant, phase, "all") and row["net_us"] > 0:
            # What requests that were read together seem to wait in the socket is missing on their way: below 0 is none.
            spent = {part: max(0.0, row[part]) for part in PARTS}
            largest = sorted(PARTS, key=lambda part: -spent[part])[:PARTS_NAMED]
            named = [f"{wording.share(spent[part] / sum(spent.values()))} {PART_NAMES[part]}" for part in largest]
            return f"; of the mean of {wording.duration(row['net_us'] * 1000)} it spends {wording.listed(named)}"
    return ""


def _few(rows: Sequence[Row]) -> list[str]:
    least = min((row["requests"] for row in rows), default=MIN_REQUESTS)
    if least >= MIN_REQUESTS:
        return []
    return [f"A phase has only {wording.counted(least, 'request')}: its p99 is next to its slowest one. Run it longer."]


def _prefix(scenario: Scenario, variant: str) -> str:
    return f"“{variant}”: " if len(scenario.variants) > 1 else ""


def _ms(row: Row) -> str:
    return wording.duration(row["net_p99_us"] * 1000)


def _times(ratio: float) -> str:
    if ratio < 1.05:
        return "not slower"
    return f"{ratio:.0f} times" if ratio >= 9.5 else f"{ratio:.1f} times"


_WAYS: dict[str, Callable[[Scenario, Sequence[Row], Sequence[Row]], list[str]]] = {
    "phases": _phases,
    "level": _level,
}
