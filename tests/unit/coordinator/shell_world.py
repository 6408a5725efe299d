"""A coordinator's shell whose surroundings are scripts: everything that it calls is noted, in order."""

from types import SimpleNamespace

from mpbroker.coordinator import shell as module
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.shell import Shell
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest

NOW = Now(7, 8)
BEAT = HeartbeatRequest("g", 3, "m")


class Part:
    """Notes each call as (name, what was given); answers what was set for the name, or None."""

    def __init__(self, done, prefix="", **answers):
        self._done, self._prefix = done, prefix
        self.__dict__.update({name: value for name, value in answers.items() if not callable(value)})
        self._answers = {name: value for name, value in answers.items() if callable(value)}

    def __getattr__(self, name):
        def call(*given, **named):
            self._done.append((self._prefix + name, *given, *named.items()))
            return self._answers[name](*given) if name in self._answers else None

        return call


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
        made._answers = Part(self.done, "answers.", **given.get("answers", {}))
        made._port = Part(self.done, "port.", **given.get("port", {}))
        made._logs = Part(self.done, "logs.", **{"flush_on_commit": False} | given.get("logs", {}))
        made._groups = Part(self.done, "groups.", **given.get("groups", {}))
        made._transactions = Part(self.done, "transactions.", **given.get("transactions", {}))
        made._appends = Part(self.done, "appends.", **given.get("appends", {}))
        made._loader = Part(self.done, "loader.", **{"is_idle": True} | given.get("loader", {}))
        made._metadata = Part(self.done, "metadata.", **given.get("metadata", {}))
        made._unknown_topics = Part(self.done, "unknown.", **given.get("unknown", {}))
        made._counting = Part(self.done, "counting.")
        row = Part(self.done, "row.")
        made._ctx = SimpleNamespace(process_row=row, log=Part(self.done, "log."), config="config")
        made._effects, made._cells, made._unrepaired = module.deque(), {}, []
        made._is_carrying = made._is_in_cluster = False
        made._topic, made._names, made._opened, made._unsure = None, {}, {}, set()

    def replace(self, *names):
        """Methods of the shell itself that are only noted."""
        for name in names:
            setattr(self.made, name, lambda *given, _name=name: self.done.append((_name, *given)))
