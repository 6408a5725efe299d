"""A coordinator's shell whose surroundings are scripts: everything that it calls is noted, in order."""

from types import SimpleNamespace

from mpbroker.coordinator import shell as module
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.shell import Shell
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from tests.harness.noted_calls import Script

NOW = Now(7, 8)
BEAT = HeartbeatRequest("g", 3, "m")


class Token:
    """A claimed request, as far as the shell looks at it; each is itself alone."""

    def __init__(self, key=ApiKey.HEARTBEAT, version=3, **fields):
        self.__dict__ |= {"api_key": key, "api_version": version, "attempts": 0, "cell_count": 0, "stamps": []}
        self.__dict__ |= {"processor": 2, "fill_number": 258, "client_id": "cl", "client_address": None}
        self.__dict__ |= {"connection_generation": 5, "payload": b""} | fields

    def stamp(self, stage):
        self.stamps.append(stage)


class World:
    """A shell whose parts are scripts. `done`: every call, in order."""

    def __init__(self, **given):
        self.done = []
        made = self.made = object.__new__(Shell)
        made._now = lambda: NOW
        made._clock = SimpleNamespace(monotonic_ms=lambda: NOW.ms)
        made._crash_point = lambda name: self.done.append(name)
        given["logs"] = {"flush_on_commit": False} | given.get("logs", {})
        given["loader"] = {"next_due_ms": lambda now_ms: None} | given.get("loader", {})
        for name in ("answers", "port", "logs", "groups", "transactions", "appends", "loader", "metadata", "counting"):
            setattr(made, f"_{name}", self._part(name, given.get(name, {})))
        made._unknown_topics = self._part("unknown", given.get("unknown", {}))
        made._ctx = SimpleNamespace(process_row=self._part("row", {}), log=self._part("log", {}), config="config")
        made._effects, made._cells, made._unrepaired = module.deque(), {}, []
        made._is_carrying = made._is_in_cluster = False
        made._topic, made._names, made._opened, made._unsure = None, {}, {}, set()

    def _part(self, name, given):
        """Its functions are answers, everything else is there to be read."""
        answers = {key: value for key, value in given.items() if callable(value)}
        held = {key: value for key, value in given.items() if key not in answers}
        return Script(self.done, f"{name}.", held, **answers)

    def replace(self, *names):
        """Methods of the shell itself that are only noted."""
        for name in names:
            setattr(self.made, name, lambda *given, _name=name: self.done.append((_name, *given)))
