"""Kafka's broker settings that mean nothing here: one warning each, so that Kafka's own files start. Pure.

A prefix stands for all names that begin with it. A setting whose absence would open the broker to others is refused
instead (`REFUSED`). tests/unit/config holds this table against the names that Kafka 3.9 and 4.3 say they have.
"""

IGNORED: dict[str, str] = {
    "zookeeper.": "mpbroker needs no ZooKeeper",
    "process.roles": "every mpbroker is broker and controller",
    "controller.quorum.": "mpbroker has no KRaft quorum",
    "controller.quota.": "quotas on changes of topics are not supported",
    "metadata.": "mpbroker keeps its metadata in metadata.db, not in a KRaft log",
    "inter.broker.protocol.version": "the protocol's versions are agreed on per request",
    "early.start.listeners": "all listeners start together",
    "broker.id.generation.enable": "node.id is 0 unless it is set",
    "reserved.broker.max.id": "node.id is 0 unless it is set",
    "initial.broker.registration.timeout.ms": "mpbroker has no KRaft quorum",
    "eligible.leader.replicas.enable": "there is one replica of each partition",
    "num.replica.alter.log.dirs.threads": "partitions move between log directories one at a time",
    "alter.log.dirs.replication.quota.": "replica.alter.log.dirs.io.max.bytes.per.second holds at any time",
    "cordoned.log.dirs": "a log directory cannot be closed to new partitions",
    "follower.fetch.last.tiered.offset.enable": "tiered storage is not supported",
    "remote.": "tiered storage is not supported",
    "ssl.": "TLS is not supported yet",
    "sasl.": "SASL is not supported yet",
    "security.providers": "TLS and SASL are not supported yet",
    "connections.max.reauth.ms": "SASL is not supported yet",
    "principal.builder.class": "clients are not authenticated yet",
    "delegation.token.": "delegation tokens are not supported",
    "password.encoder.": "no secrets are stored",
    "super.users": "every client may do everything",
    "allow.everyone.if.no.acl.found": "every client may do everything",
    "client.quota.callback.class": "quotas on bytes and request time are not supported",
    "create.topic.policy.class.name": "Java classes cannot be loaded",
    "alter.config.policy.": "Java classes cannot be loaded",
    "config.providers": "Java classes cannot be loaded",
    "group.coordinator.": "one process coordinates all groups",
    "group.share.": "share groups are not supported",
    "group.streams.": "streams groups are not supported",
    "share.": "share groups are not supported",
    "offsets.commit.required.acks": "a commit waits for all in-sync replicas, as Kafka's does by default",
    "offsets.load.buffer.size": "offsets are read in slices of a fixed size",
    "offsets.topic.compression.codec": "`__consumer_offsets` is not compressed, as with Kafka's default",
    "transaction.state.log.load.buffer.size": "transactions are read in slices of a fixed size",
    "transaction.": "there is no such setting here",
    "add.partitions.to.txn.": "partitions are verified without a request",
    "socket.connection.setup.": "the broker opens no connections to others",
    "telemetry.": "client metrics are not supported",
    "auto.include.jmx.reporter": "there is no JMX",
    "kafka.metrics.": "Java classes cannot be loaded",
    "metric.reporters": "Java classes cannot be loaded",
    "metrics.recording.level": "`mpbroker status --json` shows every metric",
    "log4j.": "mpbroker.log.level and mpbroker.log.format say what is logged",
}

REFUSED: dict[str, str] = {
    "authorizer.class.name": "access control is not supported yet, every client may do everything",
}


def why_ignored(name: str) -> str:
    """The reason why a name of Kafka's means nothing here; empty when it is not one of them.

    `listener.name.<l>.ssl.…` and `….sasl.…` go with `ssl.` and `sasl.`.
    """
    if name.startswith("listener.name."):
        scoped = (f"{part}." for part in ("ssl", "sasl") if f".{part}." in name)
        name = next(scoped, name)
    if name in IGNORED:
        return IGNORED[name]
    return next((why for prefix, why in IGNORED.items() if prefix.endswith(".") and name.startswith(prefix)), "")
