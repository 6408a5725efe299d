"""The keys of the metadata store, all below `/mpb/v1/<cluster>/`. Used by the controller and the agents. Pure.

cluster               id of the cluster, written once
tn/<name>             topic id (hex): a topic exists if and only if this key does
t/<topic id>          TopicRecord: name and replica assignment
config/topic/<name>   TopicConfigRecord: settings given for the topic
config/broker/<id>    BrokerConfigRecord: settings of a broker changed while it ran; `default`: those of all brokers
admin/delete/<id>     TopicDeletion: the topic is gone, its files are still to be renamed
config/group/<id>     GroupConfigRecord: settings of one group
features              FeaturesRecord: finalized levels, once one was changed
pid_block             first producer id that no block has handed out
op/<boot>/<operation> answer of a controller command, for a request that is run again after its handler's death

Of several brokers only (docs/architecture.md):

brokers/<id>          BrokerRecord: the broker lives. Bound to its session; its creation's revision is the broker epoch
controller            ControllerRecord: who is the controller. Bound to that process's session
controller_epoch      ControllerEpochRecord: +1 at each election. Its version guards every write of a controller
transaction           tag of the last transaction of a controller: each one checks that its predecessor's is still there
p/<topic id>/<number> PartitionRecord: leader, epochs, in-sync replicas. Partition epoch = version of the key - 1
"""

from typing import Final

ROOT: Final = "/mpb/v1"
STORE_FILE: Final = "metadata.db"
"""The SQLite store's file in the data directory."""


class Keys:
    """Key names of one cluster."""

    def __init__(self, cluster_id: str) -> None:
        self.prefix = f"{ROOT}/{cluster_id}/"
        self.topics = f"{self.prefix}t/"
        self.topic_configs = f"{self.prefix}config/topic/"
        self.broker_configs = f"{self.prefix}config/broker/"
        self.group_configs = f"{self.prefix}config/group/"
        self.deletions = f"{self.prefix}admin/delete/"
        self.features = f"{self.prefix}features"
        self.producer_id_block = f"{self.prefix}pid_block"
        self.operations = f"{self.prefix}op/"
        self.brokers = f"{self.prefix}brokers/"
        self.controller = f"{self.prefix}controller"
        self.controller_epoch = f"{self.prefix}controller_epoch"
        self.transaction = f"{self.prefix}transaction"
        self.partitions = f"{self.prefix}p/"

    def topic_name(self, name: str) -> str:
        """Existence of a topic."""
        return f"{self.prefix}tn/{name}"

    def topic(self, topic_id: bytes) -> str:
        """A topic's record."""
        return f"{self.topics}{topic_id.hex()}"

    def topic_config(self, name: str) -> str:
        """A topic's own settings."""
        return f"{self.topic_configs}{name}"

    def broker_config(self, broker: int | None) -> str:
        """What was changed on a broker; None: on all of them."""
        return f"{self.broker_configs}{'default' if broker is None else broker}"

    def group_config(self, group: str) -> str:
        """A group's own settings."""
        return f"{self.group_configs}{group}"

    def broker(self, broker: int) -> str:
        """A broker's registration."""
        return f"{self.brokers}{broker}"

    def partitions_of(self, topic_id: bytes) -> str:
        """Prefix of the states of a topic's partitions."""
        return f"{self.partitions}{topic_id.hex()}/"

    def partition(self, topic_id: bytes, number: int) -> str:
        """The state of one partition."""
        return f"{self.partitions}{topic_id.hex()}/{number}"

    def deletion(self, topic_id: bytes) -> str:
        """An unfinished deletion."""
        return f"{self.deletions}{topic_id.hex()}"

    def operations_of(self, boot_id: int) -> str:
        """Prefix of the answers kept since one start of the broker."""
        return f"{self.operations}{boot_id:016x}/"

    def operation(self, boot_id: int, operation: int) -> str:
        """Answer of one command; the number is padded, so that key order is age order."""
        return f"{self.operations_of(boot_id)}{operation:020d}"
