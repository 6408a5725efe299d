/* Shared memory, log directory and batches for the tests of the log: everything a handler has, without a supervisor.
 * All regions are MAP_SHARED, so that forked victims and their successors see the same. */
#ifndef MPB_TESTS_LOG_FIXTURE_H
#define MPB_TESTS_LOG_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log/append.h"
#include "log/become.h"
#include "tests/stepping/check.h"
#include "record/crc32c.h"
#include "log/header_scan.h"
#include "log/log_open.h"
#include "log/log_read.h"
#include "log/partition_life.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/segment.h"
#include "log/segment_list.h"

enum { FIX_PARTITIONS = 8, FIX_PRODUCERS = 64, FIX_ENTRIES = 8, FIX_ARENA = 1 << 20 };

struct fixture {
    struct mpb_core core;
    struct mpb_log log;
    char dir[200];
    bool moves; /* partitions move between the two log directories */
};

#define FIX_SECOND "second" /* the other log directory, within the first */

static void *shared_bytes(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static inline void fixture_make_dir(struct fixture *f)
{
    const char *parent = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    CHECK(snprintf(f->dir, sizeof f->dir, "%s/mpb-append-XXXXXX", parent) < (int)sizeof f->dir);
    CHECK(mkdtemp(f->dir) != NULL);
}

static inline void fixture_open(struct fixture *f)
{
    struct mpb_core *core = &f->core;
    memset(f, 0, sizeof *f);
    core->header = shared_bytes(sizeof *core->header);
    core->arena = shared_bytes(FIX_ARENA);
    core->header->arena_bytes = FIX_ARENA;
    core->partitions = shared_bytes(FIX_PARTITIONS * sizeof *core->partitions);
    core->partition_count = FIX_PARTITIONS;
    core->producers = shared_bytes(FIX_PRODUCERS * sizeof *core->producers);
    core->producer_count = FIX_PRODUCERS;
    core->replicas = shared_bytes(FIX_PARTITIONS * sizeof *core->replicas); /* counted by fixture_replicate */
    core->entries = shared_bytes(FIX_ENTRIES * sizeof *core->entries);
    core->entry_count = FIX_ENTRIES;
    core->injects = shared_bytes(MPB_INJECT_ROWS * sizeof *core->injects);
    core->doorbells = shared_bytes(sizeof *core->doorbells);
    core->counters = shared_bytes(MPB_MAX_SLOTS * sizeof *core->counters);
    core->processes = shared_bytes(MPB_MAX_SLOTS * sizeof *core->processes); /* of no live worker: any thread counts */
    fixture_make_dir(f);
    char second[sizeof f->dir + sizeof FIX_SECOND];
    snprintf(second, sizeof second, "%s/" FIX_SECOND, f->dir);
    CHECK_EQ(mkdir(second, 0755), 0);
    const char *dirs[] = {f->dir, second};
    uint32_t bad;
    CHECK_EQ(mpb_log_open(&f->log, core, MPB_SLOT_HANDLERS, dirs, 2, 64, &bad), 0);
}

static inline void fixture_close(struct fixture *f)
{
    struct mpb_core *core = &f->core;
    mpb_log_close(&f->log);
    remove_tree(f->dir);
    munmap(core->header, sizeof *core->header);
    munmap(core->arena, FIX_ARENA);
    munmap(core->partitions, FIX_PARTITIONS * sizeof *core->partitions);
    munmap(core->replicas, FIX_PARTITIONS * sizeof *core->replicas);
    munmap(core->producers, FIX_PRODUCERS * sizeof *core->producers);
    munmap(core->entries, FIX_ENTRIES * sizeof *core->entries);
    munmap(core->injects, MPB_INJECT_ROWS * sizeof *core->injects);
    munmap(core->doorbells, sizeof *core->doorbells);
    munmap(core->counters, MPB_MAX_SLOTS * sizeof *core->counters);
    munmap(core->processes, MPB_MAX_SLOTS * sizeof *core->processes);
}

static inline uint64_t counted(struct fixture *f, enum mpb_counter counter)
{
    return mpb_load_relaxed(&f->core.counters[f->log.slot].value[counter]);
}

static inline uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

/* Once the cache is given back, as many descriptors are open as at the first call. */
static inline void no_descriptor_lost(struct fixture *f)
{
    static uint32_t at_first;
    mpb_segment_close_all(&f->log);
    if (at_first == 0)
        at_first = open_descriptors();
    CHECK_EQ(open_descriptors(), at_first);
}

/* A log handle of another process: own descriptors, own slot. */
static inline void fixture_handle(struct fixture *f, struct mpb_log *log, uint32_t slot)
{
    const char *dirs[] = {f->dir};
    uint32_t bad;
    CHECK_EQ(mpb_log_open(log, &f->core, slot, dirs, 1, 64, &bad), 0);
}

/* From now on partitions are made as in a broker of a cluster. */
static inline void fixture_replicate(struct fixture *f) { f->core.replica_count = FIX_PARTITIONS; }

enum { FIX_SELF = 1, FIX_OTHER = 2, FIX_THIRD = 3 }; /* broker ids */

static inline struct mpb_new_role fixture_role(enum mpb_replica_role role, int32_t epoch, uint32_t in_sync)
{
    struct mpb_new_role made = {.role = role,
                                .leader_epoch = epoch,
                                .partition_epoch = epoch,
                                .leader = FIX_OTHER,
                                .self = FIX_SELF,
                                .min_isr = 1,
                                .replicas = {FIX_OTHER, FIX_SELF, FIX_THIRD},
                                .replica_count = 3,
                                .isr = {FIX_SELF, FIX_OTHER, FIX_THIRD},
                                .isr_count = role == MPB_ROLE_LEADER ? in_sync : 0,
                                .now_ms = 4000};
    return made;
}

static inline void fixture_partition(struct fixture *f, uint32_t ordinal)
{
    char dir[32];
    struct mpb_partition_identity identity = {.topic_id = {7}, .partition = ordinal, .dir = dir};
    snprintf(dir, sizeof dir, "t-%u", ordinal);
    CHECK_EQ(mpb_partition_create(&f->log, ordinal, &identity, 3, 1000), 0);
    const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, 3, 1);
    if (f->core.replica_count != 0)
        CHECK_EQ(mpb_become(&f->log, ordinal, &leader), 0);
}

static inline uint64_t fixture_fill(struct fixture *f, uint32_t entry, uint32_t cells)
{
    struct mpb_entry *e = &f->core.entries[entry];
    e->fill_number = mpb_add_relaxed(&f->core.doorbells->processor_mark[0].fills, 1) + 1;
    e->cell_count = cells;
    e->cells_offset = (uint64_t)entry * 4096;
    return e->fill_number;
}

/* Whether the file system takes a name of that many bytes; some that encrypt do not. */
static inline bool fixture_takes_name(const struct fixture *f, size_t length)
{
    char name[256] = "";
    memset(name, 'n', length);
    int error = mkdirat(f->log.dir_fd[0], name, 0755) == 0 ? 0 : errno;
    CHECK(error == 0 || error == ENAMETOOLONG);
    if (error == 0)
        CHECK_EQ(unlinkat(f->log.dir_fd[0], name, AT_REMOVEDIR), 0);
    return error == 0;
}

struct fixture_holder {
    pid_t process;
    int end; /* closed: it is to let go */
};

/* Another process has the partition, for as long as we like. */
static inline struct fixture_holder fixture_hold(struct fixture *f, uint32_t ordinal)
{
    int told[2], ends[2];
    char byte;
    CHECK(pipe(told) == 0 && pipe(ends) == 0);
    const struct fixture_holder holder = {fork(), ends[1]};
    if (holder.process == 0) {
        close(ends[1]);
        bool has = mpb_partition_lock(&f->log, ordinal) == 0;
        bool ok = has && write(told[1], "", 1) == 1 && read(ends[0], &byte, 1) == 0;
        if (has)
            mpb_partition_unlock(&f->log, ordinal);
        _exit(!ok);
    }
    CHECK(holder.process > 0);
    close(told[1]), close(ends[0]);
    CHECK_EQ(read(told[0], &byte, 1), 1); /* 0: it did not get it */
    close(told[0]);
    return holder;
}

static inline void fixture_let_go(const struct fixture_holder *holder)
{
    int status;
    close(holder->end);
    CHECK(waitpid(holder->process, &status, 0) == holder->process && status == 0);
}

/* Another process gets the partition: this one has let go. */
static inline void fixture_is_free(struct fixture *f, uint32_t ordinal)
{
    const struct fixture_holder holder = fixture_hold(f, ordinal);
    fixture_let_go(&holder);
}

struct batch_spec {
    int32_t records;
    int64_t producer_id; /* -1: none */
    int16_t epoch;
    int32_t sequence;
    int64_t timestamp;
    uint32_t payload; /* bytes behind the header, not real records */
    uint8_t mark;     /* what the payload is made of */
    bool transactional;
};

static inline size_t make_batch(uint8_t *out, const struct batch_spec *spec)
{
    size_t length = MPB_BATCH_HEADER_BYTES + spec->payload;
    memset(out, 0, MPB_BATCH_HEADER_BYTES);
    mpb_put_be32(out + MPB_BATCH_LENGTH, (int32_t)length - MPB_BATCH_OVERHEAD_BYTES);
    mpb_put_be32(out + MPB_BATCH_LEADER_EPOCH, -1);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, spec->transactional ? MPB_ATTRIBUTE_TRANSACTIONAL : 0);
    mpb_put_be32(out + MPB_BATCH_LAST_OFFSET_DELTA, spec->records - 1);
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, spec->timestamp);
    mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, spec->timestamp);
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, spec->producer_id);
    mpb_put_be16(out + MPB_BATCH_PRODUCER_EPOCH, spec->producer_id < 0 ? -1 : spec->epoch);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, spec->producer_id < 0 ? -1 : spec->sequence);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, spec->records);
    memset(out + MPB_BATCH_HEADER_BYTES, spec->mark, spec->payload);
    mpb_put_be32(out + MPB_BATCH_CRC,
                 (int32_t)mpb_crc32c(0, out + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES));
    return length;
}

static const struct mpb_append_options FIX_OPTIONS = {
    .segment_bytes = 1 << 20,
    .segment_ms = INT64_MAX,
    .index_interval_bytes = 4096,
    .index_max_bytes = 1 << 20,
    .flush_messages = INT64_MAX,
};

/* The bytes of a batch, built once: a victim that is stepped through should not build them again. */
static inline const uint8_t *batch_bytes(const struct batch_spec *spec)
{
    static struct {
        struct batch_spec spec;
        bool built;
        uint8_t bytes[MPB_BATCH_HEADER_BYTES + 1024];
    } kept[32];
    static uint8_t big[1 << 17];
    if (spec->payload > 1024) {
        CHECK(spec->payload <= sizeof big - MPB_BATCH_HEADER_BYTES);
        make_batch(big, spec);
        return big;
    }
    uint32_t at = (uint32_t)(spec->mark + 7 * spec->payload + 3 * (uint32_t)spec->sequence) % 32;
    const struct batch_spec *k = &kept[at].spec;
    if (!kept[at].built || k->records != spec->records || k->producer_id != spec->producer_id ||
        k->epoch != spec->epoch || k->sequence != spec->sequence || k->timestamp != spec->timestamp ||
        k->payload != spec->payload || k->mark != spec->mark || k->transactional != spec->transactional) {
        make_batch(kept[at].bytes, spec);
        kept[at].spec = *spec;
        kept[at].built = true;
    }
    return kept[at].bytes;
}

/* By nobody who waits; what it is about is to be added. */
static inline struct mpb_append_request fixture_request(const struct batch_spec *spec, struct mpb_batch_info *info)
{
    const uint8_t *bytes = batch_bytes(spec);
    mpb_batch_read(bytes, info);
    return (struct mpb_append_request){.entry = MPB_NO_REQUEST,
                                       .batch = bytes,
                                       .info = info,
                                       .max_timestamp = MPB_RECORDS_UNSEEN,
                                       .now_ms = 5000,
                                       .leader_epoch = -1};
}

static inline struct mpb_append_result append_batch(struct mpb_log *log, const struct mpb_append_options *options,
                                                    uint32_t ordinal, uint32_t entry, uint32_t cell,
                                                    const struct batch_spec *spec)
{
    struct mpb_batch_info info;
    struct mpb_append_result result;
    struct mpb_append_request request = fixture_request(spec, &info);
    request.ordinal = ordinal;
    request.entry = entry;
    request.cell = cell;
    mpb_append(log, options, &request, &result);
    return result;
}

#endif
