/* Kafka's error codes as the C core answers them. mpbroker/errors.py has all of them with their sentences. */
#ifndef MPB_KAFKA_ERRORS_H
#define MPB_KAFKA_ERRORS_H

#include <stdbool.h>

enum mpb_error {
    MPB_ERR_UNKNOWN_SERVER_ERROR = -1,
    MPB_ERR_NONE = 0,
    MPB_ERR_OFFSET_OUT_OF_RANGE = 1,
    MPB_ERR_CORRUPT_MESSAGE = 2,
    MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION = 3,
    MPB_ERR_NOT_LEADER_OR_FOLLOWER = 6,
    MPB_ERR_REQUEST_TIMED_OUT = 7,
    MPB_ERR_MESSAGE_TOO_LARGE = 10,
    MPB_ERR_RECORD_LIST_TOO_LARGE = 18,
    MPB_ERR_NOT_ENOUGH_REPLICAS = 19,
    MPB_ERR_INVALID_TIMESTAMP = 32,
    MPB_ERR_INVALID_REQUEST = 42,
    MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER = 45,
    MPB_ERR_INVALID_PRODUCER_EPOCH = 47,
    MPB_ERR_INVALID_TXN_STATE = 48,
    MPB_ERR_TRANSACTION_COORDINATOR_FENCED = 52,
    MPB_ERR_OPERATION_NOT_ATTEMPTED = 55,
    MPB_ERR_KAFKA_STORAGE_ERROR = 56,
    MPB_ERR_FENCED_LEADER_EPOCH = 74,
    MPB_ERR_UNKNOWN_LEADER_EPOCH = 75,
    MPB_ERR_UNSUPPORTED_COMPRESSION_TYPE = 76,
    MPB_ERR_INVALID_RECORD = 87,
    MPB_ERR_THROTTLING_QUOTA_EXCEEDED = 89,
    MPB_ERR_INVALID_UPDATE_VERSION = 95,
    MPB_ERR_UNKNOWN_TOPIC_ID = 100,
    MPB_ERR_INELIGIBLE_REPLICA = 107,
    MPB_ERR_NEW_LEADER_ELECTED = 108,
    MPB_ERR_TRANSACTION_ABORTABLE = 120,
};

/* Whether an answer to Produce with this error says where the log starts. Not with the exceptions that Kafka's
 * ReplicaManager.appendToLocalLog answers with LogAppendInfo.UnknownLogAppendInfo: those of a batch's place and size, and
 * a batch that is damaged. */
static inline bool mpb_error_tells_log_start(int error)
{
    return error != MPB_ERR_CORRUPT_MESSAGE && error != MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION &&
           error != MPB_ERR_NOT_LEADER_OR_FOLLOWER && error != MPB_ERR_MESSAGE_TOO_LARGE &&
           error != MPB_ERR_RECORD_LIST_TOO_LARGE && error != MPB_ERR_KAFKA_STORAGE_ERROR;
}

/* Whether this error of a refused batch says that its partition is not part of a transaction: Kafka finds that before it
 * looks at the log. */
static inline bool mpb_error_is_of_verification(int error)
{
    return error == MPB_ERR_NOT_ENOUGH_REPLICAS || error == MPB_ERR_INVALID_TXN_STATE ||
           error == MPB_ERR_TRANSACTION_ABORTABLE;
}

#endif
