/* Kafka's error codes as the C core answers them. mpbroker/errors.py has all of them with their sentences. */
#ifndef MPB_KAFKA_ERRORS_H
#define MPB_KAFKA_ERRORS_H

enum mpb_error {
    MPB_ERR_UNKNOWN_SERVER_ERROR = -1,
    MPB_ERR_NONE = 0,
    MPB_ERR_CORRUPT_MESSAGE = 2,
    MPB_ERR_MESSAGE_TOO_LARGE = 10,
    MPB_ERR_INVALID_TIMESTAMP = 32,
    MPB_ERR_UNSUPPORTED_COMPRESSION_TYPE = 76,
    MPB_ERR_INVALID_RECORD = 87,
};

#endif
