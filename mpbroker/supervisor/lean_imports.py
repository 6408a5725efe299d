"""Imports msgspec and pathlib without what a broker has no use for, before anything else of the process imports them.

Of msgspec, in `mpbroker start`: half of its time, a tenth of the whole start, goes into typing_extensions, which it
does not need from Python 3.11 on but takes where it finds it; into `platform`, of which uuid asks the system's name;
and into msgspec's own modules that describe types as JSON schemas or know TOML and YAML. Of pathlib, in the supervisor
before it forks the tracer: `urllib.parse` and with it `ipaddress`, 0.4 MiB, for turning paths into addresses. Who wants
one of them later gets it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LATER = ("inspect", "_json_schema", "toml", "yaml")


def import_msgspec() -> None:
    """Nothing happens where it, or what it would be kept from, is imported already."""
    stubs = {name: module for name, module in _stubs().items() if name not in sys.modules}
    if "msgspec" in sys.modules or "uuid" in sys.modules:
        return
    sys.modules.update(stubs)  # type: ignore[arg-type]  # None is the documented way to say: cannot be imported
    try:
        msgspec = import_module("msgspec")
    finally:
        for name in stubs:
            del sys.modules[name]
    for name in _LATER:
        vars(msgspec).pop(name, None)
    msgspec.__getattr__ = _later  # type: ignore[method-assign]


def _stubs() -> dict[str, ModuleType | None]:
    platform = ModuleType("platform")
    platform.system = lambda: "Linux"  # type: ignore[attr-defined]  # a broker runs nowhere else
    later = {f"msgspec.{name}": ModuleType(f"msgspec.{name}") for name in _LATER}
    schema = later["msgspec._json_schema"]
    for function in ("schema", "schema_components"):
        setattr(schema, function, _schema_function(function))
    return {"typing_extensions": None, "platform": platform, **later}


def import_pathlib() -> None:
    """Nothing happens where it, or what it would be kept from, is imported already."""
    if "pathlib" in sys.modules or "urllib.parse" in sys.modules:
        return
    quoting = ModuleType("urllib.parse")
    quoting.quote_from_bytes = _quote_from_bytes  # type: ignore[attr-defined]
    sys.modules["urllib.parse"] = quoting
    try:
        import_module("pathlib")
    finally:
        del sys.modules["urllib.parse"]


def _quote_from_bytes(*given: Any, **named: Any) -> Any:
    return import_module("urllib.parse").quote_from_bytes(*given, **named)


def _schema_function(name: str) -> Any:
    return lambda *given, **named: getattr(import_module("msgspec._json_schema"), name)(*given, **named)


def _later(name: str) -> ModuleType:
    if name not in _LATER:
        raise AttributeError(f"module 'msgspec' has no attribute {name!r}")
    return import_module(f"msgspec.{name}")
