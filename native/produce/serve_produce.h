/* Serves a Produce request without the interpreter, from its frame to its answer in one call. Runs in request handlers,
 * inside mpb_handler_serve_or_claim.
 *
 * It serves what nearly every producer sends: versions 3 to 7, uncompressed batches, known topics, nothing transactional.
 * It leaves every other request untouched, before any effect, to server/handlers/produce.py; and one that meets a busy
 * partition with the results of the others in its cells, as a second run finds them. docs/produce-checks.md says
 * which of the two makes which check; both are tested against that table. Which topics are served here, and with which
 * settings, Python decides (server/native_topics.py). */
#ifndef MPB_SERVE_PRODUCE_H
#define MPB_SERVE_PRODUCE_H

#include "log/append.h"
#include "request/handler.h"

#define MPB_NATIVE_TOPICS 1024   /* kept; a power of two */
#define MPB_NATIVE_PARTITIONS 32 /* of one request */
#define MPB_NATIVE_TOPIC_PARTITIONS 1024

struct mpb_native_topic {
    uint8_t id[16];
    uint32_t hash; /* CRC-32C of the name */
    uint32_t name_length;
    uint8_t name[250];
    uint32_t partition_count;
    uint32_t *ordinals;
    struct mpb_append_options append;
    struct mpb_batch_rules rules;
};

struct mpb_native_produce {
    struct mpb_handler *handler;
    struct mpb_log *log;
    uint64_t generation; /* of the metadata the topics were taken from */
    uint32_t topic_count;
    struct mpb_native_topic *topics[MPB_NATIVE_TOPICS]; /* by hash, open addressing */
    uint32_t errors_counter;                            /* counts partitions in error */
    uint64_t served;                                    /* requests */
    int64_t now_ms; /* wall clock; below 0: the system's. A test that owns the clock sets it */
};

void mpb_native_forget(struct mpb_native_produce *native);
/* Remembers a topic; false when it is none for this path, the table is full or memory ran out. `ordinals` are copied. */
bool mpb_native_add(struct mpb_native_produce *native, const uint8_t *name, uint32_t name_length, const uint8_t id[16],
                    const uint32_t *ordinals, uint32_t partition_count, const struct mpb_append_options *append,
                    const struct mpb_batch_rules *rules);

/* True: answered. False: somebody else serves the request; what was appended for it already is in its cells. `native` is a struct mpb_native_produce:
 * this is `serve` of a handler. */
bool mpb_serve_produce(void *native, uint32_t entry);

#endif
