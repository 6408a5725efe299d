"""One boot of one broker: what a trace calls a run. Pure."""

from typing import NamedTuple


class Boot(NamedTuple):
    """`run` is the boot id in hexadecimal."""

    broker: int
    boot_id: int

    @property
    def run(self) -> str:
        """How frames name it."""
        return f"{self.boot_id:016x}"
