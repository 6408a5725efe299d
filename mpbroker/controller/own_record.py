"""What a broker says of itself in the store of its cluster. Controller process of a broker of a cluster only."""

from mpbroker.log.log_manager import Log
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.shm.process_context import ProcessContext


def own_record(ctx: ProcessContext, failed: list[str], unclean: bool) -> BrokerRecord:
    """As it is now; `failed`: log directories that cannot be used; `unclean`: machine_crash.py."""
    listeners = [
        ListenerRecord(each.name, each.protocol, each.advertised_host, each.advertised_port)
        for each in ctx.listeners
        if not each.removed
    ]
    return BrokerRecord(
        id=ctx.config.node_id,
        machine=machine(),
        directory=ctx.directory_ids[0],
        incarnation=f"{ctx.boot_id:016x}",
        listeners=listeners,
        rack=ctx.config.broker_rack,
        unclean=unclean,
        failed=failed,
    )


def failed_directories(ctx: ProcessContext, log: Log) -> list[str]:
    """By directory.id; one that never could be read may have none."""
    ids = ctx.directory_ids
    return [ids[number] or f"#{number}" for number in range(len(ids)) if not log.log_dir_online(number)]


def machine() -> str:
    """The boot id of this kernel: the machine, since it was started."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
