"""What a running broker takes of the machine: memory, and disk space that no name shows any more."""

from __future__ import annotations

import os

from tests.harness.broker import Broker

BLOCK_BYTES = 512


def pss_bytes(broker: Broker) -> int:
    """Memory of all processes, shared pages counted once."""
    total = 0
    for pid in broker.processes():
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
            continue
    return total


def deleted_bytes(broker: Broker) -> dict[str, int]:
    """Files of the data directory that are deleted and still open somewhere, with what they take of the disk: the
    difference between df and du."""
    found: dict[str, int] = {}
    for pid in broker.processes():
        directory = f"/proc/{pid}/fd"
        try:
            for number in os.listdir(directory):
                path = os.readlink(f"{directory}/{number}")
                if path.startswith(f"{broker.data_dir}/") and path.endswith(" (deleted)"):
                    found[path] = os.stat(f"{directory}/{number}").st_blocks * BLOCK_BYTES
        except (FileNotFoundError, ProcessLookupError):
            continue
    return {path: size for path, size in found.items() if size}
