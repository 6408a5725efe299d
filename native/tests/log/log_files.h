/* The files of a fixture's log directory, to go back to and to compare with. */
#ifndef MPB_TESTS_LOG_FILES_H
#define MPB_TESTS_LOG_FILES_H

#include <sys/syscall.h>

#include "tests/log/log_fixture.h"

enum { WORLD_FILES = 64, WORLD_BYTES = 128 << 10 };

struct world_file {
    char path[96];        /* within the log directory */
    size_t length, start; /* of its bytes in `bytes` */
};

struct world_files {
    uint32_t count;
    size_t used;
    struct world_file file[WORLD_FILES]; /* by path */
    uint8_t bytes[WORLD_BYTES];
};

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct world_file *)a)->path, ((const struct world_file *)b)->path);
}

static void world_read_file(struct world_files *w, int dir_fd, const char *dir, const char *name)
{
    struct world_file file = {.start = w->used};
    CHECK(w->count < WORLD_FILES && strlen(dir) + strlen(name) + 1 < sizeof file.path);
    stpcpy(stpcpy(stpcpy(file.path, dir), "/"), name);
    int fd = openat(dir_fd, name, O_RDONLY);
    ssize_t n = read(fd, w->bytes + w->used, WORLD_BYTES - w->used);
    CHECK(fd >= 0 && n >= 0 && w->used + (size_t)n < WORLD_BYTES);
    close(fd);
    w->used += file.length = (size_t)n;
    uint32_t at = w->count++;
    for (; at > 0 && compare_files(&file, &w->file[at - 1]) < 0; at--)
        w->file[at] = w->file[at - 1];
    w->file[at] = file;
}

/* Allocates nothing: a film reads the files while its victim stands anywhere, in malloc too. */
static void world_read_dir(struct fixture *f, struct world_files *w, const char *dir)
{
    static uint8_t entries[8192] __attribute__((aligned(8)));
    int fd = openat(f->log.dir_fd[0], dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && f->moves)
        return;
    CHECK(fd >= 0);
    for (long n; (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) != 0;) {
        CHECK(n > 0);
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            if (entry->d_name[0] != '.')
                world_read_file(w, fd, dir, entry->d_name);
            at += entry->d_reclen;
        }
    }
    close(fd);
}

/* Every name that the directory of partition 0 may have while it moves. */
enum { MOVE_NAMES = 5 };

static void world_move_name(const struct fixture *f, int name, char out[96])
{
    static const char HEX[] = "0123456789abcdef";
    static const char *const SUFFIX[MOVE_NAMES] = {"", "-delete", "", "-future", "-delete"};
    const struct mpb_partition *row = &f->core.partitions[0];
    char *at = stpcpy(stpcpy(out, name < 2 ? "" : FIX_SECOND "/"), row->dir);
    if (*SUFFIX[name] == '\0')
        return;
    *at++ = '.';
    for (size_t i = 0; i < sizeof row->topic_id; i++) {
        *at++ = HEX[row->topic_id[i] >> 4];
        *at++ = HEX[row->topic_id[i] & 15];
    }
    strcpy(at, SUFFIX[name]);
}

static void world_read_files(struct fixture *f, struct world_files *w)
{
    char name[96];
    w->count = 0;
    w->used = 0;
    for (uint32_t i = f->moves ? 1 : 0; i < FIX_PARTITIONS; i++)
        if (mpb_load_relaxed(&f->core.partitions[i].flags) != 0)
            world_read_dir(f, w, f->core.partitions[i].dir);
    for (int i = 0; i < MOVE_NAMES && f->moves; i++) {
        world_move_name(f, i, name);
        world_read_dir(f, w, name);
    }
}

static inline const struct world_file *world_find(const struct world_files *w, const struct world_file *file)
{
    return bsearch(file, w->file, w->count, sizeof *w->file, compare_files);
}

static inline bool same_bytes(const struct world_files *a, const struct world_file *x, const struct world_files *b,
                              const struct world_file *y)
{
    return x->length == y->length && memcmp(a->bytes + x->start, b->bytes + y->start, x->length) == 0;
}

static inline void world_write_file(struct fixture *f, const struct world_files *w, const struct world_file *file)
{
    int fd = openat(f->log.dir_fd[0], file->path, O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)file->length) == 0);
    CHECK_EQ(pwrite(fd, w->bytes + file->start, file->length, 0), file->length);
    close(fd);
}

/* The directories: those that files shall be in, and no empty one. */
static void world_restore_dirs(struct fixture *f, const struct world_files *w)
{
    char name[96];
    for (int i = 0; i < MOVE_NAMES; i++) {
        world_move_name(f, i, name);
        unlinkat(f->log.dir_fd[0], name, AT_REMOVEDIR); /* fails where there are files */
        for (uint32_t n = 0; n < w->count; n++)
            if (strncmp(w->file[n].path, name, strlen(name)) == 0 && w->file[n].path[strlen(name)] == '/')
                mkdirat(f->log.dir_fd[0], name, 0755); /* fails where there is one */
    }
}

/* Only the files that are not as they should be. */
static inline void world_restore_files(struct fixture *f, const struct world_files *w)
{
    static struct world_files now;
    world_read_files(f, &now);
    for (uint32_t i = 0; i < now.count; i++)
        if (world_find(w, &now.file[i]) == NULL)
            CHECK_EQ(unlinkat(f->log.dir_fd[0], now.file[i].path, 0), 0);
    if (f->moves)
        world_restore_dirs(f, w);
    for (uint32_t i = 0; i < w->count; i++) {
        const struct world_file *is = world_find(&now, &w->file[i]);
        if (is == NULL || !same_bytes(&now, is, w, &w->file[i]))
            world_write_file(f, w, &w->file[i]);
    }
}

#endif
