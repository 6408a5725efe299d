/* Produce without the interpreter: one plain request, from its frame to its answer, in one call. Runs in request
 * handlers. It serves what nearly every producer sends (versions 3 to 7, uncompressed batches, known topics, nothing
 * transactional) and refuses everything else before it has had any effect; the Python handler then serves it with the
 * same checks. Which topics are served here, and under which settings, the Python side decides. */
#ifndef MPB_PRODUCE_PATH_H
#define MPB_PRODUCE_PATH_H

#include "log/append.h"
#include "request/handler.h"

#define MPB_PLAIN_TOPICS 1024   /* kept; a power of two */
#define MPB_PLAIN_PARTITIONS 32 /* of one request */
#define MPB_PLAIN_TOPIC_PARTITIONS 1024
#define MPB_PLAIN_FRAME_BYTES 10240

struct mpb_plain_topic {
    uint8_t id[16];
    uint32_t hash; /* CRC-32C of the name */
    uint32_t name_length;
    uint8_t name[250];
    uint32_t partition_count;
    uint32_t *ordinals;
    struct mpb_append_options append;
    struct mpb_batch_rules rules;
};

struct mpb_produce_path {
    struct mpb_handler *handler;
    struct mpb_log *log;
    uint64_t generation; /* of the metadata the topics were taken from */
    uint32_t topic_count;
    struct mpb_plain_topic *topics[MPB_PLAIN_TOPICS]; /* by hash, open addressing */
    uint32_t errors_counter; /* counts partitions in error, when the handler serves by itself */
    uint32_t frame_entry;    /* served by itself, but its answer in `frame` found no memory; all ones: none */
    uint32_t frame_length;
    uint8_t frame[MPB_PLAIN_FRAME_BYTES];
};

void mpb_produce_path_clear(struct mpb_produce_path *path);
/* Remembers a topic; false when the table is full or memory ran out. `ordinals` are copied. */
bool mpb_produce_path_add(struct mpb_produce_path *path, const uint8_t *name, uint32_t name_length,
                          const uint8_t id[16], const uint32_t *ordinals, uint32_t partition_count,
                          const struct mpb_append_options *append, const struct mpb_batch_rules *rules);

enum mpb_plain_result {
    MPB_PLAIN_NOT = 0, /* not plain: nothing was done */
    MPB_PLAIN_ANSWERED = 1,
    MPB_PLAIN_NO_ROOM = 2 /* done; the answer in `frame` waits for memory */
};

enum mpb_plain_result mpb_produce_plain(struct mpb_produce_path *path, uint32_t entry, int64_t now_ms,
                                        uint8_t frame[MPB_PLAIN_FRAME_BYTES], uint32_t *frame_length, uint32_t *errors);
/* The same as `serve` of a handler, with the time of the wall clock; false also when the answer waits in `frame`. */
bool mpb_produce_serve(void *path, uint32_t entry);

#endif
