"""Where a process reports what happened, for the packages below `metrics`: the face of metrics.event_log.EventLog.

One per process, in its ProcessContext. Every call writes one line and never fails.
"""

from typing import Protocol


class Events(Protocol):
    """`event` names what happened; the fields follow it as key=value. Values may come from clients."""

    def info(self, event: str, **fields: object) -> None:
        """Something worth knowing happened."""
        ...

    def warning(self, event: str, **fields: object) -> None:
        """Something went wrong that the broker dealt with."""
        ...

    def error(self, event: str, **fields: object) -> None:
        """Something went wrong that an operator should look at."""
        ...

    def exception(self, event: str, exception: BaseException, **fields: object) -> None:
        """An exception nobody expected, with the innermost places it came through."""
        ...
