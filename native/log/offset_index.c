#include "log/offset_index.h"

#include <errno.h>
#include <stddef.h>

#include "log/log.h"
#include "log/log_io.h"
#include "record/record_batch.h"

#define BLOCK_ENTRIES 512 /* of one read: the newest ones are tried first, since most readers are near the end */

typedef int64_t (*key_of)(const uint8_t *entry);

static int64_t offset_key(const uint8_t *entry) { return (uint32_t)mpb_be32(entry); }
static int64_t position_key(const uint8_t *entry) { return (uint32_t)mpb_be32(entry + 4); }
static int64_t time_key(const uint8_t *entry) { return mpb_be64(entry); }
static int64_t time_offset_key(const uint8_t *entry) { return (uint32_t)mpb_be32(entry + 8); }

/* Number of entries of a sorted block whose key is at most `target`. */
static uint64_t count_below(const uint8_t *block, uint64_t entries, size_t entry_bytes, key_of key, int64_t target)
{
    uint64_t low = 0, high = entries;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (key(block + middle * entry_bytes) <= target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int read_entries(int fd, uint8_t *out, uint64_t first, uint64_t count, size_t entry_bytes)
{
    int64_t n = mpb_io_read(fd, out, count * entry_bytes, first * entry_bytes);
    return n < 0 ? (int)n : n == (int64_t)(count * entry_bytes) ? 0 : -EBADMSG;
}

/* Leaves the entry in `entry`; *at is the number of entries up to and including it, 0: none. */
static int search(int fd, uint64_t bytes, size_t entry_bytes, key_of key, int64_t target, uint8_t *entry, uint64_t *at)
{
    uint8_t block[BLOCK_ENTRIES * MPB_TIME_INDEX_ENTRY_BYTES];
    uint64_t high = bytes / entry_bytes, low = high > BLOCK_ENTRIES ? high - BLOCK_ENTRIES : 0;
    *at = 0;
    if (high == 0)
        return 0;
    int error = read_entries(fd, block, low, high - low, entry_bytes);
    if (error == 0 && low > 0 && key(block) > target) {
        for (high = low, low = 0; error == 0 && high - low > BLOCK_ENTRIES;) {
            uint64_t middle = low + (high - low) / 2;
            error = read_entries(fd, block, middle, 1, entry_bytes);
            if (key(block) <= target)
                low = middle;
            else
                high = middle;
        }
        if (error == 0)
            error = read_entries(fd, block, low, high - low, entry_bytes);
    }
    if (error != 0)
        return error;
    uint64_t below = count_below(block, high - low, entry_bytes, key, target);
    *at = below == 0 ? 0 : low + below;
    for (size_t i = 0; below > 0 && i < entry_bytes; i++)
        entry[i] = block[(below - 1) * entry_bytes + i];
    return 0;
}

int mpb_offset_index_find(int fd, uint64_t bytes, uint32_t relative, struct mpb_index_hit *out)
{
    uint8_t entry[MPB_INDEX_ENTRY_BYTES] = {0};
    int error = search(fd, bytes, sizeof entry, offset_key, relative, entry, &out->entries);
    out->found = error == 0 && out->entries > 0;
    out->relative = (uint32_t)mpb_be32(entry);
    out->position = (uint32_t)mpb_be32(entry + 4);
    return error;
}

int mpb_offset_index_from(int fd, uint64_t bytes, uint64_t position, struct mpb_index_hit *out)
{
    uint8_t entry[MPB_INDEX_ENTRY_BYTES] = {0};
    int error = position == 0
                    ? 0
                    : search(fd, bytes, sizeof entry, position_key, (int64_t)position - 1, entry, &out->entries);
    out->found = error == 0 && (out->entries + 1) * sizeof entry <= bytes;
    if (out->found)
        error = read_entries(fd, entry, out->entries, 1, sizeof entry);
    out->relative = (uint32_t)mpb_be32(entry);
    out->position = (uint32_t)mpb_be32(entry + 4);
    return error;
}

static int find_time(int fd, uint64_t bytes, key_of key, int64_t target, struct mpb_index_hit *out)
{
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES] = {0};
    int error = search(fd, bytes, sizeof entry, key, target, entry, &out->entries);
    out->found = error == 0 && out->entries > 0;
    out->timestamp = mpb_be64(entry);
    out->relative = (uint32_t)mpb_be32(entry + 8);
    return error;
}

int mpb_time_index_find(int fd, uint64_t bytes, int64_t timestamp, struct mpb_index_hit *out)
{
    return find_time(fd, bytes, time_key, timestamp, out);
}

int mpb_time_index_find_offset(int fd, uint64_t bytes, uint32_t relative, struct mpb_index_hit *out)
{
    return find_time(fd, bytes, time_offset_key, relative, out);
}
