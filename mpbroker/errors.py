"""Kafka's error codes and mpbroker's exception types; layer 0, imported by every process, imports nothing of ours.

`ErrorCode.X` is a plain int: what goes on the wire. What is known about a code (name, whether a client may simply
try again, one sentence) stands in `ERRORS`. Errors a client caused travel as these values; exceptions are for our own
code and for frames that cannot be read.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class ErrorInfo(NamedTuple):
    """What is known about one error code. `retriable`: the same request may succeed later without any change."""

    code: int
    name: str
    retriable: bool
    sentence: str


_rows: dict[int, tuple[bool, str]] = {}


def _final(code: int, sentence: str) -> int:
    """Declare a code that repeating the same request will not cure."""
    assert code not in _rows, f"error code {code} is declared twice"
    _rows[code] = (False, sentence)
    return code


def _retriable(code: int, sentence: str) -> int:
    """Declare a code after which the client refreshes its metadata, or waits, and tries again."""
    assert code not in _rows, f"error code {code} is declared twice"
    _rows[code] = (True, sentence)
    return code


class ErrorCode:
    """Kafka's error codes by name; every value is a plain int."""

    UNKNOWN_SERVER_ERROR: Final = _final(-1, "The broker failed while it handled this request.")
    NONE: Final = _final(0, "No error.")
    OFFSET_OUT_OF_RANGE: Final = _final(1, "The offset lies outside the log of this partition.")
    CORRUPT_MESSAGE: Final = _retriable(2, "The record batch fails its checksum or its lengths contradict each other.")
    UNKNOWN_TOPIC_OR_PARTITION: Final = _retriable(3, "This broker has no such topic or partition.")
    INVALID_FETCH_SIZE: Final = _final(4, "The fetch size is not a size.")
    LEADER_NOT_AVAILABLE: Final = _retriable(5, "The partition has no leader at this moment.")
    NOT_LEADER_OR_FOLLOWER: Final = _retriable(6, "This broker is not the replica that may answer for the partition.")
    REQUEST_TIMED_OUT: Final = _retriable(7, "The request was not finished within its timeout.")
    BROKER_NOT_AVAILABLE: Final = _final(8, "The broker asked for is not available.")
    REPLICA_NOT_AVAILABLE: Final = _retriable(9, "The replica asked for is not available on this broker.")
    MESSAGE_TOO_LARGE: Final = _final(10, "A record batch is larger than the topic or the broker accepts.")
    STALE_CONTROLLER_EPOCH: Final = _final(11, "The request comes from a controller that has been replaced.")
    OFFSET_METADATA_TOO_LARGE: Final = _final(12, "The text committed with an offset is too long.")
    NETWORK_EXCEPTION: Final = _retriable(13, "The connection ended before an answer arrived.")
    COORDINATOR_LOAD_IN_PROGRESS: Final = _retriable(14, "The coordinator is still reading its state.")
    COORDINATOR_NOT_AVAILABLE: Final = _retriable(15, "No coordinator is available for this group or transaction.")
    NOT_COORDINATOR: Final = _retriable(16, "This broker does not coordinate this group or transaction.")
    INVALID_TOPIC_EXCEPTION: Final = _final(17, "The topic's name is not legal, or the topic may not be used this way.")
    RECORD_LIST_TOO_LARGE: Final = _final(18, "The batch is larger than a segment can be.")
    NOT_ENOUGH_REPLICAS: Final = _retriable(19, "Too few replicas are in sync; nothing was written.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = _retriable(
        20, "The records are written, but fewer replicas than demanded hold them."
    )
    INVALID_REQUIRED_ACKS: Final = _final(21, "acks must be -1, 0 or 1.")
    ILLEGAL_GENERATION: Final = _final(22, "The group has moved on to another generation.")
    INCONSISTENT_GROUP_PROTOCOL: Final = _final(23, "The member shares no protocol with the others of its group.")
    INVALID_GROUP_ID: Final = _final(24, "The group id is not legal.")
    UNKNOWN_MEMBER_ID: Final = _final(25, "The group does not know this member.")
    INVALID_SESSION_TIMEOUT: Final = _final(26, "The session timeout lies outside what the broker allows.")
    REBALANCE_IN_PROGRESS: Final = _final(27, "The group is rebalancing; the member should join again.")
    INVALID_COMMIT_OFFSET_SIZE: Final = _final(28, "The commit is larger than the broker can store.")
    TOPIC_AUTHORIZATION_FAILED: Final = _final(29, "The client may not do this with the topic.")
    GROUP_AUTHORIZATION_FAILED: Final = _final(30, "The client may not do this with the group.")
    CLUSTER_AUTHORIZATION_FAILED: Final = _final(31, "The client may not do this with the cluster.")
    INVALID_TIMESTAMP: Final = _final(32, "A record's timestamp lies outside what the topic accepts.")
    UNSUPPORTED_SASL_MECHANISM: Final = _final(33, "The broker does not offer this SASL mechanism.")
    ILLEGAL_SASL_STATE: Final = _final(34, "The request does not fit the state of authentication.")
    UNSUPPORTED_VERSION: Final = _final(35, "The broker does not support this version of the request.")
    TOPIC_ALREADY_EXISTS: Final = _final(36, "A topic of this name exists already.")
    INVALID_PARTITIONS: Final = _final(37, "The number of partitions is not possible.")
    INVALID_REPLICATION_FACTOR: Final = _final(38, "The replication factor is not possible with the brokers there are.")
    INVALID_REPLICA_ASSIGNMENT: Final = _final(39, "The assignment of replicas to brokers is not possible.")
    INVALID_CONFIG: Final = _final(40, "A setting is unknown or its value is not allowed.")
    NOT_CONTROLLER: Final = _retriable(41, "This broker is not the controller.")
    INVALID_REQUEST: Final = _final(42, "The request contradicts itself or the protocol.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = _final(43, "The record format on disk cannot do this.")
    POLICY_VIOLATION: Final = _final(44, "The request breaks a policy of this cluster.")
    OUT_OF_ORDER_SEQUENCE_NUMBER: Final = _final(45, "The producer's sequence number leaves a gap.")
    DUPLICATE_SEQUENCE_NUMBER: Final = _final(46, "The producer's sequence number was used before.")
    INVALID_PRODUCER_EPOCH: Final = _final(47, "The producer's epoch is older than the one known.")
    INVALID_TXN_STATE: Final = _final(48, "The transaction is not in a state that allows this.")
    INVALID_PRODUCER_ID_MAPPING: Final = _final(49, "The producer id does not belong to this transactional id.")
    INVALID_TRANSACTION_TIMEOUT: Final = _final(50, "The transaction timeout is larger than the broker allows.")
    CONCURRENT_TRANSACTIONS: Final = _retriable(51, "The producer's last transaction is still being finished.")
    TRANSACTION_COORDINATOR_FENCED: Final = _final(52, "The transaction coordinator has been replaced.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = _final(53, "The client may not use this transactional id.")
    SECURITY_DISABLED: Final = _final(54, "The broker runs without the security feature this needs.")
    OPERATION_NOT_ATTEMPTED: Final = _final(55, "Nothing was done because another part of the request failed.")
    KAFKA_STORAGE_ERROR: Final = _retriable(56, "The log directory of this partition failed.")
    LOG_DIR_NOT_FOUND: Final = _final(57, "The broker has no such log directory.")
    SASL_AUTHENTICATION_FAILED: Final = _final(58, "The credentials were not accepted.")
    UNKNOWN_PRODUCER_ID: Final = _final(59, "The broker holds no state for this producer id any more.")
    REASSIGNMENT_IN_PROGRESS: Final = _final(60, "Replicas of this partition are being moved.")
    DELEGATION_TOKEN_AUTH_DISABLED: Final = _final(61, "Delegation tokens are switched off.")
    DELEGATION_TOKEN_NOT_FOUND: Final = _final(62, "There is no such delegation token.")
    DELEGATION_TOKEN_OWNER_MISMATCH: Final = _final(63, "The client does not own this delegation token.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Final = _final(64, "This connection may not handle delegation tokens.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED: Final = _final(65, "The client may not see this delegation token.")
    DELEGATION_TOKEN_EXPIRED: Final = _final(66, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE: Final = _final(67, "The kind of principal is not supported.")
    NON_EMPTY_GROUP: Final = _final(68, "The group still has members.")
    GROUP_ID_NOT_FOUND: Final = _final(69, "There is no such group.")
    FETCH_SESSION_ID_NOT_FOUND: Final = _retriable(70, "The broker does not know this fetch session.")
    INVALID_FETCH_SESSION_EPOCH: Final = _retriable(71, "The fetch session expects another epoch.")
    LISTENER_NOT_FOUND: Final = _retriable(72, "The leader has no listener of the name this client used.")
    TOPIC_DELETION_DISABLED: Final = _final(73, "Deleting topics is switched off.")
    FENCED_LEADER_EPOCH: Final = _retriable(74, "The client's leader epoch is older than the broker's.")
    UNKNOWN_LEADER_EPOCH: Final = _retriable(75, "The client's leader epoch is newer than the broker's.")
    UNSUPPORTED_COMPRESSION_TYPE: Final = _final(76, "This version of the request may not carry this compression.")
    STALE_BROKER_EPOCH: Final = _final(77, "The broker's epoch has changed.")
    OFFSET_NOT_AVAILABLE: Final = _retriable(78, "A new leader cannot tell the high watermark yet.")
    MEMBER_ID_REQUIRED: Final = _final(79, "The member should join again with the id it was given.")
    PREFERRED_LEADER_NOT_AVAILABLE: Final = _retriable(80, "The preferred leader is not available.")
    GROUP_MAX_SIZE_REACHED: Final = _final(81, "The group has as many members as it may have.")
    FENCED_INSTANCE_ID: Final = _final(82, "Another member uses this group instance id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = _retriable(83, "No replica that could lead is available.")
    ELECTION_NOT_NEEDED: Final = _retriable(84, "The partition has the leader it should have.")
    NO_REASSIGNMENT_IN_PROGRESS: Final = _final(85, "No replicas of this partition are being moved.")
    GROUP_SUBSCRIBED_TO_TOPIC: Final = _final(86, "The group still consumes this topic.")
    INVALID_RECORD: Final = _final(87, "A record breaks a rule of the topic or of the format.")
    UNSTABLE_OFFSET_COMMIT: Final = _retriable(88, "A transaction that committed these offsets is still open.")
    THROTTLING_QUOTA_EXCEEDED: Final = _retriable(89, "The client has used up its quota.")
    PRODUCER_FENCED: Final = _final(90, "A newer producer uses this transactional id.")
    RESOURCE_NOT_FOUND: Final = _final(91, "The request names something that does not exist.")
    DUPLICATE_RESOURCE: Final = _final(92, "The request names the same thing twice.")
    UNACCEPTABLE_CREDENTIAL: Final = _final(93, "The credential does not meet the rules.")
    INCONSISTENT_VOTER_SET: Final = _final(94, "Sender and receiver disagree about who votes.")
    INVALID_UPDATE_VERSION: Final = _final(95, "The update was made from another version than the present one.")
    FEATURE_UPDATE_FAILED: Final = _final(96, "The features could not be changed.")
    PRINCIPAL_DESERIALIZATION_FAILURE: Final = _final(97, "The forwarded principal cannot be read.")
    SNAPSHOT_NOT_FOUND: Final = _final(98, "There is no such metadata snapshot.")
    POSITION_OUT_OF_RANGE: Final = _final(99, "The position lies outside the metadata snapshot.")
    UNKNOWN_TOPIC_ID: Final = _retriable(100, "This broker knows no topic of this id.")
    DUPLICATE_BROKER_REGISTRATION: Final = _final(101, "Another broker is registered under this id.")
    BROKER_ID_NOT_REGISTERED: Final = _final(102, "No broker is registered under this id.")
    INCONSISTENT_TOPIC_ID: Final = _retriable(103, "The topic's id is not the one the log was made with.")
    INCONSISTENT_CLUSTER_ID: Final = _final(104, "The request was meant for another cluster.")
    TRANSACTIONAL_ID_NOT_FOUND: Final = _final(105, "There is no such transactional id.")
    FETCH_SESSION_TOPIC_ID_ERROR: Final = _retriable(106, "The fetch session mixed topic names and topic ids.")
    INELIGIBLE_REPLICA: Final = _final(107, "The new in-sync set names a replica that may not be in it.")
    NEW_LEADER_ELECTED: Final = _final(108, "The change of the in-sync set made another replica the leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE: Final = _final(109, "The offset is kept in remote storage only.")
    FENCED_MEMBER_EPOCH: Final = _final(110, "The group has moved past this member's epoch.")
    UNRELEASED_INSTANCE_ID: Final = _final(111, "Another member still holds this group instance id.")
    UNSUPPORTED_ASSIGNOR: Final = _final(112, "The broker does not have the assignor asked for.")
    STALE_MEMBER_EPOCH: Final = _final(113, "The member's epoch is not the present one.")
    MISMATCHED_ENDPOINT_TYPE: Final = _final(114, "The request went to a controller, not a broker, or the reverse.")
    UNSUPPORTED_ENDPOINT_TYPE: Final = _final(115, "This kind of endpoint is not supported.")
    UNKNOWN_CONTROLLER_ID: Final = _final(116, "There is no controller of this id.")
    UNKNOWN_SUBSCRIPTION_ID: Final = _final(117, "The client pushed metrics under a subscription that is not current.")
    TELEMETRY_TOO_LARGE: Final = _final(118, "The client pushed more metrics than the broker accepts.")
    INVALID_REGISTRATION: Final = _final(119, "The broker's registration is not acceptable.")
    TRANSACTION_ABORTABLE: Final = _final(120, "The transaction cannot go on; the client should abort it.")
    INVALID_REGULAR_EXPRESSION: Final = _final(128, "The pattern of topics is no regular expression.")


ERRORS: Final[dict[int, ErrorInfo]] = {
    code: ErrorInfo(code, name, *_rows[code])
    for name, code in vars(ErrorCode).items()
    if isinstance(code, int) and not name.startswith("_")
}
"""Every known code → its row."""


def error_name(code: int) -> str:
    """Name of an error code; a code nobody declared reads `ERROR_<code>`."""
    info = ERRORS.get(code)
    return info.name if info else f"ERROR_{code}"


class MpbrokerError(Exception):
    """Root of every exception mpbroker raises itself. `exit_code`: how a command ends that it stops."""

    exit_code: int = 1


class ProtocolError(MpbrokerError):
    """Bytes that are not the message they should be. The connection they came on is closed."""


class BufferTooSmall(MpbrokerError):
    """An encoded message does not fit into the buffer given. Sizes in bytes, counted from the offset given."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"the message needs {needed} bytes, the buffer has room for {available}")
        self.needed = needed
        self.available = available


class ConfigError(MpbrokerError):
    """A setting, or an argument, that cannot be used.

    `allowed` ends the sentence "KEY=VALUE: must be …"; `problem` is a whole sentence instead, where that one would read
    badly. `origin`: the place in a file, or the variable, that gave the value; the message begins with it.
    """

    exit_code = 2

    def __init__(self, key: str, value: object, allowed: str = "", *, problem: str = "", origin: str = "") -> None:
        sentence = problem or f"{key}={value}: must be {allowed}"
        super().__init__(f"{origin}: {sentence}" if origin else sentence)
        self.key = key
        self.value = value
        self.allowed = allowed
        self.problem = problem

    @property
    def errors(self) -> "tuple[ConfigError, ...]":
        """The single errors that this one stands for."""
        return (self,)

    def at(self, origin: str) -> "ConfigError":
        """The same error with the place that its value came from."""
        return ConfigError(self.key, self.value, self.allowed, problem=self.problem, origin=origin)


class ConfigErrors(ConfigError):
    """Everything that is wrong with one configuration: at least two errors, so that a file is corrected in one go."""

    def __init__(self, errors: "Sequence[ConfigError]") -> None:
        first = errors[0]
        super().__init__(first.key, first.value, first.allowed, problem="; ".join(map(str, errors)))
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """The single errors that this one stands for."""
        return self._errors


def raise_all(errors: "Sequence[ConfigError]") -> None:
    """Raises one ConfigError for all of them; returns where there is none."""
    single = [one for error in errors for one in error.errors]
    if len(single) == 1:
        raise single[0]
    if single:
        raise ConfigErrors(single)


class DataDirectoryInUse(MpbrokerError):
    """Another process works in the data directory. `pid` is 0 when it did not write its number down."""

    exit_code = 3

    def __init__(self, path: str, pid: int) -> None:
        super().__init__(f"data directory {path} is in use by pid {pid or 'unknown'}")
        self.path = path
        self.pid = pid


class NothingRuns(MpbrokerError):
    """No broker runs on the data directory that a command was to reach."""

    exit_code = 3

    def __init__(self, path: str) -> None:
        super().__init__(f"no broker runs on data directory {path}")
        self.path = path


class NoBrokerOfYours(NothingRuns):
    """No data directory was named, and this user runs no broker on this machine."""

    def __init__(self, looked_in: str, others: str) -> None:
        MpbrokerError.__init__(self, f"no broker of yours runs here: none on {looked_in}, none elsewhere{others}")
        self.path = looked_in


class BelongsToAnother(MpbrokerError):
    """A broker, or its files, that only another user may look at."""

    def __init__(self, what: str, owner: str) -> None:
        super().__init__(f"{what} belongs to {owner}; run this as that user, or as root")


class KafkaError(MpbrokerError):
    """An error code as an exception, for code that cannot hand it back as a value (clients, CLI, controller)."""

    def __init__(self, code: int, detail: str = "", about: str = "") -> None:
        """`detail`: the broker's own words, else the code's sentence; `about`: the topic or partition it happened
        to."""
        info = ERRORS.get(code)
        text = detail or (info.sentence if info else "unknown error code")
        super().__init__(f"{error_name(code)} ({code}): " + (f"{about}: {text}" if about else text))
        self.code = code
        self.detail = detail

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later; a code nobody declared is not."""
        info = ERRORS.get(self.code)
        return info.retriable if info else False
