"""Prometheus' text format, version 0.0.4: families of samples, escaped; pure, used by the admin process.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, SUMMARY, HISTOGRAM = "counter", "gauge", "summary", "histogram"


class Sample(NamedTuple):
    """One line. `suffix` follows the family's name: `_count`, `_sum` or `_bucket`."""

    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one name, with one sentence and a type."""

    name: str
    type: str
    sentence: str
    samples: list[Sample]


def labelled(value: float, suffix: str = "", /, **labels: object) -> Sample:
    """A sample with its labels in the order given."""
    return Sample(tuple((name, str(text)) for name, text in labels.items()), value, suffix)


def render(families: Iterable[Family]) -> bytes:
    """The page. A family without samples is left out."""
    return "".join(line for family in families if family.samples for line in _lines(family)).encode()


def _lines(family: Family) -> Iterator[str]:
    sentence = family.sentence.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {family.name} {sentence}\n# TYPE {family.name} {family.type}\n"
    for labels, value, suffix in family.samples:
        told = ",".join(f'{name}="{_escape(text)}"' for name, text in labels)
        named = f"{family.name}{suffix}"
        yield f"{named}{{{told}}} {number(value)}\n" if told else f"{named} {number(value)}\n"


def _escape(text: str) -> str:
    """Of a label: names of clients and topics are other people's texts."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Whole numbers without a point, infinity as Prometheus writes it."""
    if isinstance(value, int):
        return str(value)
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
