"""What several brokers of one machine share: everything a broker runs, imported once by the foreground of
`mpbroker cluster start`, which then forks them. Pages that no process writes are there once for all brokers."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Final

from mpbroker.shm.shared_pages import take_heap_image
from mpbroker.supervisor import launch
from mpbroker.supervisor.process_types import resolve_mains, served_versions

_LATER: Final = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.unicode_escape",
    "encodings.utf_16_be",
    "mpbroker.cli.start",
    "mpbroker.controller.agent",
    "mpbroker.controller.agent_process",
    "mpbroker.controller.machine_crash",
    "mpbroker.log.sync_pool",
    "mpbroker.metadata.session_files",
    "mpbroker.metadata.sqlite_shared_store",
    "mpbroker.server.control_request",
    "mpbroker.server.handlers.alter_partition",
    "mpbroker.server.handlers.leader_and_isr",
    "mpbroker.server.handlers.offset_for_leader_epoch",
    "mpbroker.server.handlers.update_metadata",
)
"""What a broker would import after its first fork, in each process that needs it."""


def warm_up() -> None:
    """Import it all, and take it out of the collector's sight. Before the first fork."""
    gc.disable()
    import_module("mpbroker.supervisor.supervisor")
    for late in (False, True):
        resolve_mains(late, in_cluster=True)
    for between_brokers in (False, True):
        served_versions(between_brokers)
    for module in _LATER:
        import_module(module)
    launch.freeze()
    take_heap_image()
