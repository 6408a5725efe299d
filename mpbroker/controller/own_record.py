"""What a broker says of itself in the store of its cluster. Controller process of a broker of a cluster only."""

from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.shm.process_context import ProcessContext


def own_record(ctx: ProcessContext) -> BrokerRecord:
    """As it is now."""
    listeners = [
        ListenerRecord(each.name, each.protocol, each.advertised_host, each.advertised_port) for each in ctx.listeners
    ]
    return BrokerRecord(
        id=ctx.config.node_id,
        machine=machine(),
        directory=ctx.directory_ids[0],
        incarnation=f"{ctx.boot_id:016x}",
        listeners=listeners,
        rack=ctx.config.broker_rack,
    )


def machine() -> str:
    """The boot id of this kernel: the machine, since it was started."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
