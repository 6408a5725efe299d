#include "record/key_map.h"

#include <endian.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_rounds(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

void mpb_sip_hash(const uint64_t seed[2], const uint8_t *bytes, size_t length, uint64_t out[2])
{
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575ull, seed[1] ^ 0x646f72616e646f6dull ^ 0xee,
                     seed[0] ^ 0x6c7967656e657261ull, seed[1] ^ 0x7465646279746573ull};
    uint64_t word, last = (uint64_t)length << 56;
    size_t at = 0;
    for (; length - at >= 8; at += 8) {
        memcpy(&word, bytes + at, 8);
        sip_word(v, le64toh(word));
    }
    for (int shift = 0; at < length; at++, shift += 8)
        last |= (uint64_t)bytes[at] << shift;
    sip_word(v, last);
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    out[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    out[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
}

bool mpb_key_map_open(struct mpb_key_map *map, uint64_t capacity, uint64_t limit, const uint64_t seed[2])
{
    memset(map, 0, sizeof *map);
    if (capacity == 0 || limit >= capacity || capacity > SIZE_MAX / sizeof *map->places)
        return false; /* one place stays free: a search ends there */
    void *memory = mmap(NULL, capacity * sizeof *map->places, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0);
    if (memory == MAP_FAILED)
        return false;
    map->places = memory;
    map->capacity = capacity;
    map->limit = limit;
    memcpy(map->seed, seed, sizeof map->seed);
    return true;
}

void mpb_key_map_close(struct mpb_key_map *map)
{
    if (map->places != NULL)
        munmap(map->places, map->capacity * sizeof *map->places);
    map->places = NULL;
}

/* The key's place, or the free one where it would go. */
static struct mpb_key_place *find(const struct mpb_key_map *map, const uint64_t hash[2])
{
    for (uint64_t at = hash[0] % map->capacity;; at = at + 1 == map->capacity ? 0 : at + 1) {
        struct mpb_key_place *place = &map->places[at];
        if (place->next == 0 || (place->hash[0] == hash[0] && place->hash[1] == hash[1]))
            return place;
    }
}

bool mpb_key_map_put(struct mpb_key_map *map, const uint8_t *key, size_t length, int64_t offset)
{
    uint64_t hash[2];
    mpb_sip_hash(map->seed, key, length, hash);
    struct mpb_key_place *place = find(map, hash);
    if (place->next == 0) {
        if (map->count >= map->limit)
            return false;
        map->count++;
        place->hash[0] = hash[0];
        place->hash[1] = hash[1];
    }
    if (place->next < offset + 1)
        place->next = offset + 1;
    return true;
}

int64_t mpb_key_map_get(const struct mpb_key_map *map, const uint8_t *key, size_t length)
{
    uint64_t hash[2];
    mpb_sip_hash(map->seed, key, length, hash);
    return find(map, hash)->next - 1;
}
