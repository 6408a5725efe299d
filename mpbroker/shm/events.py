"""Where a process reports what happened, for the packages below `metrics`: the face of metrics.event_log.EventLog.

One per process, in its ProcessContext. Every call writes one line and never fails.
"""

from typing import Protocol

from mpbroker.config.broker_config import BrokerConfig


class Events(Protocol):
    """`event` names what happened; the fields follow it as key=value. Values may come from clients.

    `about`: whom a line is about (a peer, a group); of one event and peer few lines are written, the rest is counted.
    """

    def info(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something worth knowing happened."""
        ...

    def warning(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something went wrong that the broker dealt with."""
        ...

    def error(self, event: str, about: str | None = None, /, **fields: object) -> None:
        """Something went wrong that an operator should look at."""
        ...

    def exception(self, event: str, exception: BaseException, about: str | None = None, /, **fields: object) -> None:
        """An unexpected exception, with the innermost places it came through."""
        ...

    def tick(self) -> None:
        """About once a second: says what was held back of floods that are over."""
        ...

    def use_config(self, config: BrokerConfig) -> object:
        """Take on level and format of a BrokerConfig."""
        ...
