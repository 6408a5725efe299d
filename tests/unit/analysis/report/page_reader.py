"""What stands in a report: elements, texts of scripts, figure specs. A test's own reader, on the standard library's
parser."""

import json
from html.parser import HTMLParser


class PageReader(HTMLParser):
    """`elements`: (tag, attributes) in order; `scripts`: (attributes, text); `words`: all visible text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.words = ""
        self._inside: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if tag in ("script", "style"):
            self._inside.append(tag)
        if tag == "script":
            self.scripts.append((attributes, ""))

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if self._inside[-1:] == ["script"]:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif not self._inside:
            self.words += data

    def named(self, tag: str) -> list[dict[str, str]]:
        """Attributes of all elements of a tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def specs(self) -> dict[str, dict]:
        """Figure specs by the id of their script."""
        return {
            attributes["id"]: json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("id", "").endswith("-spec")
        }
