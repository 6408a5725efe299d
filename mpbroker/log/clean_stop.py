"""The clean stop of the logs: everything repaired, synced, written down, and then the marker that says so.

Run by the log keeper when it is told to stop, which is after the last handler has ended. The marker is left out when
anything was not as it should be: the next start then reads the logs instead of believing it.
"""

from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.clean_shutdown import write_marker
from mpbroker.log.keeper_context import KeeperContext
from mpbroker.log.log_flusher import LogFlusher
from mpbroker.log.partition_directory import find_all
from mpbroker.log.producer_snapshots import ProducerSnapshots


def stop_cleanly(
    keeper: KeeperContext, flusher: LogFlusher, snapshots: ProducerSnapshots, checkpoints: CheckpointWriter
) -> bool:
    """Returns whether the marker was written. Done again after a death in the middle, it goes on where that ended."""
    keeper.partitions.refresh()
    if not keeper.partitions.loaded:
        return False  # the start was refused: what the last stop said of these files still holds
    why_not = _damaged(keeper)
    if not flusher.flush_everything():
        why_not = why_not or "a log could not be synced"
    keeper.crash_point("keeper.stop.flushed")
    states = [(partition, keeper.state(partition)) for partition in keeper.partitions.all]
    log_starts = {partition.dir: state.log_start for partition, state in states if state is not None}
    taken = [snapshots.take(partition, even_empty=True) for partition, state in states if state is not None]
    if not all(taken):
        why_not = why_not or "a producer snapshot could not be written"
    if not checkpoints.write():
        why_not = why_not or "a checkpoint could not be written"
    keeper.crash_point("keeper.stop.checkpointed")
    if not keeper.log.log_dir_online(keeper.log_dir):
        why_not = "the log directory is offline"
    if why_not:
        keeper.events.warning("not_stopped_cleanly", why=why_not, next_start="reads the logs")
        return False
    try:
        unknown = _not_loaded(keeper)
        if unknown:
            keeper.events.warning(
                "not_all_logs_stopped", directories=len(unknown), first=min(unknown), next_start="reads them"
            )
        write_marker(keeper.data_dir, unknown=unknown, log_starts=log_starts)
    except OSError as error:
        keeper.io_failed("marker_not_written", error)
        return False
    keeper.crash_point("keeper.stop.marked")
    return True


def _damaged(keeper: KeeperContext) -> str:
    """Takes every lock once, which repairs what a killed handler left."""
    for partition in keeper.partitions.all:
        if keeper.log.set_flags(partition.ordinal, 0, 0):
            return f"{partition.dir} could not be repaired"
    return ""


def _not_loaded(keeper: KeeperContext) -> set[str]:
    """Directories whose logs were never loaded, are offline, or belong to no topic: nobody knows in what state they
    are, or in which they will be when somebody puts them back."""
    online = {partition.dir for partition in keeper.partitions.all if keeper.state(partition) is not None}
    expected = {partition.dir for partition in keeper.partitions.all if not keeper.is_absent(partition)}
    return (expected | {found.name for found in find_all(keeper.data_dir)}) - online
