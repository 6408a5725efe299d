"""pathlib is imported without what it would bring along, and only where nobody has imported either."""

import sys

import pytest

from mpbroker.supervisor import lean_imports


@pytest.mark.parametrize("there", [{"pathlib"}, {"urllib.parse"}, {"pathlib", "urllib.parse"}, set()])
def test_pathlib_is_imported_where_neither_is_there(monkeypatch, there):
    imported = []
    for name in ("pathlib", "urllib.parse"):
        if name not in there:
            monkeypatch.delitem(sys.modules, name, raising=False)
    before = dict(sys.modules)
    monkeypatch.setattr(
        lean_imports, "import_module", lambda name: imported.append((name, sys.modules.get("urllib.parse")))
    )
    lean_imports.import_pathlib()
    assert sys.modules == before, "the stub is gone again"
    if there:
        assert imported == []
    else:
        [(name, stub)] = imported
        assert name == "pathlib" and stub.__name__ == "urllib.parse" and stub.quote_from_bytes
