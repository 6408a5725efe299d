"""Where settings come from: file, environment, overrides; the later one wins. Run by the supervisor and the CLI.

Environment names: `KAFKA_` or `MPBROKER_`, then the setting in capitals with `_` for each dot, `__` for an underscore
and `___` for a dash (the rule of Kafka's container images): `KAFKA_NUM_IO_THREADS` is `num.io.threads`. For our own
settings the prefix may stand for their first word: `MPBROKER_TRACE_ENABLED` is `mpbroker.trace.enabled`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mpbroker.config.properties import parse_properties
from mpbroker.config.table import locate, unknown_hint
from mpbroker.errors import ConfigError

MAX_FILE_BYTES = 1024 * 1024
# Variables with our prefix that are no settings: crash points of test builds.
RESERVED_VARIABLES = frozenset({"MPBROKER_CRASH"})
_UNDERSCORES = {"_": ".", "__": "_", "___": "-"}


class Given(NamedTuple):
    """What was given: texts by setting name, where each came from, and sentences to log."""

    texts: dict[str, str]
    origins: dict[str, str]
    warnings: tuple[str, ...]


def gather(path: str | None, environ: Mapping[str, str], overrides: Iterable[str]) -> Given:
    """All sources in their order. ConfigError for an unreadable file, an unknown name, or an override without '='."""
    texts: dict[str, str] = {}
    origins: dict[str, str] = {}
    found, warnings = from_environment(environ)
    layers = [from_file(path) if path else {}, found, from_overrides(overrides)]
    for layer in layers:
        for name, (text, origin) in layer.items():
            texts[name], origins[name] = text, origin
    return Given(texts, origins, tuple(warnings))


def from_file(path: str) -> dict[str, tuple[str, str]]:
    """Settings of a properties file: name → (text, origin). Every key must be a setting."""
    found = {}
    for key, value, line in parse_properties(read_file(path), path):
        located = locate(key)
        if located is None:
            raise ConfigError(f"{key} ({path}, line {line})", value, unknown_hint(key))
        found[located.name] = (value, f"{path}, line {line}")
    return found


def read_file(path: str) -> str:
    """The text of a configuration file of at most 1 MiB."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError("configuration file", path, f"a file that can be read ({error.strerror})") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError("configuration file", path, f"a file of at most {MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("configuration file", path, f"UTF-8 text (byte {error.start} is not)") from None


def from_environment(environ: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Settings of the environment, and one warning for each unknown KAFKA_ variable. MPBROKER_ wins over KAFKA_."""
    found: dict[str, tuple[str, str]] = {}
    warnings = []
    for variable in sorted(environ):  # KAFKA_ sorts before MPBROKER_
        if not variable.startswith(("KAFKA_", "MPBROKER_")) or variable in RESERVED_VARIABLES:
            continue
        name = setting_of_variable(variable)
        if name is not None:
            found[name] = (environ[variable], variable)
        elif variable.startswith("KAFKA_"):
            warnings.append(f"{variable} is not a setting of this broker and is ignored")
        else:
            raise ConfigError(variable, environ[variable], unknown_hint(_dotted(variable.removeprefix("MPBROKER_"))))
    return found, warnings


def setting_of_variable(variable: str) -> str | None:
    """`KAFKA_NUM_IO_THREADS` → `num.io.threads`; None when no setting answers to the name."""
    prefix, _, rest = variable.partition("_")
    name = _dotted(rest)
    candidates = (name, f"mpbroker.{name}") if prefix == "MPBROKER" else (name,)
    return next((located.name for candidate in candidates if (located := locate(candidate))), None)


def _dotted(rest: str) -> str:
    return re.sub("_{1,3}", lambda match: _UNDERSCORES[match[0]], rest).lower()


def from_overrides(overrides: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Settings of `key=value` texts."""
    found = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError("--override", override, "key=value")
        located = locate(key)
        if located is None:
            raise ConfigError(key, value, unknown_hint(key))
        found[located.name] = (value, "--override")
    return found
