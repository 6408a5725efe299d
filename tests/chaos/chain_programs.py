"""Consume-process-produce chains in programs of their own, one for each client library that was built (`make clients`),
and what they say of their transactions."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from tests.clients.build import DIRECTORY, is_built

_JAVA: Final = ("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp")
#: Chain → the program it needs, what starts it, and words behind the seed. Java 3.9 speaks version 1 of transactions
#: and the classic protocol of groups, Java 4 version 2 and the next-generation protocol.
CHAINS: Final[dict[str, tuple[str | None, list[str], list[str]]]] = {
    "confluent": (None, [sys.executable, "-m", "tests.harness.transaction_chain"], []),
    **{
        f"chain-{name}": (name, [*_JAVA, f"{DIRECTORY / name}:{DIRECTORY / name}/jars/*", "Chain"], [protocol])
        for name, protocol in (("java-3.9", "classic"), ("java-4", "consumer"))
    },
    "franz": ("franz-chain", [str(DIRECTORY / "franz-chain" / "franz-chain")], []),
}


def available() -> list[str]:
    """The chains whose program is there."""
    return [name for name, (program, *_) in CHAINS.items() if program is None or is_built(program)]


class ChainProgram(threading.Thread):
    """One chain that runs until `end`. `outcomes`: attempt → committed, aborted or unknown."""

    def __init__(self, name: str, bootstrap: str, source: str, seed: int, directory: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.target = f"target-{name}"
        self.group = f"{self.target}-group"
        self.outcomes: dict[str, str] = {}
        self.errors: list[str] = []
        self.has_ended = False
        self.last_progress_s = time.monotonic()
        _, command, more = CHAINS[name]
        with open(directory / f"{name}.err", "wb") as log:
            self._process = subprocess.Popen(
                [*command, bootstrap, source, self.target, str(seed), *more],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.pid = self._process.pid
        self.start()

    def run(self) -> None:
        """Reads what the program says."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, _, rest = line.strip().partition(" ")
            if what in ("committed", "aborted", "unknown"):
                self.outcomes[rest] = what
                self.last_progress_s = time.monotonic()
            elif what == "error":
                self.errors.append(rest)
            elif what == "done":
                self.has_ended = True

    def end(self) -> None:
        """Ask it to finish what it has begun."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self, patience_s: float) -> bool:
        """Whether it finished in time; it is not there any more in either case."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.join(5)
        return self.has_ended

    def count(self, outcome: str) -> int:
        """Of its attempts."""
        return list(self.outcomes.values()).count(outcome)  # copied at once: `run` adds to it
