"""What a script of groups is, and how one is played.

A script is a function that gets a `Stage`: several clients, each with its own connection, send requests one after the
other and let time pass. After every step the stage writes down who was answered what, and who waits. What a broker
chooses (member ids, which of equals leads) stands there by alias, so the same script can be played to Apache Kafka, to
this broker, and to the coordinator's logic alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

QUIET_MS = 250  # a request without an answer after this time waits
#: How ids of members end that a broker chose; those of members of the new protocol are the second form alone.
_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$")
#: Whose lists come in the order of a hash table.
_UNORDERED = {"members", "topics", "partitions", "groups", "results", "topic_partitions"}
_MAY_WAIT = {"JoinGroupRequest", "SyncGroupRequest"}
PATIENCE_MS = 5000  # for the others
SLICE_MS = 50


#: The release of Apache Kafka that a script was played to. PREVIEW is 3.9 with what it had of KIP-848 switched on.
CLASSIC, NEXT, PREVIEW = "3.9", "4.3", "3.9-preview"


class Script(NamedTuple):
    """One script for one version of the API it is about."""

    name: str
    version: int
    play: Callable[[Stage, int], None]
    release: str = CLASSIC

    @property
    def title(self) -> str:
        return f"{self.name} v{self.version}"


SCRIPTS: list[Script] = []


def script(name: str, versions: Iterable[int] = (9,), release: str = CLASSIC):
    """Put a function among the scripts, once for each version."""

    def register(play: Callable[[Stage, int], None]) -> Callable[[Stage, int], None]:
        SCRIPTS.extend(Script(name, version, play, release) for version in versions)
        return play

    return register


class Transport(Protocol):
    """The broker a script is played to."""

    host: str

    def send(self, client: str, message: Any, version: int) -> None:
        """Send a request on the client's connection, which has none in progress."""

    def answers(self, wanted: str | None, wait_ms: int) -> list[tuple[str, Any]]:
        """(client, answer) of all that come within `wait_ms`; if `wanted` is a client, hardly longer than its takes."""

    def create_topic(self, name: str, partitions: int) -> bytes:
        """Create a topic and wait until it can be used; its id."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""


class Stage:
    """One play. `group` and `topic` are the names of this play; `heartbeat_version` is that of the next-generation
    protocol where a script is about something else."""

    def __init__(self, transport: Transport, prefix: str, heartbeat_version: int = 1) -> None:
        self.transport = transport
        self.prefix = prefix
        self.heartbeat_version = heartbeat_version
        self.group = f"{prefix}g"
        self.outcomes: list[Any] = []
        self.ids: dict[str, str] = {}  # a client's member id
        self.topic_ids: dict[bytes, str] = {}
        self._aliases: dict[str, str] = {}
        self._open: list[str] = []

    def topic(self, name: str = "t", partitions: int = 2) -> str:
        """A new topic."""
        self.topic_ids[self.transport.create_topic(self.prefix + name, partitions)] = name
        return self.prefix + name

    def step(self, client: str, message: Any, version: int) -> Any:
        """Send, look a moment, write down who was answered; returns this client's answer, None if it waits."""
        assert client not in self._open, f"{client} waits"
        self.transport.send(client, message, version)
        self._open.append(client)
        label = f"{client} {type(message).__name__.removesuffix('Request')}"
        found = self._collect(client, QUIET_MS if type(message).__name__ in _MAY_WAIT else PATIENCE_MS)
        self._write(label, found)
        return found.get(client)

    def wait(self, milliseconds: int) -> dict[str, Any]:
        """Let time pass; write down who was answered meanwhile."""
        found = self._collect(None, milliseconds)
        self._write(f"{milliseconds} ms", found)
        return found

    def wait_for(self, clients: Iterable[str], most_ms: int) -> dict[str, Any]:
        """Let time pass until all these were answered; write down who was."""
        missing, found = set(clients), {}
        for _ in range(most_ms // SLICE_MS):
            found |= self._collect(None, SLICE_MS)
            if missing <= set(found):
                break
        self._write(f"until {' '.join(sorted(missing))} are answered", found)
        return found

    def _collect(self, wanted: str | None, wait_ms: int) -> dict[str, Any]:
        found = dict(self.transport.answers(wanted, wait_ms))
        for client, answer in found.items():
            self._open.remove(client)
            if _UUID.search(getattr(answer, "member_id", "") or ""):
                self.ids[client] = answer.member_id
        return found

    def _write(self, label: str, found: dict[str, Any]) -> None:
        for client in sorted(found, key=lambda name: getattr(found[name], "member_id", "") or name):
            if _UUID.search(getattr(found[client], "member_id", "") or ""):
                self._alias_of(client, found[client].member_id)
        self.outcomes.append(
            [label, {client: self._normal(found[client]) for client in sorted(found)}, sorted(self._open)]
        )

    def _alias_of(self, client: str, member_id: str) -> None:
        """Ids look alike in all brokers: something that was asked for, then a UUID."""
        if member_id not in self._aliases:
            number = sum(1 for alias in self._aliases.values() if alias.startswith(f"id of {client}"))
            self._aliases[member_id] = f"id of {client}" + (f" {number + 1}" if number else "")
            self._aliases[member_id] += f" ({_UUID.sub('', member_id).replace(self.prefix, '')})"

    def _normal(self, value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, list):
            return [self._normal(each) for each in value]
        if isinstance(value, bytes) and value in self.topic_ids:
            return f"id of {self.topic_ids[value]}"
        if isinstance(value, bytes):
            return value.decode("latin-1").replace(self.prefix, "")
        if isinstance(value, str) and " " in value:  # a sentence
            for member_id, alias in self._aliases.items():
                value = value.replace(member_id, alias)
        if isinstance(value, str):
            return self._aliases.get(value, _UUID.sub(" (an id nobody heard)", value.replace(self.prefix, "")))
        return value

    def _struct(self, value: msgspec.Struct) -> dict[str, Any]:
        fields = {}
        for field in msgspec.structs.fields(value):
            present = getattr(value, field.name)
            if type(value).__name__ == "ListGroupsResponse" and field.name == "groups":
                present = [group for group in present if group.group_id.startswith(self.prefix)]
            default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            if present == default or field.name == "throttle_time_ms":
                continue
            normal = self._normal(present)
            fields[field.name] = sorted(normal, key=str) if field.name in _UNORDERED else normal
        return fields


def play(one: Script, transport: Transport, prefix: str) -> list[Any]:
    """Everything that was written down, as JSON would give it back."""
    stage = Stage(transport, prefix, 0 if one.release == PREVIEW else 1)
    one.play(stage, one.version)
    return msgspec.json.decode(msgspec.json.encode(stage.outcomes))
