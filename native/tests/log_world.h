/* The state of a fixture, memory and files, to go back to and to compare with: after any crash and any repair, the log,
 * its indexes, the partition rows, producer state and result cells must be those of a run that nobody killed. */
#ifndef MPB_TESTS_LOG_WORLD_H
#define MPB_TESTS_LOG_WORLD_H

#include "log_fixture.h"

enum { WORLD_FILES = 64, WORLD_FILE_BYTES = 16384 };

struct world_file {
    char path[96]; /* within the log directory */
    size_t length;
    uint8_t bytes[WORLD_FILE_BYTES];
};

struct world {
    struct mpb_segment_header header;
    struct mpb_partition partitions[FIX_PARTITIONS];
    struct mpb_producer producers[FIX_PRODUCERS];
    struct mpb_entry entries[FIX_ENTRIES];
    uint8_t arena[FIX_ENTRIES * 4096];
    uint32_t file_count;
    struct world_file files[WORLD_FILES];
};

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct world_file *)a)->path, ((const struct world_file *)b)->path);
}

static void world_read_dir(struct fixture *f, struct world *w, const char *dir)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", f->dir, dir);
    DIR *d = opendir(path);
    CHECK(d != NULL);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        CHECK(w->file_count < WORLD_FILES);
        struct world_file *file = &w->files[w->file_count++];
        memset(file->path, 0, sizeof file->path);
        CHECK(snprintf(file->path, sizeof file->path, "%s/%s", dir, entry->d_name) < (int)sizeof file->path);
        int fd = openat(f->log.dir_fd[0], file->path, O_RDONLY);
        ssize_t n = read(fd, file->bytes, sizeof file->bytes);
        CHECK(fd >= 0 && n >= 0 && n < WORLD_FILE_BYTES);
        file->length = (size_t)n;
        close(fd);
    }
    closedir(d);
}

static void world_save(struct fixture *f, struct world *w)
{
    memcpy(&w->header, f->core.header, sizeof w->header);
    memcpy(w->partitions, f->core.partitions, sizeof w->partitions);
    memcpy(w->producers, f->core.producers, sizeof w->producers);
    memcpy(w->entries, f->core.entries, sizeof w->entries);
    memcpy(w->arena, f->core.arena, sizeof w->arena);
    w->file_count = 0;
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++)
        if (mpb_load_relaxed(&f->core.partitions[i].flags) != 0)
            world_read_dir(f, w, f->core.partitions[i].dir);
    qsort(w->files, w->file_count, sizeof *w->files, compare_files);
}

static void world_unlink_extra(struct fixture *f, const struct world *w)
{
    static struct world now;
    world_save(f, &now);
    for (uint32_t i = 0; i < now.file_count; i++)
        if (bsearch(&now.files[i], w->files, w->file_count, sizeof *w->files, compare_files) == NULL)
            CHECK_EQ(unlinkat(f->log.dir_fd[0], now.files[i].path, 0), 0);
}

/* Nobody may hold a lock or run. */
static void world_restore(struct fixture *f, const struct world *w)
{
    world_unlink_extra(f, w);
    memcpy(f->core.header, &w->header, sizeof w->header);
    memcpy(f->core.partitions, w->partitions, sizeof w->partitions);
    memcpy(f->core.producers, w->producers, sizeof w->producers);
    memcpy(f->core.entries, w->entries, sizeof w->entries);
    memcpy(f->core.arena, w->arena, sizeof w->arena);
    for (uint32_t i = 0; i < w->file_count; i++) {
        int fd = openat(f->log.dir_fd[0], w->files[i].path, O_WRONLY | O_CREAT, 0644);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)w->files[i].length) == 0);
        CHECK_EQ(pwrite(fd, w->files[i].bytes, w->files[i].length, 0), w->files[i].length);
        close(fd);
    }
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++)
        mpb_segment_close_partition(&f->log, i);
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
}

static void same_cell(struct fixture *f, uint32_t entry, uint32_t index, const struct world *want)
{
    const struct mpb_entry *e = &want->entries[entry];
    const struct mpb_cell *b = index == 0 ? &e->cell
                                          : (const struct mpb_cell *)(want->arena + e->cells_offset) + (index - 1);
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

/* After a repair and before anybody runs anything again: the files are as long as the state in force says. */
static void world_is_whole(struct fixture *f)
{
    static const char *const SUFFIX[] = {"log", "index", "timeindex"};
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++) {
        const struct mpb_partition *row = &f->core.partitions[i];
        if (mpb_load_relaxed(&row->flags) == 0)
            continue;
        CHECK_EQ(mpb_partition_lock(&f->log, i), 0);
        mpb_partition_unlock(&f->log, i);
        CHECK_EQ(mpb_load_relaxed(&row->intent.word), 0);
        const struct mpb_partition_copy *now = mpb_partition_in_force(row);
        const uint64_t lengths[] = {now->position, now->index_bytes, now->time_index_bytes};
        for (int file = 0; file < 3; file++) {
            char path[128];
            struct stat status;
            snprintf(path, sizeof path, "%.64s/%020lld.%s", row->dir, (long long)now->active_base, SUFFIX[file]);
            CHECK_EQ(fstatat(f->log.dir_fd[0], path, &status, 0), 0);
            CHECK_EQ(status.st_size, lengths[file]);
        }
        const struct mpb_segment_list *all = mpb_segment_list_all(&f->log, row);
        CHECK(all != NULL && all->bases[all->count - 1] == now->active_base);
    }
}

/* Everything that must not depend on who died when. Producers 1 to 4 are those the scenarios use. */
static void world_compare(struct fixture *f, const struct world *want)
{
    static struct world now;
    world_save(f, &now);
    CHECK_EQ(now.file_count, want->file_count);
    for (uint32_t i = 0; i < now.file_count; i++) {
        CHECK_EQ(strcmp(now.files[i].path, want->files[i].path), 0);
        CHECK_EQ(now.files[i].length, want->files[i].length);
        CHECK_EQ(memcmp(now.files[i].bytes, want->files[i].bytes, now.files[i].length), 0);
    }
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++) {
        same_partition(&f->core.partitions[i], &want->partitions[i]);
        for (int64_t id = 1; id <= 4; id++)
            same_producer(producer_of(&f->core.partitions[i], f->core.producers, id),
                          producer_of(&want->partitions[i], want->producers, id));
    }
    for (uint32_t entry = 0; entry < FIX_ENTRIES; entry++)
        for (uint32_t cell = 0; cell < want->entries[entry].cell_count; cell++)
            same_cell(f, entry, cell, want);
}

#endif
