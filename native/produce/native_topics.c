#include "produce/native_topics.h"

#include <stdlib.h>
#include <string.h>

#include "record/crc32c.h"

#define NO_FLUSH INT64_MAX

static uint32_t place_by_name(const struct mpb_native_topics *topics, const uint8_t *name, uint32_t length,
                              uint32_t hash)
{
    uint32_t at = hash & (MPB_NATIVE_TOPICS - 1);
    for (; topics->by_name[at] != NULL; at = (at + 1) & (MPB_NATIVE_TOPICS - 1))
        if (topics->by_name[at]->name_length == length && memcmp(topics->by_name[at]->name, name, length) == 0)
            break;
    return at;
}

/* Ids are random; a client may make up others, which cost a walk through at most half of the places. */
static uint32_t place_by_id(const struct mpb_native_topics *topics, const uint8_t id[16])
{
    uint32_t at = (uint32_t)mpb_be32(id) & (MPB_NATIVE_TOPICS - 1);
    for (; topics->by_id[at] != NULL; at = (at + 1) & (MPB_NATIVE_TOPICS - 1))
        if (memcmp(topics->by_id[at]->id, id, 16) == 0)
            break;
    return at;
}

const struct mpb_native_topic *mpb_native_by_name(const struct mpb_native_topics *topics, const uint8_t *name,
                                                  uint32_t length)
{
    return topics->by_name[place_by_name(topics, name, length, mpb_crc32c(0, name, length))];
}

const struct mpb_native_topic *mpb_native_by_id(const struct mpb_native_topics *topics, const uint8_t id[16])
{
    return topics->by_id[place_by_id(topics, id)];
}

void mpb_native_forget(struct mpb_native_topics *topics)
{
    for (uint32_t i = 0; i < MPB_NATIVE_TOPICS; i++) {
        topics->by_id[i] = NULL;
        if (topics->by_name[i] == NULL)
            continue;
        free(topics->by_name[i]->ordinals);
        free(topics->by_name[i]);
        topics->by_name[i] = NULL;
    }
    topics->count = 0;
}

bool mpb_native_may_produce(const struct mpb_native_topic *topic) { return topic->append.flush_messages == NO_FLUSH; }

struct mpb_native_topic *mpb_native_add(struct mpb_native_topics *topics, const uint8_t *name, uint32_t name_length,
                                        const uint8_t id[16], const uint32_t *ordinals, uint32_t partition_count,
                                        const struct mpb_append_options *append, const struct mpb_batch_rules *rules)
{
    if (name_length == 0 || name_length > sizeof topics->by_name[0]->name || partition_count == 0 ||
        partition_count > MPB_NATIVE_TOPIC_PARTITIONS)
        return NULL;
    uint32_t hash = mpb_crc32c(0, name, name_length);
    uint32_t at = place_by_name(topics, name, name_length, hash), id_at = place_by_id(topics, id);
    if (topics->by_name[at] != NULL || topics->count >= MPB_NATIVE_TOPICS / 2)
        return NULL;
    struct mpb_native_topic *topic = calloc(1, sizeof *topic);
    uint32_t *rows = malloc(partition_count * sizeof *rows);
    if (topic == NULL || rows == NULL) {
        free(topic);
        free(rows);
        return NULL;
    }
    memcpy(rows, ordinals, partition_count * sizeof *rows);
    memcpy(topic->name, name, name_length);
    memcpy(topic->id, id, 16);
    topic->name_length = name_length;
    topic->hash = hash;
    topic->partition_count = partition_count;
    topic->ordinals = rows;
    topic->append = *append;
    topic->rules = *rules;
    topics->by_name[at] = topic;
    if (topics->by_id[id_at] == NULL) /* else a test gave one id to two names: the first one keeps it */
        topics->by_id[id_at] = topic;
    topics->count++;
    return topic;
}
