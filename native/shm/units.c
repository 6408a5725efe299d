#include "shm/units.h"
#include "shm/layout.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int mpb_units_open(struct mpb_units *units, uint64_t part_bytes, uint32_t unit_bytes, bool fresh)
{
    memset(units, 0, sizeof *units);
    units->unit_bytes = unit_bytes;
    units->count = (uint32_t)(part_bytes / unit_bytes);
    units->touched = fresh ? 0 : units->count; /* a predecessor may have used any of it */
    units->bits = calloc(units->count / 64 + 1, sizeof *units->bits);
    return units->bits == NULL ? -1 : 0;
}

void mpb_units_close(struct mpb_units *units)
{
    free(units->bits);
    units->bits = NULL;
}

void mpb_units_clear(struct mpb_units *units)
{
    memset(units->bits, 0, (units->count / 64 + 1) * sizeof *units->bits);
    units->used = 0;
    units->first_free = 0;
}

static bool is_used(const struct mpb_units *units, uint32_t unit) { return units->bits[unit / 64] >> unit % 64 & 1; }

/* Units from `from` on that all have the value `used`, at most `limit`. */
static uint32_t run_length(const struct mpb_units *units, uint32_t from, uint32_t limit, bool used)
{
    uint32_t length = 0;
    while (length < limit && from + length < units->count) {
        uint32_t unit = from + length, shift = unit % 64;
        uint64_t word = (used ? ~units->bits[unit / 64] : units->bits[unit / 64]) >> shift;
        uint32_t here = word != 0 ? (uint32_t)__builtin_ctzll(word) : 64 - shift;
        length += here;
        if (here != 64 - shift)
            break;
    }
    if (length > limit)
        length = limit;
    return from + length > units->count ? units->count - from : length;
}

static void set_run(struct mpb_units *units, uint32_t first, uint32_t n, bool used)
{
    for (uint32_t done = 0; done < n;) {
        uint32_t unit = first + done, shift = unit % 64;
        uint32_t here = n - done < 64 - shift ? n - done : 64 - shift;
        uint64_t mask = (here == 64 ? ~0ull : (1ull << here) - 1) << shift;
        if (used)
            units->bits[unit / 64] |= mask;
        else
            units->bits[unit / 64] &= ~mask;
        done += here;
    }
}

bool mpb_units_mark(struct mpb_units *units, uint32_t first, uint32_t n)
{
    if (n == 0 || first >= units->count || n > units->count - first || run_length(units, first, n, false) < n)
        return false;
    set_run(units, first, n, true);
    units->used += n;
    if (first + n > units->touched)
        units->touched = first + n;
    return true;
}

int64_t mpb_units_take(struct mpb_units *units, uint32_t n)
{
    if (n == 0 || n > units->count - units->used)
        return -1;
    uint32_t at = units->first_free;
    at += run_length(units, at, units->count, true);
    units->first_free = at;
    while (at < units->count && n <= units->count - at) {
        uint32_t room = run_length(units, at, n, false);
        if (room == n) {
            mpb_units_mark(units, at, n);
            if (at == units->first_free)
                units->first_free = at + n;
            return at;
        }
        at += room;
        at += run_length(units, at, units->count, true);
    }
    return -1;
}

bool mpb_units_give(struct mpb_units *units, uint32_t first, uint32_t n)
{
    if (n == 0 || first >= units->count || n > units->count - first || run_length(units, first, n, true) < n)
        return false;
    set_run(units, first, n, false);
    units->used -= n;
    if (first < units->first_free)
        units->first_free = first;
    return true;
}

uint64_t mpb_units_punch(struct mpb_units *units, uint8_t *part, uint64_t keep_bytes, uint64_t now_ns, uint64_t idle_ns)
{
    uint32_t per_page = units->unit_bytes >= MPB_PAGE_BYTES ? 1 : MPB_PAGE_BYTES / units->unit_bytes;
    uint32_t from = mpb_units_for(units, keep_bytes), last = units->count;
    if (units->touched <= from)
        return 0;
    while (last > from && !is_used(units, last - 1))
        last = last % 64 == 0 && units->bits[last / 64 - 1] == 0 && last - from >= 64 ? last - 64 : last - 1;
    if (last > from) {
        units->high_ns = now_ns;
        from = last;
    }
    if (now_ns - units->high_ns < idle_ns)
        return 0;
    from = (from + per_page - 1) / per_page * per_page;
    if (from >= units->touched)
        return 0;
    uint64_t begin = (uint64_t)from * units->unit_bytes;
    uint64_t end = ((uint64_t)units->touched * units->unit_bytes + MPB_PAGE_BYTES - 1) &
                   ~(uint64_t)(MPB_PAGE_BYTES - 1);
    if (end > (uint64_t)units->count * units->unit_bytes)
        end = (uint64_t)units->count * units->unit_bytes & ~(uint64_t)(MPB_PAGE_BYTES - 1);
    if (end <= begin || madvise(part + begin, end - begin, MADV_REMOVE) != 0)
        return 0;
    units->touched = from;
    return end - begin;
}
