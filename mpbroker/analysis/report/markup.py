"""Text that others wrote (client ids, topics, marker texts), made harmless in HTML, in JSON within HTML and in figures.

Runs in the process of a command; pure.
"""

import base64
import hashlib
import html
import json
import math
import re
from typing import Any

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_FORMATTING = re.compile(r"</?(?:b|i|sub|sup|extra)>|<br ?/?>")
_LONGEST_LABEL = 300
#: No page may hold these; a name with one is shown as a programmer would write it. Line ends in labels are ours.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: A number with what belongs to it, as it stands in a verdict (the text is escaped already).
_FIGURE = re.compile(
    r"(?<![\w&#.\-])[+\-−~≈]?\d(?:[\d,.\u202f]*\d)?(?:\s?(?:%|‰|×|times\b|ns\b|µs\b|ms\b|s\b|[kMG]i?B(?:/s)?\b|B\b"
    r"|(?:requests|records)(?:/s| a second)\b))?"
)
_QUOTED = re.compile("(“[^”]*”)")
#: What is counted, not measured: "processor 0" is a name.
_NUMBERED = re.compile(
    r"\b(?:processor|handler|broker|run|ring|class|connection|boot|variant|phase|step|acceptor) $", re.IGNORECASE
)


def text(value: object) -> str:
    """For element content and quoted attributes."""
    return html.escape(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", str(value)), quote=True)


def sentence(value: object) -> str:
    """A verdict: escaped, its figures emphasised."""
    parts = _QUOTED.split(text(value))  # names in quotes stand at the odd places
    return "".join(part if place % 2 else _FIGURE.sub(_emphasis, part) for place, part in enumerate(parts))


def _emphasis(found: re.Match[str]) -> str:
    return found.group() if _NUMBERED.search(found.string, 0, found.start()) else f"<b>{found.group()}</b>"


def script_json(value: Any) -> str:
    """JSON that stands within a <script> element: nothing in it can end the element or begin a comment."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda found: _UNSAFE[found.group()], written)


def plain(value: Any) -> Any:
    """JSON values only: arrays become lists, NaN and infinities null; labels lose markup beyond <b>, <i>, <br>, <sub>,
    <sup>."""
    if isinstance(value, str):
        return label(value)
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    return label(str(value))


def label(value: str) -> str:
    """Text of a figure: plotly reads a little HTML there; a link, a style or an unknown tag is shown as it is
    written."""
    if len(value) > _LONGEST_LABEL and not value.startswith("%{") and "%{" not in value:
        value = value[: _LONGEST_LABEL - 1] + "…"
    parts, at = [], 0
    for found in _FORMATTING.finditer(value):
        parts += [_literal(value[at : found.start()]), found.group()]
        at = found.end()
    return "".join([*parts, _literal(value[at:])])


def _literal(value: str) -> str:
    return value.replace("<", "&lt;").replace(">", "&gt;") if "<" in value else value


def script_hash(source: str) -> str:
    """What a Content-Security-Policy names an inline script by."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() + "'"


def slug(value: str) -> str:
    """For element ids and file names."""
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-") or "x"
