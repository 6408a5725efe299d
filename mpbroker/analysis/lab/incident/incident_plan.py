"""What an incident's file says: variants, how many elections, flood and probes. Pure but for reading the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.analysis.lab.toml_fields import Field, ScenarioError, read_fields

FOLDER = Path(__file__).parent
ELECTIONS_MAX, SETTLE_MS_MAX = 200, 10_000


class IncidentVariant(NamedTuple):
    """One configuration of all three brokers; `broker`: overrides by Kafka's names."""

    name: str
    control_listener: bool
    broker: dict[str, Any]


class Flood(NamedTuple):
    """Producers of `noise` on broker A, as fast as answers come."""

    connections: int
    in_flight: int
    value_bytes: int


class Probes(NamedTuple):
    """Producers of `hot`, open loop, acks=all and acks=1: so many connections and requests a second of each kind."""

    connections: int
    rate_per_s: float
    timeout_ms: int


class Incident(NamedTuple):
    """`noise`: settings of the flood's topic; `broker`: of the brokers in every variant."""

    name: str
    question: str
    elections: int
    settle_ms: int
    flood: Flood
    probes: Probes
    noise: dict[str, Any]
    broker: dict[str, Any]
    variants: tuple[IncidentVariant, ...]

    def shorter(self, elections: int) -> Incident:
        """The same with fewer elections."""
        return self._replace(elections=elections)


_TOP = (
    Field("question", str),
    Field("elections", int, least=1, most=ELECTIONS_MAX),
    Field("settle_ms", int, least=20, most=SETTLE_MS_MAX),
    Field("flood", dict),
    Field("probes", dict),
    Field("noise", dict, default={}),
    Field("broker", dict, default={}),
    Field("variant", list),
)
_FLOOD = (
    Field("connections", int, least=1, most=1024),
    Field("in_flight", int, least=1, most=100),
    Field("value_bytes", int, least=1, most=1_000_000),
)
_PROBES = (
    Field("connections", int, least=1, most=100),
    Field("rate_per_s", float, least=1, most=2000),
    Field("timeout_ms", int, least=100, most=60_000),
)
_VARIANT = (Field("name", str), Field("control_listener", bool, default=False), Field("broker", dict, default={}))


def names() -> list[str]:
    """The incidents that come with mpbroker."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Incident:
    """One by its name; ScenarioError names what is wrong in its file."""
    path = FOLDER / f"{name}.toml"
    try:
        return parse(name, tomllib.loads(path.read_text()))
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


def parse(name: str, document: dict[str, Any]) -> Incident:
    """Out of a parsed document."""
    top = read_fields("", document, _TOP)
    rows = top["variant"]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ScenarioError("variant: at least one [[variant]] is needed")
    variants = tuple(IncidentVariant(**read_fields(f"variant {n}", row, _VARIANT)) for n, row in enumerate(rows, 1))
    if len({variant.name for variant in variants}) < len(variants):
        raise ScenarioError("two of the variants have one name")
    return Incident(
        name,
        top["question"],
        top["elections"],
        top["settle_ms"],
        Flood(**read_fields("flood", top["flood"], _FLOOD)),
        Probes(**read_fields("probes", top["probes"], _PROBES)),
        top["noise"],
        top["broker"],
        variants,
    )
