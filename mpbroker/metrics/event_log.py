"""Log lines on stderr: one event each, `time LEVEL process event key=value …`; used by every process.

A line is one write() of less than a pipe's atomic size, so lines of different processes never mix. Values come from
clients too: they are cut at 256 characters, and whatever could forge a line or reach a terminal is escaped.
"""

import contextlib
import os
import re
import time

MAX_VALUE_CHARACTERS = 256
MAX_LINE_BYTES = 4000
LINES_PER_SECOND = 50
LINES_BURST = 200

_PLAIN = re.compile(r"[A-Za-z0-9_.:/,+@%\[\]()-]+\Z")


def escape(value: object) -> str:
    """A value as it stands in a line: bare when harmless, else quoted with everything unusual escaped."""
    text = str(value)
    if len(text) > MAX_VALUE_CHARACTERS:
        text = text[:MAX_VALUE_CHARACTERS] + "…"
    if _PLAIN.match(text):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


class EventLog:
    """The log of one process. `process` stands in every line. Lines beyond the rate are counted, then reported."""

    def __init__(self, process: str, fd: int = 2) -> None:
        self.process = process
        self._fd = fd
        self._allowance = float(LINES_BURST)
        self._refilled = time.monotonic()
        self._suppressed = 0

    def info(self, event: str, **fields: object) -> None:
        """Something worth knowing happened."""
        self._line("INFO", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something went wrong that the broker dealt with."""
        self._line("WARN", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Something went wrong that an operator should look at."""
        self._line("ERROR", event, fields)

    def exception(self, event: str, exception: BaseException, **fields: object) -> None:
        """An exception nobody expected, with the innermost places it came through."""
        import traceback

        frames = traceback.extract_tb(exception.__traceback__)[-4:]
        places = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}:{f.name}" for f in reversed(frames))
        self._line("ERROR", event, fields | {"exception": type(exception).__name__, "text": exception, "at": places})

    def _line(self, level: str, event: str, fields: dict[str, object]) -> None:
        if not self._may_write():
            self._suppressed += 1
            return
        if self._suppressed:
            fields = fields | {"suppressed_before": self._suppressed}
            self._suppressed = 0
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        words = [f"{stamp}.{int(now * 1000) % 1000:03d}Z", level, self.process, event]
        words += [f"{key}={escape(value)}" for key, value in fields.items()]
        line = " ".join(words).encode("utf-8", "backslashreplace")[:MAX_LINE_BYTES] + b"\n"
        with contextlib.suppress(OSError):  # nobody reads the log: not a reason to stop serving
            os.write(self._fd, line)

    def _may_write(self) -> bool:
        now = time.monotonic()
        self._allowance = min(LINES_BURST, self._allowance + (now - self._refilled) * LINES_PER_SECOND)
        self._refilled = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True
