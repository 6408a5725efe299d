"""msgspec and pathlib are imported without what they would bring along, and only where nobody has imported them, or
that, already."""

import sys
import urllib.parse
from types import ModuleType, SimpleNamespace

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
        monkeypatch.setattr(lean_imports, "import_module", {"urllib.parse": urllib.parse}.get)
        assert stub.quote_from_bytes(b"/a b") == "/a%20b", "who wants it later gets it"


STUBS = {
    "typing_extensions",
    "platform",
    "msgspec.inspect",
    "msgspec._json_schema",
    "msgspec.toml",
    "msgspec.yaml",
}


@pytest.fixture
def modules(monkeypatch):
    """sys.modules without msgspec and what comes with it; imports of msgspec are of one that wants all the stubs."""
    for name in (*STUBS, "msgspec", "uuid"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    seen = SimpleNamespace(before=dict(sys.modules), asked=[], stubs={}, msgspec=ModuleType("msgspec"))
    for name in ("inspect", "toml", "yaml", "_json_schema", "Struct"):
        setattr(seen.msgspec, name, "stub")

    def import_module(name):
        seen.asked.append(name)
        if name == "msgspec":
            seen.stubs = {name: sys.modules[name] for name in sys.modules.keys() - seen.before.keys()}
            return seen.msgspec
        return SimpleNamespace(name=name, schema=lambda *how, **named: (how, named))

    monkeypatch.setattr(lean_imports, "import_module", import_module)
    return seen


def test_msgspec_is_imported_without_what_a_broker_never_uses_and_has_it_for_who_asks(modules):
    lean_imports.import_msgspec()
    assert modules.asked == ["msgspec"] and sys.modules == modules.before, "the stubs are gone again"
    assert modules.stubs.keys() == STUBS
    assert modules.stubs["typing_extensions"] is None, "cannot be imported, as far as msgspec sees"
    assert modules.stubs["platform"].system() == "Linux"
    assert modules.stubs["msgspec._json_schema"].schema(1, a=2) == ((1,), {"a": 2})
    assert modules.asked[1:] == ["msgspec._json_schema"] and modules.stubs["msgspec._json_schema"].schema_components
    assert modules.msgspec.Struct == "stub" and modules.msgspec.toml.name == "msgspec.toml"
    assert [modules.msgspec.inspect.name, modules.msgspec.yaml.name] == ["msgspec.inspect", "msgspec.yaml"]
    with pytest.raises(AttributeError, match="module 'msgspec' has no attribute 'xml'"):
        assert modules.msgspec.xml


def test_a_module_that_is_there_is_not_replaced(modules, monkeypatch):
    platform = ModuleType("platform")
    monkeypatch.setitem(sys.modules, "platform", platform)
    lean_imports.import_msgspec()
    assert modules.stubs.keys() == STUBS and modules.stubs["platform"] is platform
    assert sys.modules["platform"] is platform


@pytest.mark.parametrize("there", ["msgspec", "uuid"])
def test_where_msgspec_or_what_it_would_be_kept_from_is_there_nothing_happens(modules, monkeypatch, there):
    monkeypatch.setitem(sys.modules, there, ModuleType(there))
    lean_imports.import_msgspec()
    assert modules.asked == []


def test_no_stub_stays_where_msgspec_cannot_be_imported(modules, monkeypatch):
    def import_module(name):
        raise ImportError(name)

    monkeypatch.setattr(lean_imports, "import_module", import_module)
    with pytest.raises(ImportError):
        lean_imports.import_msgspec()
    assert sys.modules == modules.before
