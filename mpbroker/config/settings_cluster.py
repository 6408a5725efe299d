"""Rows of the settings table: topics, replication, controller, groups, transactions. Pure data."""

from mpbroker.config.kinds import INT_MAX, Kind
from mpbroker.config.setting import Change, Setting

CLUSTER_WIDE = Change.CLUSTER_WIDE
INT, LONG, SHORT, STRING, BOOLEAN = Kind.INT, Kind.LONG, Kind.SHORT, Kind.STRING, Kind.BOOLEAN

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

TOPICS = (
    Setting("num.partitions", INT, 1, "Partitions of a topic created without a number.", least=1),
    Setting("default.replication.factor", INT, 1, "Replicas of a topic created without a number.", least=1),
    Setting("auto.create.topics.enable", BOOLEAN, True, "Create a topic when a client first asks for it."),
    Setting("delete.topic.enable", BOOLEAN, True, "Allow topics to be deleted."),
    Setting("min.insync.replicas", INT, 1,
            "In-sync replicas that a write with acks=all needs; a partition has one replica, which is then enough, as in Kafka.",
            least=1, change=CLUSTER_WIDE),
    Setting("unclean.leader.election.enable", BOOLEAN, False,
            "Let a replica that is not in sync become leader, losing records.", change=CLUSTER_WIDE),
)

REPLICATION = (
    Setting("replica.lag.time.max.ms", LONG, 30000, "A follower that is behind for this long leaves the in-sync replicas.", least=1),
    Setting("replica.socket.timeout.ms", INT, 30000, "Timeout of a follower's requests.", least=1),
    Setting("replica.socket.receive.buffer.bytes", INT, 65536, "Receive buffer of a follower's connection.", least=-1),
    Setting("replica.fetch.max.bytes", INT, 1048576, "Bytes a follower asks for per partition.", least=0),
    Setting("replica.fetch.wait.max.ms", INT, 500, "Longest wait of a follower's fetch.", least=0),
    Setting("replica.fetch.min.bytes", INT, 1, "Bytes a follower's fetch waits for.", least=0),
    Setting("replica.fetch.response.max.bytes", INT, 10485760, "Bytes a follower asks for in all.", least=0),
    Setting("replica.fetch.backoff.ms", INT, 1000, "Pause of a follower after an error.", least=0),
    Setting("replication.quota.window.num", INT, 11, "Samples kept of the rate of throttled replicas.", least=1),
    Setting("replication.quota.window.size.seconds", INT, 1, "Length of one such sample.", least=1),
    Setting("replica.selector.class", STRING, None,
            "Where consumers that name their rack are sent to read, in a cluster: to an in-sync follower of that rack, or to the leader.",
            allowed=(LEADER_SELECTOR, RACK_SELECTOR)),
    Setting("num.replica.fetchers", INT, 1, "Replica fetchers for each source broker.", least=1, change=CLUSTER_WIDE,
            later=True),
)

CONTROLLER = (
    Setting("broker.session.timeout.ms", INT, 9000,
            "A broker of a cluster that is silent for so long is taken for dead; one whose processes are gone is at once.", least=1000),
    Setting("broker.heartbeat.interval.ms", INT, 2000, "How often a broker of a cluster renews its session.", least=100),
    Setting("auto.leader.rebalance.enable", BOOLEAN, True, "Move leadership back to preferred replicas."),
    Setting("leader.imbalance.per.broker.percentage", INT, 10, "Imbalance at which leadership is moved back.", least=0),
    Setting("leader.imbalance.check.interval.seconds", LONG, 300, "How often imbalance is checked.", least=1),
    Setting("controller.socket.timeout.ms", INT, 30000, "Timeout of the controller's requests.", least=1, later=True),
    Setting("controlled.shutdown.enable", BOOLEAN, True, "Hand leadership over before stopping."),
    Setting("controlled.shutdown.max.retries", INT, 3, "Attempts to hand leadership over before stopping.", least=0),
    Setting("controlled.shutdown.retry.backoff.ms", LONG, 5000, "Pause between those attempts.", least=0),
)

GROUP_COORDINATOR = (
    Setting("group.initial.rebalance.delay.ms", INT, 3000, "Wait for more members before a first rebalance.", least=0),
    Setting("group.min.session.timeout.ms", INT, 6000, "Shortest session timeout a member may ask for.", least=0),
    Setting("group.max.session.timeout.ms", INT, 1800000, "Longest session timeout a member may ask for.", least=0),
    Setting("group.max.size", INT, INT_MAX, "Maximum number of members of a group.", least=1),
    Setting("group.coordinator.rebalance.protocols", Kind.LIST, ("classic", "consumer"),
            "Protocols of groups that are served; `consumer` is the next-generation one (KIP-848).",
            allowed=("classic", "consumer")),
    Setting("group.consumer.session.timeout.ms", INT, 45000,
            "A member of a group of the next-generation protocol that is silent for this long goes.", least=1),
    Setting("group.consumer.heartbeat.interval.ms", INT, 5000, "How often such members shall give a sign of life.", least=1),
    Setting("group.consumer.min.session.timeout.ms", INT, 45000, "Least session timeout of a single such group.", least=1),
    Setting("group.consumer.max.session.timeout.ms", INT, 60000, "Greatest session timeout of a single such group.", least=1),
    Setting("group.consumer.min.heartbeat.interval.ms", INT, 5000, "Least heartbeat interval of a single such group.", least=1),
    Setting("group.consumer.max.heartbeat.interval.ms", INT, 15000,
            "Greatest heartbeat interval of a single such group.", least=1),
    Setting("group.consumer.max.size", INT, INT_MAX, "Maximum number of members of such a group.", least=1),
    Setting("group.consumer.assignors", Kind.LIST, ("uniform", "range"),
            "Assignors of such groups; the first one is taken where no member asks for another.", allowed=("uniform", "range")),
    Setting("group.consumer.migration.policy", STRING, "bidirectional",
            "Which groups go from one protocol to the other while they have members.",
            allowed=("bidirectional", "upgrade", "downgrade", "disabled")),
    Setting("group.consumer.assignment.interval.ms", INT, 1000,
            "Shortest time between two assignments of a group of the next-generation protocol.", least=0),
    Setting("group.consumer.min.assignment.interval.ms", INT, 0, "Least such time of a single group.", least=0),
    Setting("group.consumer.max.assignment.interval.ms", INT, 15000, "Greatest such time of a single group.", least=0),
    Setting("group.consumer.regex.refresh.interval.ms", INT, 600000,
            "How often the topics are looked up that the patterns of such groups stand for.", least=10000, internal=True),
    Setting("offset.metadata.max.bytes", INT, 4096, "Maximum length of the metadata stored with a committed offset.", least=0),
    Setting("offsets.topic.num.partitions", INT, 50, "Partitions of `__consumer_offsets`.", least=1),
    Setting("offsets.topic.replication.factor", SHORT, 3, "Replicas of `__consumer_offsets`.", least=1),
    Setting("offsets.topic.segment.bytes", INT, 104857600, "Segment size of `__consumer_offsets`.", least=1),
    Setting("offsets.retention.minutes", INT, 10080, "How long the offsets of an empty group are kept.", least=1),
    Setting("offsets.retention.check.interval.ms", LONG, 600000, "How often old offsets are removed.", least=1),
    Setting("offsets.commit.timeout.ms", INT, 5000, "Longest wait of an offset commit for its replicas.", least=1),
)

TRANSACTIONS = (
    Setting("transaction.max.timeout.ms", INT, 900000, "Longest transaction timeout a producer may ask for.", least=1),
    Setting("transactional.id.expiration.ms", INT, 604800000, "How long an unused transactional id is kept.", least=1),
    Setting("transaction.state.log.num.partitions", INT, 50, "Partitions of `__transaction_state`.", least=1),
    Setting("transaction.state.log.replication.factor", SHORT, 3, "Replicas of `__transaction_state`.", least=1),
    Setting("transaction.state.log.min.isr", INT, 2, "In-sync replicas `__transaction_state` needs; it has one replica, which is enough.", least=1),
    Setting("transaction.state.log.segment.bytes", INT, 104857600, "Segment size of `__transaction_state`.", least=1),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000,
            "How often transactions past their timeout are looked for, besides when one gets past it.", least=1),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000,
            "How often expired transactional ids are removed.", least=1),
    Setting("transaction.partition.verification.enable", BOOLEAN, True,
            "Check that a partition was added to the transaction before records are taken.", change=CLUSTER_WIDE,
            later=True),
)

GROUPS = (
    ("Topics", TOPICS),
    ("Replication", REPLICATION),
    ("Controller", CONTROLLER),
    ("Consumer groups", GROUP_COORDINATOR),
    ("Transactions", TRANSACTIONS),
)
