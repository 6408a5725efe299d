"""The logs in a broker's log directories as its controller process opens them: alone or one of a cluster."""

from mpbroker.controller.partition_logs import Home, PartitionLogs
from mpbroker.log import reserve_file
from mpbroker.log.data_dir import FIRST
from mpbroker.log.log_loader import LogLoader
from mpbroker.log.log_manager import Log
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.process_context import ProcessContext


def build_logs(ctx: ProcessContext, log: Log) -> PartitionLogs:
    """The logs of the log directories, opened after the fork."""
    data_dir, clock, row = ctx.data_dirs[0], SystemClock(), ctx.process_row
    log.repair_slot(ctx.slot)  # a predecessor may have died with a partition's lock
    log.refuse_appends(FIRST, reserve_file.was_given_up(data_dir))
    loader = LogLoader(log, data_dir, ctx.log, clock, ctx.core.crash_point, row.count)
    further = [_home(ctx, log, number) for number in range(1, len(ctx.data_dirs))]
    first_id = ctx.directory_ids[FIRST] if ctx.directory_ids else ""
    return PartitionLogs(log, data_dir, loader, clock.wall_ms, ctx.core.crash_point, further, first_id)


def _home(ctx: ProcessContext, log: Log, number: int) -> Home:
    """A log directory beside the first; one that cannot be read is offline from here on, and all else goes on."""
    path, loader = ctx.data_dirs[number], None
    try:
        if log.log_dir_online(number):
            loader = LogLoader(log, path, ctx.log, SystemClock(), ctx.core.crash_point, ctx.process_row.count)
            log.refuse_appends(number, reserve_file.was_given_up(path))
    except OSError as error:
        log.fail_log_dir(number)
        ctx.log.error("log_directory_unreadable", directory=path, error=error)
    return Home(number, path, ctx.directory_ids[number], loader)
