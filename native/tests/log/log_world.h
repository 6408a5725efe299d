/* The state of a fixture, memory and files, to go back to and to compare with: after any crash and any repair, the log,
 * its indexes, the partition rows, producer state and result cells must be those of a run that nobody killed. */
#ifndef MPB_TESTS_LOG_WORLD_H
#define MPB_TESTS_LOG_WORLD_H

#include "tests/log/log_files.h"
#include "log/ended.h"

struct world_memory {
    struct mpb_segment_header header;
    struct mpb_partition partitions[FIX_PARTITIONS];
    struct mpb_replicas replicas[FIX_PARTITIONS];
    struct mpb_producer producers[FIX_PRODUCERS];
    struct mpb_entry entries[FIX_ENTRIES];
    uint8_t arena[FIX_ENTRIES * 4096];
};

struct log_world {
    struct world_memory memory;
    struct world_files files;
};

/* The parts of shared memory that a world holds, in the order of struct world_memory. */
struct world_part {
    void *at;
    size_t bytes, offset;
};
enum { WORLD_PARTS = 6 };

static void world_parts(struct fixture *f, struct world_part part[WORLD_PARTS])
{
#define PART(name, pointer)                                                                    \
    {                                                                                          \
        (pointer), sizeof((struct world_memory *)0)->name, offsetof(struct world_memory, name) \
    }
    const struct world_part parts[WORLD_PARTS] = {
        PART(header, f->core.header),       PART(partitions, f->core.partitions), PART(replicas, f->core.replicas),
        PART(producers, f->core.producers), PART(entries, f->core.entries),       PART(arena, f->core.arena)};
    memcpy(part, parts, sizeof parts);
#undef PART
}

static void world_save_memory(struct fixture *f, struct world_memory *m)
{
    struct world_part part[WORLD_PARTS];
    world_parts(f, part);
    for (int i = 0; i < WORLD_PARTS; i++)
        memcpy((uint8_t *)m + part[i].offset, part[i].at, part[i].bytes);
}

static void world_save(struct fixture *f, struct log_world *w)
{
    world_save_memory(f, &w->memory);
    world_read_files(f, &w->files);
}

/* Nobody may hold a lock or run. */
static void world_restore_parts(struct fixture *f, const struct world_memory *memory, const struct world_files *files)
{
    struct world_part part[WORLD_PARTS];
    world_restore_files(f, files);
    world_parts(f, part);
    for (int i = 0; i < WORLD_PARTS; i++)
        memcpy(part[i].at, (const uint8_t *)memory + part[i].offset, part[i].bytes);
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++)
        mpb_segment_close_partition(&f->log, i);
}

static inline void world_restore(struct fixture *f, const struct log_world *w)
{
    world_restore_parts(f, &w->memory, &w->files);
}

static void same_partition(const struct mpb_partition *now, const struct mpb_partition *want)
{
    const struct mpb_partition_copy *a = mpb_partition_in_force(now), *b = mpb_partition_in_force(want);
    CHECK_EQ(mpb_load_relaxed(&now->intent.word), 0);
    CHECK_EQ(a->log_start, b->log_start);
    CHECK_EQ(a->leo, b->leo);
    CHECK_EQ(a->hw, b->hw);
    CHECK_EQ(a->lso, b->lso);
    CHECK_EQ(a->active_base, b->active_base);
    CHECK_EQ(a->position, b->position);
    CHECK_EQ(a->index_bytes, b->index_bytes);
    CHECK_EQ(a->time_index_bytes, b->time_index_bytes);
    CHECK_EQ(a->max_timestamp, b->max_timestamp);
    CHECK_EQ(a->max_timestamp_offset, b->max_timestamp_offset);
    CHECK_EQ(a->first_timestamp, b->first_timestamp);
    CHECK_EQ(a->indexed_timestamp, b->indexed_timestamp);
    CHECK_EQ(a->log_bytes, b->log_bytes);
    CHECK_EQ(a->bytes_since_index, b->bytes_since_index);
    CHECK_EQ(a->leader_epoch, b->leader_epoch);
    CHECK_EQ(a->truncations, b->truncations);
    CHECK_EQ(a->segment_count, b->segment_count);
    CHECK_EQ(a->open_transactions, b->open_transactions);
    CHECK_EQ(a->txn_index_bytes, b->txn_index_bytes);
    CHECK_EQ(a->aborted_end, b->aborted_end);
    CHECK_EQ(now->log_dir, want->log_dir);
    CHECK_EQ(mpb_load_relaxed(&now->move_to), mpb_load_relaxed(&want->move_to));
    CHECK_EQ(a->role, b->role);
    CHECK_EQ(a->min_isr, b->min_isr);
    CHECK_EQ(a->self, b->self);
    CHECK_EQ(a->isr, b->isr);
    CHECK_EQ(a->maximal_isr, b->maximal_isr);
    CHECK_EQ(a->leader_since, b->leader_since);
    CHECK_EQ(a->partition_epoch, b->partition_epoch);
    CHECK_EQ(a->epoch_start, b->epoch_start);
    CHECK_EQ(a->leader, b->leader);
}

/* What the state in force says of epochs and brokers, wherever in the row it stands, and what counts of the places. */
static void same_replicas(const struct mpb_partition *now, const struct mpb_replicas *a,
                          const struct mpb_partition *want, const struct mpb_replicas *b)
{
    const struct mpb_partition_copy *x = mpb_partition_in_force(now), *y = mpb_partition_in_force(want);
    CHECK_EQ(x->epochs, y->epochs);
    for (uint32_t i = 0; i < x->epochs && i < MPB_KEPT_EPOCHS; i++) {
        CHECK_EQ(a->epoch[i].epoch, b->epoch[i].epoch);
        CHECK_EQ(a->epoch[i].offset, b->epoch[i].offset);
    }
    CHECK_EQ(memcmp(a->ids[x->ids_at], b->ids[y->ids_at], sizeof a->ids[0]), 0);
    CHECK_EQ(mpb_load_relaxed(&a->proposal), mpb_load_relaxed(&b->proposal));
    CHECK_EQ(memcmp(a->place, b->place, sizeof a->place), 0);
    CHECK_EQ(mpb_ended_least(a, x->hw), mpb_ended_least(b, y->hw));
}

static const struct mpb_producer *producer_of(const struct mpb_partition *row, const struct mpb_producer *table,
                                              int64_t producer_id)
{
    uint32_t at = mpb_load_relaxed(&row->producer_chain[producer_id % MPB_PRODUCER_CHAINS]);
    while (at != 0 && table[at - 1].producer_id != producer_id)
        at = mpb_load_relaxed(&table[at - 1].next);
    return at == 0 ? NULL : &table[at - 1];
}

static void same_producer(const struct mpb_producer *now, const struct mpb_producer *want)
{
    struct mpb_producer_batch a[MPB_PRODUCER_KEPT], b[MPB_PRODUCER_KEPT];
    uint32_t n = now == NULL ? 0 : mpb_producer_kept(now, a), m = want == NULL ? 0 : mpb_producer_kept(want, b);
    CHECK_EQ(n, m);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_EQ(a[i].base_offset, b[i].base_offset);
        CHECK_EQ(a[i].first_sequence, b[i].first_sequence);
        CHECK_EQ(a[i].last_sequence, b[i].last_sequence);
        CHECK_EQ(a[i].last_offset_delta, b[i].last_offset_delta);
        CHECK_EQ(a[i].epoch, b[i].epoch);
        CHECK_EQ(a[i].timestamp_ms, b[i].timestamp_ms);
    }
    if (now != NULL)
        CHECK_EQ(mpb_load_relaxed(&now->rebuild), 0);
    if (now == NULL || want == NULL)
        return;
    CHECK_EQ(mpb_load_relaxed(&now->txn_first), mpb_load_relaxed(&want->txn_first));
    CHECK_EQ(mpb_load_relaxed(&now->txn_epochs), mpb_load_relaxed(&want->txn_epochs));
}

static void same_cell(struct fixture *f, uint32_t entry, uint32_t index, const struct log_world *want)
{
    const struct mpb_entry *e = &want->memory.entries[entry];
    const struct mpb_cell *cells = (const struct mpb_cell *)(want->memory.arena + e->cells_offset);
    const struct mpb_cell *b = index == 0 ? &e->cell : cells + (index - 1);
    const struct mpb_cell *a = mpb_cell_find(&f->core, entry, index, e->fill_number);
    CHECK(a != NULL);
    CHECK_EQ(mpb_load_relaxed(&a->tag), mpb_load_relaxed(&b->tag));
    CHECK_EQ(a->base_offset, b->base_offset);
    CHECK_EQ(a->end_offset, b->end_offset);
    CHECK_EQ(a->append_time_ms, b->append_time_ms);
    CHECK_EQ(a->log_start, b->log_start);
    CHECK_EQ(a->leader_epoch, b->leader_epoch);
    CHECK_EQ(a->ordinal, b->ordinal);
    CHECK_EQ(a->error, b->error);
}

/* No change is under way, and the files of the active segment are as long as the state in force says. */
static void partition_is_whole(struct fixture *f, const struct mpb_partition *row)
{
    static const char *const SUFFIX[] = {"log", "index", "timeindex", "txnindex"};
    CHECK_EQ(mpb_load_relaxed(&row->intent.word), 0);
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const uint64_t lengths[] = {now->position, now->index_bytes, now->time_index_bytes, now->txn_index_bytes};
    for (int file = 0; file < 4; file++) {
        char path[128];
        struct stat status;
        snprintf(path, sizeof path, "%.64s/%020lld.%s", row->dir, (long long)now->active_base, SUFFIX[file]);
        int missing = fstatat(f->log.dir_fd[row->log_dir], path, &status, 0);
        if (missing != 0 && file == MPB_FILE_TXN_INDEX && lengths[file] == 0)
            continue;
        CHECK_EQ(missing, 0);
        CHECK_EQ(status.st_size, lengths[file]);
    }
    const struct mpb_segment_list *all;
    CHECK_EQ(mpb_segment_list_all(&f->log, row, &all), 0);
    CHECK(all->count > 0 && all->bases[all->count - 1] == now->active_base);
}

/* After a repair and before anybody runs anything again. */
static void world_is_whole(struct fixture *f)
{
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++) {
        const struct mpb_partition *row = &f->core.partitions[i];
        if (mpb_load_relaxed(&row->flags) == 0)
            continue;
        CHECK_EQ(mpb_partition_lock(&f->log, i), 0);
        mpb_partition_unlock(&f->log, i);
        partition_is_whole(f, row);
    }
}

/* Everything that must not depend on who died when. Producers 1 to 4 are those the scenarios use. */
static inline void world_compare(struct fixture *f, const struct log_world *want)
{
    static struct world_files now;
    world_read_files(f, &now);
    CHECK_EQ(now.count, want->files.count);
    for (uint32_t i = 0; i < now.count; i++) {
        CHECK_EQ(strcmp(now.file[i].path, want->files.file[i].path), 0);
        CHECK_EQ(now.file[i].length, want->files.file[i].length);
        CHECK(same_bytes(&now, &now.file[i], &want->files, &want->files.file[i]));
    }
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++) {
        same_partition(&f->core.partitions[i], &want->memory.partitions[i]);
        same_replicas(&f->core.partitions[i], &f->core.replicas[i], &want->memory.partitions[i],
                      &want->memory.replicas[i]);
        for (int64_t id = 1; id <= 4; id++)
            same_producer(producer_of(&f->core.partitions[i], f->core.producers, id),
                          producer_of(&want->memory.partitions[i], want->memory.producers, id));
    }
    for (uint32_t entry = 0; entry < FIX_ENTRIES; entry++)
        for (uint32_t cell = 0; cell < want->memory.entries[entry].cell_count; cell++)
            same_cell(f, entry, cell, want);
}

#endif
