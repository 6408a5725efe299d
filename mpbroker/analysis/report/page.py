"""The report: one self-contained HTML page with what the studies found, in R/report.html.

Runs in the process of a command. The page loads nothing: plotly.js from the plotly wheel stands in it once, and a
security policy forbids it the network and every script but its own three. Figures follow the reader's light or dark
ground.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.report import health, palette, sections
from mpbroker.analysis.report.health import health_html
from mpbroker.analysis.report.look import FONT
from mpbroker.analysis.report.markup import script_hash, script_json, text
from mpbroker.analysis.report.template import template

if TYPE_CHECKING:
    from mpbroker.analysis.engine.running.study import StudyResult

FILE_NAME = "report.html"


def write(out_dir: Path, results: "Sequence[StudyResult]", input: Any, meta: dict[str, Any]) -> Path:
    """Write R/report.html and return its path.

    `input` has .loss and .clock as engine.trace_input.TraceInput; `meta` is what meta.json says (optional keys `title`,
    `created`, `first_epoch_ns`, `last_epoch_ns`, `engine`). Tables are expected in R/tables/<study>.<table>.parquet and
    .csv. Raises OSError where it cannot write.
    """
    path = Path(out_dir) / FILE_NAME
    path.write_text(page_html(results, input, meta), encoding="utf-8")
    return path


def page_html(results: "Sequence[StudyResult]", input: Any, meta: dict[str, Any]) -> str:
    """The whole page."""
    plotly, own = _plotly_source(), _resource("page.js")
    look = {"templates": {ground: template(ground) for ground in ("light", "dark")}, "dark": palette.dark_of_light()}
    title = str(meta.get("title") or "Where requests spent their time")
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            _policy(plotly, own),
            '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" '
            'content="light dark">',
            f"<title>{text(title)} – "
            f"mpbroker</title><style>{_colors_css()}{_resource('page.css')}{sections.stage_colors_css()}</style></head><body>",
            '<a class="skip" href="#findings">Skip to the findings</a><div class="frame">',
            _head(title, results, input, meta),
            sections.contents_html(results),
            "<main>",
            sections.answer_html(results, meta),
            _findings(results, meta, input),
            _trust(input, meta),
            _sentences(results),
            *(sections.study_html(result, _time_range(meta)) for result in results),
            _closing(meta),
            "</main>",
            _foot(),
            f'</div><script type="application/json" id="look">{script_json(look)}</script>',
            f"<script>{plotly}</script><script>{own}</script></body></html>",
        ]
    )


def _policy(*scripts: str) -> str:
    allowed = " ".join(script_hash(source) for source in scripts)
    return (
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action "
        f"'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
    )


def _head(title: str, results: "Sequence[StudyResult]", input: Any, meta: dict[str, Any]) -> str:
    facts = [f"<b>{text(value)}</b> {text(what)}".strip() for value, what in _facts(results, input, meta)]
    items = "".join(f"<li>{fact}</li>" for fact in facts)
    return (
        f'<header class="top"><div class="mark">{_mark()}<span>mpbroker trace report</span></div><h1>{text(title)}</h1>'
        f'<ul class="facts">{items}</ul></header>'
    )


def _facts(results: "Sequence[StudyResult]", input: Any, meta: dict[str, Any]) -> list[tuple[str, str]]:
    """What, when, how much: pairs of the emphasised part and the rest."""
    facts = [(f"{input.loss.records:,}".replace(",", "\u202f"), "requests")]
    first, last = meta.get("first_epoch_ns"), meta.get("last_epoch_ns")
    if first and last:
        begin = datetime.fromtimestamp(first / 1e9, UTC)
        facts += [(begin.strftime("%Y-%m-%d %H:%M:%S"), "UTC, first request"), (_length((last - first) / 1e9), "long")]
    if meta.get("engine"):
        facts.append((str(meta["engine"]), "engine"))
    return [*facts, (", ".join(str(result.study) for result in results) or "no study", "")]


def _length(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _trust(input: Any, meta: dict[str, Any]) -> str:
    return (
        '<section id="trust" aria-labelledby="trust-h"><h2 id="trust-h">What the trace holds</h2>'
        '<p class="lead">No figure on this page is better than the records it was made from.</p>'
        f"{health_html(input.loss, input.clock, list(meta.get('sentences', input.loss.sentences)))}</section>"
    )


def _findings(results: "Sequence[StudyResult]", meta: dict[str, Any], input: Any) -> str:
    """The first thing on most pages: the dearest findings with what to change, and whether to believe them."""
    mean = meta.get("mean_request_us")
    words = (
        f"A request takes {wording.duration((mean or 0) * 1000)} on average, without waiting that its client asked for."
    )
    lead = f'<p class="lead">{text(words)}</p>' if mean else ""
    doubts = "".join(f'<p class="doubt">{text(one)}</p>' for one in health.doubts(input.loss, input.clock))
    return (
        '<section id="findings" aria-labelledby="findings-h"><h2 id="findings-h">What costs most time, and what to '
        "change</h2>"
        f"{lead}{sections.spent_html(meta.get('stage_shares') or {})}{doubts}{sections.leading_html(results)}</section>"
    )


def _sentences(results: "Sequence[StudyResult]") -> str:
    return (
        '<section id="sentences" aria-labelledby="sentences-h"><h2 id="sentences-h">What the studies say</h2>'
        f"{sections.verdicts_html(results)}</section>"
    )


def _time_range(meta: dict[str, Any]) -> list[str]:
    """From the first request to the last, as time axes have it: all of the page show the same time."""
    ends = [meta.get("first_epoch_ns"), meta.get("last_epoch_ns")]
    if not all(isinstance(one, int) for one in ends):
        return []
    first, last = (int(one or 0) / 1e9 for one in ends)
    seconds = [first - (last - first) / 100, last + (last - first) / 100]
    return [datetime.fromtimestamp(one, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] for one in seconds]


def _closing(meta: dict[str, Any]) -> str:
    return (
        '<section id="stages" aria-labelledby="stages-h"><h2 id="stages-h">The stages of a '
        f"request</h2>{sections.stages_html()}</section>"
        '<section id="made-with" aria-labelledby="made-h"><h2 id="made-h">Made '
        f"with</h2>{sections.made_with_html(meta)}</section>"
    )


def _foot() -> str:
    return (
        "<footer><noscript><p>The figures need scripts; findings and tables do not.</p></noscript>"
        "<p>This page is complete in itself and loads nothing. Drag over a figure to zoom (all figures over time "
        "follow), double-click to go back, "
        "click a name in a legend to hide its series.</p></footer>"
    )


def _mark() -> str:
    """Four requests on their way, one of them waiting: the product's mark."""
    return (
        '<svg viewBox="0 0 24 24" aria-hidden="true"><g fill="none" stroke-width="3.2" stroke-linecap="round">'
        '<path stroke="var(--accent)" d="M3 5h18M3 10h9M3 15h13"/><path stroke="var(--bad)" d="M16.5 10H21"/>'
        '<path stroke="var(--good)" d="M20.6 15h.4M3 20h18"/></g></svg>'
    )


def _colors_css() -> str:
    """Custom properties of the page, light and dark; paper is always light."""
    light = "".join(f"--{name}:{shade.light};" for name, shade in palette.SURFACE.items())
    dark = "".join(f"--{name}:{shade.dark};" for name, shade in palette.SURFACE.items())
    return f":root{{{light}--font:{FONT}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def _resource(name: str) -> str:
    return resources.files("mpbroker.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _plotly_source() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
