"""The first thing on a page: how much of the truth the trace holds, and how good its clock is.

Runs in the process of a command. `loss` and `clock` are what engine.trace_input found; a card warns in words and by its
shape, not by colour alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpbroker.analysis.report.markup import sentence, text
from mpbroker.analysis.report.table_view import grouped

if TYPE_CHECKING:
    from mpbroker.analysis.engine.input.clock_line import ClockQuality
    from mpbroker.analysis.engine.input.losses import Loss

#: Above this share of lost requests percentiles are not to be trusted (and of the clock: brokers cannot be compared).
DOUBTFUL_LOSS, DOUBTFUL_CLOCK_NS = 0.01, 1_000_000
_MAX_SENTENCES = 20


class Card(NamedTuple):
    """One fact: its name, its value, what it means, and whether it is a warning."""

    name: str
    value: str
    meaning: str
    warns: bool = False


def health_html(loss: "Loss", clock: "ClockQuality", sentences: Sequence[str]) -> str:
    """The cards, and the sentences about damaged files and gaps."""
    cards = [*_loss_cards(loss), *_clock_cards(clock)]
    body = "".join(
        f'<div class="{"warn" if card.warns else "ok"}"><dt>{text(card.name)}</dt><dd>{text(card.value)}</dd>'
        f"<dd>{text(card.meaning)}</dd></div>"
        for card in cards
    )
    said = "".join(f"<li>{sentence(one)}</li>" for one in sentences[:_MAX_SENTENCES])
    if len(sentences) > _MAX_SENTENCES:
        said += f"<li>{len(sentences) - _MAX_SENTENCES} more stand in meta.json.</li>"
    return f'<dl class="cards">{body}</dl>' + (f'<ul class="sentences">{said}</ul>' if said else "")


def doubts(loss: "Loss", clock: "ClockQuality") -> list[str]:
    """Sentences for the head of the page: why its figures are not to be trusted. Empty when they are."""
    return [
        f"{card.name}: {card.value} ({card.meaning}). See “What the trace holds”."
        for card in (*_loss_cards(loss), *_clock_cards(clock))
        if card.warns
    ]


def _loss_cards(loss: "Loss") -> list[Card]:
    share, lost = loss.dropped_share, loss.dropped + loss.missing
    damaged, gaps = loss.damaged_files, len(loss.gaps)
    if share > DOUBTFUL_LOSS:
        meaning = "more than 1 %: do not trust its percentiles"
    else:
        meaning = (
            "every finished request left its record" if lost == 0 else "of all finished requests; percentiles hold"
        )
    cards = [
        Card("Requests recorded", grouped(loss.records), f"of {grouped(loss.finished)} finished"),
        Card("Records lost", grouped(lost) if share == 0 else f"{100 * share:.2g} %", meaning, share > DOUBTFUL_LOSS),
        Card(
            "Sampled out",
            grouped(loss.sampled_out),
            "on purpose; the rest carries their weight"
            if loss.sampled_out
            else "sampling was off: order can be studied",
        ),
    ]
    holes = (
        "files whole, sequence without gaps"
        if not damaged and not gaps
        else f"{_counted(damaged, 'damaged file')}, {_counted(gaps, 'gap')} in the sequence"
    )
    return [
        *cards,
        Card("Damage", "none" if not damaged and not gaps else grouped(damaged + gaps), holes, bool(damaged or gaps)),
    ]


def _clock_cards(clock: "ClockQuality") -> list[Card]:
    if not clock.samples:
        return [Card("Clock", "unknown", "no clock samples: wall-clock times are approximate", True)]
    uncertain = clock.max_uncertainty_ns
    doubtful = bool(clock.steps) or uncertain > DOUBTFUL_CLOCK_NS
    stepped = f"the wall clock jumped {_counted(clock.steps, 'time')}" if clock.steps else "the wall clock never jumped"
    meaning = f"at worst, over {_counted(clock.samples, 'sample')}; {stepped}"
    return [Card("Clock", f"±{_duration(uncertain)}", meaning, doubtful)]


def _duration(nanoseconds: float) -> str:
    for step, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= step:
            return f"{nanoseconds / step:.2g} {unit}"
    return f"{nanoseconds:.0f} ns"


def _counted(number: int, thing: str) -> str:
    return f"{grouped(number)} {thing}{'' if number == 1 else 's'}"
