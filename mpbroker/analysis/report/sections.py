"""The parts of the page below its head: verdicts, one section per study, the stages explained, parameters.

Runs in the process of a command. Every function returns HTML in which all text from outside is escaped.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mpbroker.analysis.engine.running import finding, wording
from mpbroker.analysis.engine.running.wording import STAGE_NAMES
from mpbroker.analysis.report import palette
from mpbroker.analysis.report.look import dress, is_empty, is_over_time
from mpbroker.analysis.report.markup import script_json, sentence, slug, text
from mpbroker.analysis.report.table_view import counted_rows, moment_text, swatch_class, table_html, value_text

_MAX_META_ROWS = 400
BESIDE = "side_by_side"
LEAST_SPENT = 0.02
_NO_COST = "No study on this page looked at what request time is spent on; their sentences stand below."


def answer_html(results: Sequence[Any], meta: Mapping[str, Any]) -> str:
    """The question that a scenario asks, its answer, and where the reports of its variants are; "" where none is
    asked."""
    answer = "".join(f"<p>{sentence(one)}</p>" for result in results for one in result.answer)
    if not answer:
        return ""
    answer = f'<div class="answer">{answer}</div>{_beside_html(results)}'
    pages = [(one["name"], one["report"]) for one in meta.get("variants", ()) if one.get("report")]
    links = " ".join(f'<a href="{text(page)}">{text(name)}</a>' for name, page in pages)
    more = f'<p class="files">Each variant has a report of its own: {links}</p>' if links else ""
    return (
        f'<section id="answer" aria-labelledby="answer-h"><h2 '
        f'id="answer-h">{text(meta.get("question") or "The answer")}</h2>'
        f"{answer}{more}</section>"
    )


def _beside_html(results: Sequence[Any]) -> str:
    """The variants beside each other, as the laboratory's table side_by_side has them."""
    found = [result.tables[BESIDE] for result in results if BESIDE in result.tables]
    if not found:
        return ""
    names, rows = found[0].column_names, found[0].to_pylist()
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{text(row[names[0]])}</th>'
        + "".join(f"<td>{sentence(str(row[name]))}</td>" for name in names[1:])
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll wrap beside"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def spent_html(shares: Mapping[str, float]) -> str:
    """Where the time of all requests goes: a strip in the order of the way, and the same in words, the largest
    first."""
    shown = {stage: share for stage, share in shares.items() if share >= LEAST_SPENT and stage in palette.STAGES}
    if not shown:
        return ""
    strip = "".join(
        f'<span class="{swatch_class(stage)}" style="flex:{share:.4f} 0 0" '
        f'title="{text(STAGE_NAMES[stage])} {wording.share(share)}"></span>'
        for stage, share in shown.items()
    )
    largest = sorted(shown, key=lambda stage: -shown[stage])
    words = wording.listed([f"{wording.share(shown[stage])} {STAGE_NAMES[stage]}" for stage in largest])
    said = sentence(f"Of the time of all requests: {words}.")
    return f'<div class="spent" aria-hidden="true">{strip}</div><p class="lead">{said}</p>'


def leading_html(results: Sequence[Any]) -> str:
    """The ranked list of what to change."""
    rows = "".join(
        f'<li><p>{sentence(one.sentence)} <span class="cost">{sentence(_capital(one.cost))}.</span></p>'
        f'<p class="change">{text(one.change)}</p></li>'
        for one in finding.leading(results)
    )
    return f'<ol class="leading">{rows}</ol>' if rows else f'<p class="lead">{_NO_COST}</p>'


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def verdicts_html(results: Iterable[Any]) -> str:
    """Per study its sentences, the most important first."""
    parts = []
    for result in results:
        sentences = "".join(f"<li>{sentence(one)}</li>" for one in result.verdicts) or "<li>No finding.</li>"
        parts.append(f'<li><a href="#{_anchor(result)}">{text(_title(result))}</a><ol>{sentences}</ol></li>')
    return f'<ol class="verdicts">{"".join(parts)}</ol>'


def study_html(result: Any, time_range: Sequence[str] = ()) -> str:
    """A study: what it answers, its figures (those with something to see), its tables."""
    anchor = _anchor(result)
    figures = "".join(figure_html(result.study, figure, time_range) for figure in _seen(result))
    tables = "".join(
        _table_html(result.study, name, table, first=place == 0)
        for place, (name, table) in enumerate(result.tables.items())
    )
    if not figures and not tables:
        figures = '<p class="lead">This trace has nothing to show here.</p>'
    return (
        f'<section class="study" id="{anchor}" aria-labelledby="{anchor}-h"><h2 '
        f'id="{anchor}-h">{text(_title(result))}</h2>'
        f'<p class="lead">{text(" ".join(result.summary.split()))}</p>{figures}{tables}</section>'
    )


def _seen(result: Any) -> list[Any]:
    return [figure for figure in result.figures if not is_empty(figure.spec)]


def figure_html(study: str, figure: Any, time_range: Sequence[str] = ()) -> str:
    """A figure with its heading, how to read it, and its spec as inert JSON for the page's script."""
    name = slug(f"{study}-{figure.name}")
    heading = f'<h3 id="{name}-h">{text(figure.title)}</h3>'
    spec, notes = dress(figure.spec, time_range)
    over_time = " data-time" if is_over_time(spec) else ""
    caption = " ".join([figure.caption, *notes])
    names = [
        str(trace["name"])
        for trace in spec["data"]
        if trace.get("name") and trace.get("showlegend", True) and trace.get("visible", True) is True
    ]
    return (
        f'<figure id="{name}" aria-labelledby="{name}-h"><div '
        f'class="over">{heading}{_choices_html(name, figure.title, spec["choices"])}'
        f'</div><figcaption id="{name}-c">{text(caption)}</figcaption><div class="chart" role="img" '
        f'aria-labelledby="{name}-h" aria-describedby="{name}-c" data-spec="{name}-spec"{over_time} '
        f'data-series="{len(names)}" data-longest="{max(map(len, names), default=0)}" '
        f'style="min-height:{int(spec["layout"]["height"])}px"></div>'
        f'<script type="application/json" id="{name}-spec">{script_json(spec)}</script></figure>'
    )


def _choices_html(name: str, title: str, choices: list[dict[str, Any]]) -> str:
    """A menu per choice of what the figure shows; the page's script acts on it."""
    menus = []
    for choice in choices:
        options = "".join(
            f'<option value="{place}"{" selected" if place == choice["active"] else ""}>'
            f"{text(html.unescape(button['label']))}</option>"
            for place, button in enumerate(choice["buttons"])
        )
        menus.append(f'<select data-of="{name}-spec" aria-label="Shown in: {text(title)}">{options}</select>')
    return "".join(menus)


def contents_html(results: Iterable[Any]) -> str:
    """The table of contents: the page's parts, and the figures of each study."""
    items = [
        '<li><a href="#findings">What to change</a></li>',
        '<li><a href="#trust">The trace</a></li>',
        '<li><a href="#sentences">What the studies say</a></li>',
    ]
    for result in results:
        inner = "".join(
            f'<li><a href="#{slug(f"{result.study}-{figure.name}")}">{text(figure.title)}</a></li>'
            for figure in _seen(result)
        )
        items.append(
            '<li><a class="name" '
            f'href="#{_anchor(result)}">{text(_title(result))}</a>{f"<ol>{inner}</ol>" if inner else ""}</li>'
        )
    items += ['<li><a href="#stages">Stages</a></li>', '<li><a href="#made-with">Made with</a></li>']
    return f'<nav class="toc" aria-label="Contents"><div><h2>Contents</h2><ol>{"".join(items)}</ol></div></nav>'


def stages_html() -> str:
    """The stages of a request in their order, with the colour that each has in all figures."""
    rows = "".join(
        f'<div><dt><span class="swatch {swatch_class(name)}"></span>{text(STAGE_NAMES[name])}</dt>'
        f"<dd>{text(meaning)} <code>{name}</code></dd></div>"
        for name, (_, meaning) in palette.STAGES.items()
    )
    return (
        '<p class="lead">The way of a request through the broker. Warm colours are waiting, cool colours are work: '
        "teal in a processor, blue in a handler. Grey-violet is waiting that the client asked for.</p>"
        f'<dl class="way">{rows}</dl>'
    )


def stage_colors_css() -> str:
    """One rule per stage and percentile for swatches, light and dark."""
    shades = {**{name: shade for name, (shade, _) in palette.STAGES.items()}, **palette.PERCENTILES, **palette.NAMED}
    light = "".join(f".{swatch_class(name)}{{--c:{shade.light}}}" for name, shade in shades.items())
    dark = "".join(f".{swatch_class(name)}{{--c:{shade.dark}}}" for name, shade in shades.items())
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def made_with_html(meta: Mapping[str, Any]) -> str:
    """Inputs, parameters and versions: everything meta.json says, one row a value."""
    rows = list(_flat(meta))
    body = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in rows[:_MAX_META_ROWS]
    )
    more = f"<p>{len(rows) - _MAX_META_ROWS} more values stand in meta.json.</p>" if len(rows) > _MAX_META_ROWS else ""
    return (
        f'<div class="scroll wrap"><table><caption>The same as <a href="meta.json">meta.json</a></caption>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def _flat(value: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{before}{str(key).replace('_', ' ')}"
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{name} · ")
        elif isinstance(inner, list | tuple):
            shown = ", ".join(str(one) for one in inner[:20]) + (
                f" and {len(inner) - 20} more" if len(inner) > 20 else ""
            )
            yield name, shown or "none"
        else:
            yield name, inner[:2000] if isinstance(inner, str) else moment_text(str(key), inner) or value_text(inner)


def _table_html(study: str, name: str, table: Any, first: bool) -> str:
    stem = f"tables/{study}.{name}"
    title = name.replace("_", " ")
    return (
        f"<details{' open' if first else ''}><summary>Table: "
        f"{text(title)}<span>{counted_rows(table.num_rows)}</span></summary>"
        f'<div class="inside">{table_html(title, stem, table)}</div></details>'
    )


def _title(result: Any) -> str:
    return str(result.study or "study").replace("_", " ")


def _anchor(result: Any) -> str:
    return "study-" + slug(result.study or "study")
