"""The files that are generated from the settings: written where they are stale, or only told of."""

import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from mpbroker.config import document
from mpbroker.server import api_document


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(document, "__file__", str(tmp_path / "mpbroker" / "config" / "document.py"))
    texts = {tmp_path / "docs" / "new.txt": "new", tmp_path / "fresh.txt": "frä", tmp_path / "stale.txt": "after"}
    monkeypatch.setattr(document, "outputs", lambda given: given == tmp_path and list(texts.items()))
    (tmp_path / "fresh.txt").write_text("frä", "utf-8")
    (tmp_path / "stale.txt").write_text("before", "utf-8")
    return tmp_path


def test_a_look_writes_nothing_and_fails_while_something_is_stale(root, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["document", "--check"])
    assert document.main() == 1
    assert capsys.readouterr().out == "docs/new.txt is stale\nstale.txt is stale\n"
    assert not (root / "docs").exists() and (root / "stale.txt").read_text() == "before"
    monkeypatch.setattr(document, "outputs", lambda _: [(root / "fresh.txt", "frä")])
    assert document.main() == 0 and capsys.readouterr().out == ""


def test_what_is_stale_is_written(root, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["document"])
    for told in ("docs/new.txt written\nstale.txt written\n", ""):
        assert document.main() == 0
        assert capsys.readouterr().out == told
        assert (root / "docs" / "new.txt").read_text() == "new" and (root / "stale.txt").read_text() == "after"


def test_the_two_files_of_the_settings(tmp_path):
    paths = [str(path.relative_to(tmp_path)) for path, _ in document.outputs(tmp_path)]
    assert paths == ["docs/configuration.md", "deploy/server.properties"]


def test_the_readmes_table_is_written_into_it(tmp_path, monkeypatch):
    monkeypatch.setattr(api_document, "__file__", str(tmp_path / "mpbroker" / "server" / "api_document.py"))
    monkeypatch.setattr(api_document, "with_table", lambda text: f"{text} with its täble")
    (tmp_path / "README.md").write_text("the page", "utf-8")
    api_document.main()
    assert (tmp_path / "README.md").read_text("utf-8") == "the page with its täble"


@pytest.mark.parametrize("module", [document, api_document])
@pytest.mark.parametrize("name", ["imported", "__main__"])
def test_only_who_runs_it_has_files_written(tmp_path, monkeypatch, module, name):
    """Of the tree that the module lies in: here a copy of it."""
    copy = tmp_path.joinpath(*module.__name__.split(".")).with_suffix(".py")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(module.__file__).read_bytes())
    (tmp_path / "README.md").write_text(f"{api_document.BEGIN}{api_document.END}", "utf-8")
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit) if (module, name) == (document, "__main__") else nullcontext():
        runpy.run_path(str(copy), run_name=name)
    is_written = [api_document.table() in (tmp_path / "README.md").read_text("utf-8"), (tmp_path / "docs").exists()]
    assert is_written == [name == "__main__" and module is one for one in (api_document, document)]
