/* The newest offset of each key, for compaction: an open-addressed table of keyed 128-bit hashes, so that no client can
 * make two keys meet. Fixed size, one thread; nothing is ever removed. 24 bytes a key, whatever the key's length. */
#ifndef MPB_KEY_MAP_H
#define MPB_KEY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mpb_key_place {
    uint64_t hash[2];
    int64_t next; /* offset + 1; 0: the place is free */
};

struct mpb_key_map {
    struct mpb_key_place *places;
    uint64_t capacity;
    uint64_t limit; /* keys it takes */
    uint64_t count;
    uint64_t seed[2];
};

/* Memory for `capacity` keys, of which `limit` are taken; touched only as far as it is used. False: there is none. */
bool mpb_key_map_open(struct mpb_key_map *map, uint64_t capacity, uint64_t limit, const uint64_t seed[2]);
void mpb_key_map_close(struct mpb_key_map *map);

/* Keeps the greatest offset of a key. False: the key is new and the map is full. */
bool mpb_key_map_put(struct mpb_key_map *map, const uint8_t *key, size_t length, int64_t offset);
/* Greatest offset that was put for a key, -1: none. */
int64_t mpb_key_map_get(const struct mpb_key_map *map, const uint8_t *key, size_t length);

/* SipHash-2-4 with 128 bits of result (Aumasson and Bernstein). */
void mpb_sip_hash(const uint64_t seed[2], const uint8_t *bytes, size_t length, uint64_t out[2]);

#endif
