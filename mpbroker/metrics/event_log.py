"""The log of a process, on stderr: one event a line, as text or as a JSON object; used by every process.

Text: `time LEVEL process event key=value …`. JSON (`mpbroker.log.format=json`): `{"ts", "level", "process", "pid",
"event", "fields"}`. A line is one write() of less than a pipe's atomic size, so lines of different processes never mix.
Values come from clients too: they are cut at 256 characters, and whatever could forge a line or reach a terminal is
escaped. Floods are counted instead of written (line_limits.py).
"""

import contextlib
import os
import re
import time
from _thread import RLock  # as threading has it, which costs each start two milliseconds, and each process pages
from collections import deque
from typing import Any, Final

from mpbroker.metrics.line_limits import LineLimits

MAX_VALUE_CHARACTERS: Final = 256
MAX_LINE_BYTES: Final = 4000
MAX_PLACES: Final = 4
LEVELS: Final = {"ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10}

_PLAIN = re.compile(r"[A-Za-z0-9_.:/,+@%\[\]()-]+\Z")


def escape(value: object) -> str:
    """A value as a text line has it: bare when harmless, else quoted with everything unusual escaped."""
    text = _cut(str(value))
    if _PLAIN.match(text):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"


class EventLog:
    """The log of one process. `process` is in every line; `level`: lines below it are not written.

    `about` of a line names its peer (an address, a client): of one kind and peer there is at most a line in ten
    seconds, and the next says how many were held back (`suppressed`). Call `tick` about once a second: it says so of
    floods that are over. Any thread may write, and a signal handler amid that: the lock is for what is counted, and
    no line is written under it.
    """

    def __init__(self, process: str, fd: int = 2, level: str = "INFO", as_json: bool = False) -> None:
        self.process = process
        self._fd = fd
        self._least = LEVELS[level]
        self._as_json = as_json
        self._limits = LineLimits(time.monotonic())
        self._lock = RLock()

    def use_config(self, config: Any) -> "EventLog":
        """Take level and format from a BrokerConfig; the log itself, for whoever has just made it."""
        self._least = LEVELS[config.mpbroker_log_level]
        self._as_json = config.mpbroker_log_format == "json"
        return self

    def debug(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something to follow a fault with; not written unless asked for."""
        self._line("DEBUG", event, about, fields)

    def info(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something worth knowing happened."""
        self._line("INFO", event, about, fields)

    def warning(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something went wrong that the broker dealt with."""
        self._line("WARN", event, about, fields)

    def error(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something went wrong that an operator should look at."""
        self._line("ERROR", event, about, fields)

    def exception(self, event: str, exception: BaseException, about: str | None = None, /, **fields: object) -> None:
        """An exception nobody expected, with the innermost places it came through."""
        told = {"exception": type(exception).__name__, "text": exception, "at": _places(exception)}
        self._line("ERROR", event, about, fields | told)

    def tick(self) -> None:
        """One line for each flood that is over."""
        with self._lock:
            ended = list(self._limits.ended(time.monotonic()))
        for held in ended:
            self._write(held.level, held.kind, {"about": held.peer, "suppressed": held.lines})

    def _line(self, level: str, event: str, about: str | None, fields: dict[str, object]) -> None:
        if LEVELS[level] < self._least:
            return
        with self._lock:
            suppressed = self._limits.allow(event, about, level, time.monotonic())
            if suppressed is None:
                return
            before, self._limits.held_over_all = self._limits.held_over_all, 0
        if suppressed:
            fields = fields | {"suppressed": suppressed}
        if before:
            fields = fields | {"suppressed_before": before}
        self._write(level, event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        make = _json_line if self._as_json else _text_line
        with contextlib.suppress(OSError):  # nobody reads the log: not a reason to stop serving
            os.write(self._fd, make(stamp, level, self.process, event, fields) + b"\n")


def _places(exception: BaseException) -> str:
    """Innermost first. Without the module `traceback`: to import it takes a descriptor, and there may be none."""
    places: deque[str] = deque(maxlen=MAX_PLACES)
    at = exception.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        places.appendleft(f"{os.path.basename(code.co_filename)}:{at.tb_lineno}:{code.co_name}")
        at = at.tb_next
    return " < ".join(places)


def _text_line(stamp: str, level: str, process: str, event: str, fields: dict[str, object]) -> bytes:
    words = [stamp, level, process, event, *(f"{key}={escape(value)}" for key, value in fields.items())]
    return " ".join(words).encode("utf-8", "backslashreplace")[:MAX_LINE_BYTES]


def _json_line(stamp: str, level: str, process: str, event: str, fields: dict[str, object]) -> bytes:
    """One object, ASCII only. Fields that make it too long are left out, and named so."""
    import json

    line = {"ts": stamp, "level": level, "process": process, "pid": os.getpid(), "event": event}
    told = {key: value if isinstance(value, int) else _cut(str(value)) for key, value in fields.items()}
    encoded = json.dumps(line | {"fields": told})
    while len(encoded) > MAX_LINE_BYTES:
        told.pop("truncated", None)
        told.popitem()
        told["truncated"] = True
        encoded = json.dumps(line | {"fields": told})
    return encoded.encode()
