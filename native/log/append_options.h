/* What a topic's settings say about its log. */
#ifndef MPB_APPEND_OPTIONS_H
#define MPB_APPEND_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct mpb_append_options { /* a topic's settings, by Kafka's names */
    int32_t segment_bytes;
    int64_t segment_ms; /* jitter taken off */
    int32_t index_interval_bytes;
    int32_t index_max_bytes; /* segment.index.bytes */
    int64_t flush_messages;
    bool log_append_time; /* message.timestamp.type=LogAppendTime */
    bool by_coordinator;  /* sequences of its own batches are not looked at (Kafka's AppendOrigin.COORDINATOR) */
};

#endif
