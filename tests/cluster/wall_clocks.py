"""A wall clock of its own for each broker, which can be set: a preloaded library (wall_clock.c) adds to what the kernel
says. The machine's clock is left alone."""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("wall_clock.c")


class WallClocks:
    """`environment(broker)`: for the broker's processes."""

    def __init__(self, directory, brokers):
        self._directory = directory
        self._library = directory / "wall_clock.so"
        compiler = shutil.which("cc") or shutil.which("gcc")
        words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE)]
        subprocess.run(words, check=True)
        for broker in brokers:
            self.set(broker, 0)

    def set(self, broker, seconds):
        """So far is the broker's clock ahead of the machine's."""
        with open(self._file(broker), "r+b" if self._file(broker).exists() else "wb") as file:
            file.write(struct.pack("<q", int(seconds * 1e9)))

    def environment(self, broker):
        """What is to be set for a broker."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_FILE": str(self._file(broker))}

    def _file(self, broker):
        return self._directory / f"clock-{broker}"


def is_possible():
    """Whether there is a compiler."""
    return bool(shutil.which("cc") or shutil.which("gcc"))
