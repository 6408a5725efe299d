"""Markdown: one title per page, and every link within the repository leads somewhere."""

import re

from tests.tidy.source_tree import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
IGNORED_FOLDERS = {".venv", "build", ".git", "node_modules", ".pytest_cache"}


def _pages():
    return [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not IGNORED_FOLDERS & set(path.relative_to(ROOT).parts) and ".egg-info" not in str(path)
    ]


def _prose(path) -> str:
    return CODE.sub("", path.read_text())


def _anchors(path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken(path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    page = (path.parent / name) if name else path
    if not page.exists():
        return True
    return bool(anchor) and page.suffix == ".md" and anchor not in _anchors(page)


def test_there_are_pages():
    assert {"README.md", "docs/conformance.md", "docs/skipped.md"} <= {str(p.relative_to(ROOT)) for p in _pages()}


def test_every_page_has_one_title():
    wrong = [
        str(path.relative_to(ROOT))
        for path in _pages()
        if len(re.findall(r"^# ", CODE.sub("", path.read_text()), re.MULTILINE)) != 1
    ]
    assert not wrong, wrong


def test_links_resolve():
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in _pages()
        for target in LINK.findall(_prose(path))
        if _broken(path, target)
    ]
    assert not broken, "\n".join(broken)


def test_decisions_are_numbered_complete_and_listed():
    folder = ROOT / "docs" / "adr"
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    listed = (folder / "README.md").read_text()
    for page in pages:
        text = page.read_text()
        title, number = text.splitlines()[0].removeprefix("# "), int(page.name[:4])
        assert title.startswith(f"{number}. ") and f"[{title}]({page.name})" in listed, page.name
        assert re.search(r"^Status: ", text, re.MULTILINE), page.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
            "Alternatives",
        ], page.name
        assert len(text.splitlines()) <= 70, f"{page.name} is longer than a page"
