"""Commands that request handlers send to the controller, and its answers: msgspec messages in the command table.

A command travels with an operation id, made of the fill number of the request it serves: when the request runs again
because its handler died, the controller gives the first run's answer. Operation 0 means that nobody will ask again. The
slots have `MAX_COMMAND_BYTES` and `MAX_ANSWER_BYTES` (native/shm/layout.h, struct mpb_command).
"""

from typing import Final

import msgspec

from mpbroker.errors import MpbrokerError

MAX_COMMAND_BYTES: Final = 40960
MAX_ANSWER_BYTES: Final = 65536 - 64 - MAX_COMMAND_BYTES
MAX_SENTENCE_CHARS: Final = 1000
MAX_RESULT_BYTES: Final = 48  # of a TopicResult without name and sentence
DEFAULT_COUNT: Final = -1
"""`num_partitions` and `replication_factor`: take the broker's default."""


class CommandTooLarge(MpbrokerError):
    """A command that does not fit into its slot; the request behind it is to be refused."""


class NewTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic to create. `assignments`: (partition, broker ids) pairs as the client gave them, instead of counts."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: list[tuple[int, list[int]]] = []
    configs: dict[str, str | None] = {}


class PartitionCount(msgspec.Struct, frozen=True, array_like=True):
    """Raise a topic to `count` partitions in all; `assignments`: broker ids of each new one, None: as ever."""

    name: str
    count: int
    assignments: list[list[int]] | None = None


class CreateTopics(msgspec.Struct, frozen=True, tag="create_topics", omit_defaults=True):
    """Create topics; `validate_only` checks and changes nothing; `forward`: the broker itself wants them, so that in a
    cluster the controller is asked, wherever it is. Answered by TopicResults."""

    topics: list[NewTopic]
    validate_only: bool = False
    forward: bool = False


class DeleteTopics(msgspec.Struct, frozen=True, tag="delete_topics", omit_defaults=True):
    """Delete topics by name; those in `ids` only while the name is that id's. Answered by TopicResults."""

    names: list[str]
    ids: dict[str, bytes] = {}


class CreatePartitions(msgspec.Struct, frozen=True, tag="create_partitions", omit_defaults=True):
    """Add partitions to topics (KIP-195). Answered by TopicResults."""

    topics: list[PartitionCount]
    validate_only: bool = False


class ConfigChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of one setting. `operation`: 0 SET, 1 DELETE, 2 APPEND to a list, 3 SUBTRACT from one (KIP-339)."""

    name: str
    operation: int
    value: str | None


class ConfigChanges(msgspec.Struct, frozen=True, array_like=True):
    """Changes of one topic's settings (KIP-133's resource type 2); each setting at most once."""

    resource_type: int
    name: str
    changes: list[ConfigChange]


class AlterConfigs(msgspec.Struct, frozen=True, tag="alter_configs", omit_defaults=True):
    """Change settings; `replace`: what is not named gets its default. Answered by TopicResults, one for each resource
    in the command's order."""

    resources: list[ConfigChanges]
    replace: bool = False
    validate_only: bool = False


class FeatureUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A new level of a feature. `kind`: 1 up, 2 down without loss of metadata, 3 down with loss."""

    name: str
    level: int
    kind: int


class UpdateFeatures(msgspec.Struct, frozen=True, tag="update_features", omit_defaults=True):
    """Change finalized levels (KIP-778). Answered by TopicResults, one for each feature in the order of their names."""

    updates: list[FeatureUpdate]
    validate_only: bool = False


class AllocateProducerIds(msgspec.Struct, frozen=True, tag="allocate_producer_ids"):
    """A block of producer ids, never handed out again (KIP-360). Answered by ProducerIds."""


class ControlRequest(msgspec.Struct, frozen=True, tag="control_request"):
    """A request of another broker, or of a client for the cluster's controller, too large for a command: whoever
    executes
    it reads it from the entry in which its handler has parked it. Answered by ControlAnswer."""

    entry: int
    fill_number: int


class TopicResult(msgspec.Struct, frozen=True, array_like=True):
    """What became of one topic: Kafka error code (0: done) and a sentence for the client.

    `topic_id`: 16 bytes, `num_partitions`, `replication_factor`: of a created topic, else b"", -1, -1.
    """

    name: str
    error_code: int = 0
    error_message: str | None = None
    topic_id: bytes = b""
    num_partitions: int = -1
    replication_factor: int = -1


class TopicResults(msgspec.Struct, frozen=True, tag="topics", omit_defaults=True):
    """One result per topic named, in the command's order, a name given twice once at the end.

    `error_code`: the whole command failed for a reason of the controller's own.
    """

    results: list[TopicResult]
    error_code: int = 0


class ProducerIds(msgspec.Struct, frozen=True, tag="producer_ids", omit_defaults=True):
    """Ids from `first_id` to first_id + count - 1; with an error code none."""

    first_id: int = -1
    count: int = 0
    error_code: int = 0


class ControlAnswer(msgspec.Struct, frozen=True, tag="control_answer", omit_defaults=True):
    """The code of the whole request; of each partition in the request's order (int16, little-endian, deflated), or the
    whole answer (`body`: encoded in the request's version, deflated)."""

    error_code: int
    codes: bytes = b""
    body: bytes = b""

    @property
    def results(self) -> list[TopicResult]:
        """No topic was named."""
        return []


class Failed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True):
    """The controller could not even read the command, or failed while it worked on it."""

    error_code: int
    error_message: str = ""

    @property
    def results(self) -> list[TopicResult]:
        """No topic was named."""
        return []


Command = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | UpdateFeatures
    | AllocateProducerIds
    | ControlRequest
)
Answer = TopicResults | ProducerIds | ControlAnswer | Failed

_command_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encode_command(command: Command) -> bytes:
    """Bytes for the command slot; CommandTooLarge if they, or the answer without its sentences, do not fit."""
    encoded = msgspec.msgpack.encode(command)
    answer_bytes = _answer_bytes(command)
    if len(encoded) > MAX_COMMAND_BYTES or answer_bytes > MAX_ANSWER_BYTES:
        raise CommandTooLarge(
            f"a controller command of {len(encoded)} bytes with an answer of up to {answer_bytes}, allowed are "
            f"{MAX_COMMAND_BYTES} and {MAX_ANSWER_BYTES}"
        )
    return encoded


def _answer_bytes(command: Command) -> int:
    """The largest number of bytes the answer can need without its sentences."""
    match command:
        case AllocateProducerIds() | ControlRequest():
            return MAX_RESULT_BYTES
        case DeleteTopics(names):
            pass
        case CreateTopics(topics) | CreatePartitions(topics):
            names = [topic.name for topic in topics]
        case AlterConfigs(resources):
            names = [resource.name for resource in resources]
        case UpdateFeatures(updates):
            names = [update.name for update in updates]
    return MAX_RESULT_BYTES + sum(len(name.encode()) + MAX_RESULT_BYTES for name in names)


def decode_command(encoded: bytes) -> Command:
    """The command of a slot; msgspec.DecodeError for bytes that are none."""
    return _command_decoder.decode(encoded)


def encode_answer(answer: Answer) -> bytes:
    """Bytes for the command slot; sentences are shortened, and left out where even that is too much."""
    encoded = msgspec.msgpack.encode(_shortened(answer, MAX_SENTENCE_CHARS))
    if len(encoded) > MAX_ANSWER_BYTES:
        encoded = msgspec.msgpack.encode(_shortened(answer, 0))
    assert len(encoded) <= MAX_ANSWER_BYTES, "an answer without sentences is larger than its command"
    return encoded


def decode_answer(encoded: bytes) -> Answer:
    """The answer in a slot."""
    return _answer_decoder.decode(encoded)


def _shortened(answer: Answer, chars: int) -> Answer:
    if not isinstance(answer, TopicResults):
        return answer
    return TopicResults([_short(result, chars) for result in answer.results], answer.error_code)


def _short(result: TopicResult, chars: int) -> TopicResult:
    sentence = result.error_message
    if sentence is None or len(sentence) <= chars:
        return result
    return msgspec.structs.replace(result, error_message=sentence[:chars] or None)
