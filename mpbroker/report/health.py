"""The first thing on a page: how much of the truth the trace holds, and how good its clock is.

Runs in the process of a command. `loss` and `clock` are what engine.trace_input found; a card warns in words and by its
shape, not by colour alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mpbroker.report.markup import sentence, text
from mpbroker.report.table_view import grouped

#: Above this share of lost requests percentiles are not to be trusted (and of the clock: brokers cannot be compared).
DOUBTFUL_LOSS, DOUBTFUL_CLOCK_NS = 0.01, 1_000_000
_MOST_SENTENCES = 20


class Card(NamedTuple):
    """One fact: its name, its value, what it means, and whether it is a warning."""

    name: str
    value: str
    meaning: str
    warns: bool = False


def health_html(loss: Any, clock: Any, sentences: Sequence[str]) -> str:
    """The cards, and the sentences about damaged files and gaps."""
    cards = [*_loss_cards(loss), *_clock_cards(clock)]
    body = "".join(f'<div class="{"warn" if card.warns else "ok"}"><dt>{text(card.name)}</dt><dd>{text(card.value)}</dd>'
                   f"<dd>{text(card.meaning)}</dd></div>" for card in cards)
    said = "".join(f"<li>{sentence(one)}</li>" for one in sentences[:_MOST_SENTENCES])
    if len(sentences) > _MOST_SENTENCES:
        said += f"<li>{len(sentences) - _MOST_SENTENCES} more stand in meta.json.</li>"
    return f'<dl class="cards">{body}</dl>' + (f'<ul class="sentences">{said}</ul>' if said else "")


def _loss_cards(loss: Any) -> list[Card]:
    share = loss.dropped / loss.finished if loss.finished else 0.0
    damaged, gaps = _number(loss.damaged_files), _number(loss.gaps)
    if share > DOUBTFUL_LOSS:
        meaning = "more than 1 %: do not trust its percentiles"
    else:
        meaning = "every finished request left its record" if loss.dropped == 0 else "of all finished requests; percentiles hold"
    cards = [Card("Requests recorded", grouped(loss.records), f"of {grouped(loss.finished)} finished"),
             Card("Records lost", grouped(loss.dropped) if share == 0 else f"{100 * share:.2g} %", meaning, share > DOUBTFUL_LOSS),
             Card("Sampled out", grouped(loss.sampled_out), "on purpose; the rest carries their weight" if loss.sampled_out
                  else "sampling was off: order can be studied")]
    holes = "files whole, sequence without gaps" if not damaged and not gaps else f"{damaged} damaged files, {gaps} gaps in the sequence"
    return [*cards, Card("Damage", "none" if not damaged and not gaps else grouped(damaged + gaps), holes, bool(damaged or gaps))]


def _clock_cards(clock: Any) -> list[Card]:
    steps, samples = _number(clock.steps), _number(clock.samples)
    if not samples:
        return [Card("Clock", "unknown", "no clock samples: wall-clock times are approximate", True)]
    uncertain = clock.max_uncertainty_ns
    doubtful = bool(steps) or uncertain > DOUBTFUL_CLOCK_NS
    meaning = f"at worst, over {grouped(samples)} samples; " + (f"the wall clock stepped {steps} times" if steps else "the wall clock never stepped")
    return [Card("Clock", f"±{_duration(uncertain)}", meaning, doubtful)]


def _duration(nanoseconds: float) -> str:
    for step, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= step:
            return f"{nanoseconds / step:.2g} {unit}"
    return f"{nanoseconds:.0f} ns"


def _number(value: Any) -> int:
    """A count, whether it was given as a number or as the things themselves."""
    return len(value) if hasattr(value, "__len__") else int(value or 0)
