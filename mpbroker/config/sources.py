"""Where settings come from: file, environment, overrides; the later one wins. Run by the supervisor and the CLI.

Nothing stops at the first mistake: what is wrong is collected in `Given.errors`, for one answer that names it all.

Environment names: `KAFKA_` or `MPBROKER_`, then the setting in capitals with `_` for each dot, `__` for an underscore
and `___` for a dash (the rule of Kafka's container images): `KAFKA_NUM_IO_THREADS` is `num.io.threads`. For our own
settings the prefix may stand for their first word: `MPBROKER_TRACE_ENABLED` is `mpbroker.trace.enabled`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mpbroker.config.properties import parse_properties
from mpbroker.config.table import locate, unknown_setting
from mpbroker.errors import ConfigError

MAX_FILE_BYTES = 1024 * 1024
# Variables with our prefix that are no settings: crash points of test builds, the broker that client commands talk to.
RESERVED_VARIABLES = frozenset({"MPBROKER_CRASH", "MPBROKER_BOOTSTRAP"})
_UNDERSCORES = {"_": ".", "__": "_", "___": "-"}


class Given(NamedTuple):
    """What was given: texts by setting name, where each came from (empty: the command line), sentences to log, and
    what is wrong."""

    texts: dict[str, str]
    origins: dict[str, str]
    warnings: tuple[str, ...]
    errors: tuple[ConfigError, ...] = ()


class _Gathering:
    """Collects the sources in their order; a later text of a setting replaces an earlier one."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self.warnings: dict[str, str] = {}  # by name, so that there is one for each
        self.errors: list[ConfigError] = []

    def take(self, name: str, text: str, origin: str) -> None:
        """A setting as it is written in a file or an override; `origin`: where, empty when the text itself says it."""
        located = locate(name)
        if located is not None:
            self.set(located.name, text, origin)
            return
        from mpbroker.config.kafka_only import REFUSED, why_ignored  # a file of ours names nothing of that

        if reason := why_ignored(name):
            self.warnings[name] = f"{name} is ignored: {reason}"
        elif name in REFUSED:
            problem = f"{name} cannot be used: {REFUSED[name]}; remove it"
            self.errors.append(ConfigError(name, text, problem=problem, origin=origin))
        else:
            self.errors.append(ConfigError(name, text, problem=unknown_setting(name), origin=origin))

    def set(self, name: str, text: str, origin: str) -> None:
        """A setting by its one name."""
        self.texts[name], self.origins[name] = text, origin

    def given(self) -> Given:
        """All that was taken."""
        return Given(self.texts, self.origins, tuple(self.warnings.values()), tuple(self.errors))


def gather(path: str | None, environ: Mapping[str, str], overrides: Iterable[str]) -> Given:
    """All sources in their order. What is unknown, unreadable or malformed is in `errors`; nothing is raised."""
    into = _Gathering()
    if path:
        _take_file(path, into)
    _take_environment(environ, into)
    _take_overrides(overrides, into)
    return into.given()


def _take_file(path: str, into: _Gathering) -> None:
    """A properties file, whose every key must be a setting, or one of Kafka's that mean nothing here."""
    try:
        for key, value, line in parse_properties(read_file(path), path):
            into.take(key, value, f"{path}, line {line}")
    except ConfigError as error:
        into.errors.append(error)


def read_file(path: str) -> str:
    """The text of a configuration file of at most 1 MiB."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise _unusable(path, f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unusable(path, f"is not UTF-8 text (byte {error.start})") from None


def _unusable(path: str, why: str) -> ConfigError:
    return ConfigError("configuration file", path, problem=f"configuration file {path} {why}")


def _take_environment(environ: Mapping[str, str], into: _Gathering) -> None:
    """Variables; an unknown KAFKA_ variable gets one warning. MPBROKER_ wins over KAFKA_."""
    for variable in sorted(environ):  # KAFKA_ sorts before MPBROKER_
        if not variable.startswith(("KAFKA_", "MPBROKER_")) or variable in RESERVED_VARIABLES:
            continue
        name = setting_of_variable(variable)
        if name is not None:
            into.set(name, environ[variable], variable)
        else:
            _take_unknown(variable, environ[variable], into)


def _take_unknown(variable: str, text: str, into: _Gathering) -> None:
    """A variable with a prefix of ours, or of Kafka's images, that is no setting."""
    from mpbroker.config.kafka_only import REFUSED, why_ignored

    written = _dotted(variable.partition("_")[2])
    if reason := why_ignored(written):
        into.warnings[variable] = f"{variable} is ignored: {reason}"
    elif written in REFUSED:
        into.take(written, text, variable)
    elif variable.startswith("KAFKA_"):
        into.warnings[variable] = f"{variable} is ignored: it is not a setting of this broker"
    else:
        into.errors.append(ConfigError(variable, text, problem=unknown_setting(written), origin=variable))


def setting_of_variable(variable: str) -> str | None:
    """`KAFKA_NUM_IO_THREADS` → `num.io.threads`; None when no setting answers to the name."""
    prefix, _, rest = variable.partition("_")
    name = _dotted(rest)
    candidates = (name, f"mpbroker.{name}") if prefix == "MPBROKER" else (name,)
    return next((located.name for candidate in candidates if (located := locate(candidate))), None)


def _dotted(rest: str) -> str:
    return re.sub("_{1,3}", lambda match: _UNDERSCORES[match[0]], rest).lower()


def _take_overrides(overrides: Iterable[str], into: _Gathering) -> None:
    """`key=value` texts."""
    for override in overrides:
        key, equals, value = override.partition("=")
        key = key.strip()
        if equals and key:
            into.take(key, value, "")
        else:
            problem = f"--override {override}: must be KEY=VALUE"
            into.errors.append(ConfigError("--override", override, problem=problem))
