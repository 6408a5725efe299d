/* The topics whose requests are served natively, by name and by id. Which they are, and with which settings, Python decides
 * (server/native_topics.py); one table per request handler process. */
#ifndef MPB_NATIVE_TOPICS_H
#define MPB_NATIVE_TOPICS_H

#include "log/append_options.h"
#include "record/record_batch.h"

#define MPB_NATIVE_TOPICS 1024 /* places; a power of two. Half of them are used at most */
#define MPB_NATIVE_TOPIC_PARTITIONS 1024

struct mpb_native_topic {
    uint8_t id[16];
    uint32_t hash; /* CRC-32C of the name */
    uint32_t name_length;
    uint8_t name[250];
    uint32_t partition_count;
    uint32_t *ordinals;
    bool produces; /* its Produce requests too, not only Fetch */
    bool is_zstd;  /* compression.type: refused to old readers */
    struct mpb_append_options append;
    struct mpb_batch_rules rules;
};

struct mpb_native_topics {
    uint32_t count;
    struct mpb_native_topic *by_name[MPB_NATIVE_TOPICS]; /* by hash, open addressing */
    struct mpb_native_topic *by_id[MPB_NATIVE_TOPICS];
};

void mpb_native_forget(struct mpb_native_topics *topics);
/* Remembers a topic; NULL when it is none for this path, is known, the table is full or memory ran out. `ordinals` are
 * copied. It takes no Produce requests until `produces` is set, and then only if its settings allow that. */
struct mpb_native_topic *mpb_native_add(struct mpb_native_topics *topics, const uint8_t *name, uint32_t name_length,
                                        const uint8_t id[16], const uint32_t *ordinals, uint32_t partition_count,
                                        const struct mpb_append_options *append, const struct mpb_batch_rules *rules);
/* Whether appends to it need nothing of Python. */
bool mpb_native_may_produce(const struct mpb_native_topic *topic);

/* The topic, or NULL. */
const struct mpb_native_topic *mpb_native_by_name(const struct mpb_native_topics *topics, const uint8_t *name,
                                                  uint32_t length);
const struct mpb_native_topic *mpb_native_by_id(const struct mpb_native_topics *topics, const uint8_t id[16]);

#endif
