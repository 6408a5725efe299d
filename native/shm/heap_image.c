#define _GNU_SOURCE
#include "shm/heap_image.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define MOST_RUNS 768u /* each is a mapping, of which the kernel allows 65,530 */
#define MOST_BYTES ((size_t)256 << 20)
#define SMALLEST_MAPPING (128u << 10) /* below are thread-local storage and what the C library writes to */
#define LARGEST_GAP 8u                /* pages that nobody has touched, between two runs that become one */
#define AT_ONCE 512u                  /* pages asked about */
#define PRESENT (1ull << 63)
#define OF_A_FILE (1ull << 61)
#define FIRST_LOOK_NS 1000000000ull
#define LAST_LOOK_NS (512 * FIRST_LOOK_NS)

struct run { /* pages that lie in the image one after the other */
    uintptr_t from;
    size_t bytes;
};

/* Memory of its own for the work: nothing here may touch the heap. */
struct work {
    char maps[1 << 17]; /* what /proc/self/maps says */
    struct run run[MOST_RUNS];
    size_t runs, bytes;
    int pagemap;
};

struct mapping { /* a line of /proc/self/maps */
    uintptr_t from, end;
    size_t at; /* in its file */
    ino_t inode;
    char rights[8], name[32];
};

static const uint8_t *image;
static size_t image_bytes;
static uint64_t interval_ns;
static pid_t looks_for; /* the process that counts its looks: a fork begins anew */

uint64_t mpb_heap_image_due_ns = UINT64_MAX;

static bool has_one_thread(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
}

static struct work *begin_work(void)
{
    /* Shared, so that the kernel does not make one mapping of it and an allocator's beside it. */
    struct work *work = mmap(NULL, sizeof *work, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0, most = sizeof work->maps - 1;
    if (work == MAP_FAILED || maps < 0) {
        close(maps);
        if (work != MAP_FAILED)
            munmap(work, sizeof *work);
        return NULL;
    }
    for (ssize_t got; length < most && (got = read(maps, work->maps + length, most - length)) > 0;)
        length += (size_t)got;
    close(maps);
    if (length == most)
        work->maps[0] = '\0'; /* there is more: none of it */
    work->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return work;
}

static void end_work(struct work *work)
{
    if (work->pagemap >= 0)
        close(work->pagemap);
    munmap(work, sizeof *work);
}

/* The next line; NULL: that was the last one. */
static const char *next_mapping(const char *line, struct mapping *mapping)
{
    unsigned long from, end, at, inode;
    mapping->name[0] = '\0';
    if (sscanf(line, "%lx-%lx %7s %lx %*s %lu%*[ ]%31[^\n]", &from, &end, mapping->rights, &at, &inode, mapping->name) <
        5)
        return NULL;
    mapping->from = from;
    mapping->end = end;
    mapping->at = at;
    mapping->inode = inode;
    const char *newline = strchr(line, '\n');
    return newline == NULL ? "" : newline + 1;
}

/* What the kernel says of these pages; false: nothing. */
static bool ask_pages(const struct work *work, uintptr_t from, size_t pages, uint64_t *said)
{
    ssize_t bytes = (ssize_t)(pages * sizeof *said);
    return pread(work->pagemap, said, (size_t)bytes, (off_t)(from / PAGE * sizeof *said)) == bytes;
}

/* `begin`: of its mapping. What lies between two mappings is somebody else's. */
static bool add_page(struct work *work, uintptr_t begin, uintptr_t at)
{
    struct run *last = work->runs > 0 ? &work->run[work->runs - 1] : NULL;
    if (last != NULL && last->from >= begin && at - (last->from + last->bytes) <= (size_t)LARGEST_GAP * PAGE) {
        last->bytes = at + PAGE - last->from;
        return true;
    }
    if (work->runs == MOST_RUNS)
        return false;
    work->run[work->runs++] = (struct run){.from = at, .bytes = PAGE};
    return true;
}

static bool add_mapping(struct work *work, uintptr_t begin, uintptr_t end)
{
    uint64_t said[AT_ONCE];
    for (uintptr_t from = begin; from < end; from += (uintptr_t)AT_ONCE * PAGE) {
        size_t pages = (end - from) / PAGE < AT_ONCE ? (end - from) / PAGE : AT_ONCE;
        if (!ask_pages(work, from, pages, said))
            return false;
        for (size_t i = 0; i < pages; i++)
            if ((said[i] & PRESENT) != 0 && !add_page(work, begin, from + i * PAGE))
                return false;
    }
    return true;
}

/* The heap, what an allocator has mapped, or what a library writes to. */
static bool may_be_written(const struct mapping *mapping)
{
    bool is_heap = mapping->inode == 0 && (mapping->name[0] == '\0' || strcmp(mapping->name, "[heap]") == 0);
    bool is_library = mapping->inode != 0 && mapping->name[0] == '/';
    return strcmp(mapping->rights, "rw-p") == 0 && mapping->end - mapping->from >= SMALLEST_MAPPING &&
           (is_heap || is_library);
}

static bool find_runs(struct work *work)
{
    struct mapping mapping;
    for (const char *line = work->maps; (line = next_mapping(line, &mapping)) != NULL;)
        if (may_be_written(&mapping) && !add_mapping(work, mapping.from, mapping.end))
            return false;
    for (size_t i = 0; i < work->runs; i++)
        work->bytes += work->run[i].bytes;
    return work->bytes > 0 && work->bytes <= MOST_BYTES;
}

static bool write_image(const struct work *work, int file)
{
    size_t at = 0;
    for (size_t i = 0; i < work->runs; i++)
        for (size_t done = 0; done < work->run[i].bytes;) {
            const uint8_t *from = (const uint8_t *)work->run[i].from + done;
            ssize_t wrote = pwrite(file, from, work->run[i].bytes - done, (off_t)at);
            if (wrote <= 0)
                return false;
            done += (size_t)wrote;
            at += (size_t)wrote;
        }
    return fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

/* From here on no byte of the heap may be written until all is mapped: system calls and this stack only. */
static void put_image_behind(const struct work *work, int file)
{
    size_t at = 0;
    for (size_t i = 0; i < work->runs; at += work->run[i++].bytes) {
        void *mapped = mmap((void *)work->run[i].from, work->run[i].bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_FIXED, file, (off_t)at);
        if (mapped == MAP_FAILED)
            _exit(70); /* the kernel may have taken away what was there: nothing here can be trusted */
    }
}

static bool take(struct work *work, int file)
{
    if (file < 0 || !find_runs(work) || !write_image(work, file))
        return false;
    void *mapped = mmap(NULL, work->bytes, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return false;
    put_image_behind(work, file);
    image = mapped;
    image_bytes = work->bytes;
    mpb_heap_image_due_ns = 0;
    return true;
}

size_t mpb_heap_image_take(void)
{
    sigset_t all, before;
    if (image != NULL || sysconf(_SC_PAGESIZE) != PAGE || !has_one_thread())
        return 0;
    sigfillset(&all); /* a handler would write to memory */
    sigprocmask(SIG_SETMASK, &all, &before);
    struct work *work = begin_work();
    int file = memfd_create("mpbroker-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool taken = work != NULL && take(work, file);
    if (work != NULL)
        end_work(work);
    close(file);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return taken ? image_bytes : 0;
}

/* Copies of `pages` pages from `from` on that equal the image. */
static size_t give_back_some(const struct work *work, uintptr_t from, const uint8_t *was, size_t pages)
{
    uint64_t said[AT_ONCE];
    size_t given = 0;
    if (!ask_pages(work, from, pages, said))
        return 0;
    for (size_t i = 0, equal; i < pages; i += equal + 1) {
        for (equal = 0; i + equal < pages; equal++) {
            size_t at = (i + equal) * PAGE;
            if ((said[i + equal] & (PRESENT | OF_A_FILE)) != PRESENT ||
                memcmp((void *)(from + at), was + at, PAGE) != 0)
                break;
        }
        if (equal > 0 && madvise((void *)(from + i * PAGE), equal * PAGE, MADV_DONTNEED) == 0)
            given += equal * PAGE;
    }
    return given;
}

/* A part of the heap may be unmapped since, and something else be where it was: only what the kernel calls a private
 * mapping of the image is one. */
static bool is_of_image(const struct mapping *mapping)
{
    return strcmp(mapping->rights, "rw-p") == 0 && strncmp(mapping->name, "/memfd:mpbroker-heap", 20) == 0 &&
           mapping->at + (mapping->end - mapping->from) <= image_bytes;
}

size_t mpb_heap_image_give_back(void)
{
    sigset_t all, before;
    struct mapping mapping;
    size_t given = 0;
    if (image == NULL || !has_one_thread())
        return 0;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    struct work *work = begin_work();
    for (const char *line = work != NULL ? work->maps : ""; (line = next_mapping(line, &mapping)) != NULL;)
        for (uintptr_t from = mapping.from; is_of_image(&mapping) && from < mapping.end;
             from += (size_t)AT_ONCE * PAGE) {
            size_t pages = (mapping.end - from) / PAGE;
            given += give_back_some(work, from, image + mapping.at + (from - mapping.from),
                                    pages < AT_ONCE ? pages : AT_ONCE);
        }
    madvise((void *)(uintptr_t)image, image_bytes, MADV_DONTNEED); /* it was only looked at */
    if (work != NULL)
        end_work(work);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return given;
}

void mpb_heap_image_look(uint64_t now_ns)
{
    if (looks_for != getpid()) {
        looks_for = getpid();
        interval_ns = FIRST_LOOK_NS;
    } else {
        mpb_heap_image_give_back();
        interval_ns = interval_ns < LAST_LOOK_NS ? 2 * interval_ns : LAST_LOOK_NS;
    }
    mpb_heap_image_due_ns = now_ns + interval_ns;
}
