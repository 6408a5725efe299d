/* What the kernel says of a process's memory, as a test has it: the mappings, which pages are there, and what the heap's
 * image is made of. Every system call of shm/heap_image.c comes here; what a test lays out lies in `ground`, of which no
 * byte is needed where nothing is compared. */
#ifndef MPB_TESTS_SCRIPTED_KERNEL_H
#define MPB_TESTS_SCRIPTED_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "tests/stepping/check.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SCRIPTED 0 /* a sanitizer maps memory by itself, and its calls are not to be answered here */
#else
#define SCRIPTED 1
#endif

enum { PAGE = 4096, GROUND_PAGES = 70000, MOST_CALLS = 1000, MAPS_FD = 5, PAGEMAP_FD = 6, IMAGE_FD = 7, CALL_FDS = 8 };
#define PRESENT (1ull << 63)
#define OF_A_FILE (1ull << 61)
#define IMAGE_NAME "/memfd:mpbroker-heap (deleted)"

struct memory_call {
    uintptr_t at;
    size_t bytes, offset;
};

static uint8_t *ground;
static struct {
    bool plays; /* false: calls before the test begins, as of whoever watches which functions run, are the kernel's */
    char maps[1 << 18];
    uint8_t *text_end;
    size_t maps_read, piece; /* of the mappings: so many bytes a call */
    uint64_t pages[GROUND_PAGES];
    nlink_t tasks;
    long page_bytes;
    int fd_of_maps, fd_of_pagemap, fd_of_image;
    size_t takes;    /* bytes that a write takes */
    int short_looks; /* looks at the pages until one fails; -1: none does */
    int writes_fail_at, seals_fail, advice_fails_at, fixed_fails, reads_fail;
    void *work_at, *image_at; /* MAP_FAILED: there is no memory */
    struct memory_call looks[MOST_CALLS], writes[MOST_CALLS], fixed[MOST_CALLS], advices[MOST_CALLS];
    int looked, wrote, mapped, advised, sealed, unmapped, works, images;
    int opened[CALL_FDS], closed[CALL_FDS];
} kernel;

static inline void kernel_begin(void)
{
    if (ground == NULL) {
        ground = (uint8_t *)syscall(SYS_mmap, NULL, (size_t)GROUND_PAGES * PAGE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
        CHECK(ground != MAP_FAILED);
    }
    memset(&kernel, 0, sizeof kernel);
    kernel.plays = true;
    kernel.piece = sizeof kernel.maps;
    kernel.tasks = 3;
    kernel.page_bytes = PAGE;
    kernel.fd_of_maps = MAPS_FD;
    kernel.fd_of_pagemap = PAGEMAP_FD;
    kernel.fd_of_image = IMAGE_FD;
    kernel.takes = SIZE_MAX;
    kernel.short_looks = kernel.writes_fail_at = kernel.advice_fails_at = -1;
}

/* Another line of /proc/self/maps: `pages` pages from the ground's page `first` on. */
static inline void add_line(size_t first, size_t pages, const char *rights, size_t at, unsigned inode, const char *name)
{
    size_t length = strlen(kernel.maps);
    CHECK(snprintf(kernel.maps + length, sizeof kernel.maps - length, "%lx-%lx %s %08lx 00:01 %u%s%s\n",
                   (unsigned long)(ground + first * PAGE), (unsigned long)(ground + (first + pages) * PAGE), rights,
                   (unsigned long)at, inode, name[0] ? "                 " : "",
                   name) < (int)(sizeof kernel.maps - length));
}

/* What every call leaves: the descriptors it had are given back once, and so is the memory of its work. */
static inline void all_is_given_back(void)
{
    for (int fd = 0; fd < CALL_FDS; fd++)
        CHECK_EQ(kernel.closed[fd], kernel.opened[fd]);
    CHECK_EQ(kernel.unmapped, kernel.works);
    sigset_t now;
    CHECK_EQ(sigprocmask(SIG_SETMASK, NULL, &now), 0);
    for (int number = 1; number < 32; number++)
        CHECK_EQ(sigismember(&now, number), 0);
}

static inline void no_signal_comes(void)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int number = 1; number < 32; number++)
        CHECK(number == SIGKILL || number == SIGSTOP || sigismember(&now, number));
}

static inline struct memory_call *next_call(struct memory_call *calls, int *count)
{
    CHECK(*count < MOST_CALLS);
    return &calls[(*count)++];
}

#if SCRIPTED
static inline int opened(int fd)
{
    no_signal_comes();
    if (fd >= 0)
        kernel.opened[fd]++;
    return fd;
}

int open(const char *path, int flags, ...)
{
    if (!kernel.plays)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
    CHECK_EQ(flags, O_RDONLY | O_CLOEXEC);
    if (strcmp(path, "/proc/self/maps") == 0) {
        kernel.maps_read = 0;
        return opened(kernel.fd_of_maps);
    }
    CHECK(strcmp(path, "/proc/self/pagemap") == 0);
    return opened(kernel.fd_of_pagemap);
}

int memfd_create(const char *name, unsigned flags)
{
    CHECK(strcmp(name, "mpbroker-heap") == 0 && flags == (MFD_CLOEXEC | MFD_ALLOW_SEALING));
    return opened(kernel.fd_of_image);
}

int close(int fd)
{
    if (!kernel.plays)
        return (int)syscall(SYS_close, fd);
    if (fd >= 0)
        kernel.closed[fd]++;
    return 0;
}

ssize_t read(int fd, void *into, size_t bytes)
{
    CHECK_EQ(fd, kernel.fd_of_maps);
    if (kernel.maps_read == 0)
        kernel.text_end = (uint8_t *)into + bytes;
    CHECK((uint8_t *)into + bytes == kernel.text_end); /* where the room for it ends */
    size_t left = strlen(kernel.maps) - kernel.maps_read, taken = left < bytes ? left : bytes;
    taken = taken < kernel.piece ? taken : kernel.piece;
    memcpy(into, kernel.maps + kernel.maps_read, taken);
    kernel.maps_read += taken;
    return taken == 0 && kernel.reads_fail ? -1 : (ssize_t)taken;
}

int stat(const char *path, struct stat *into)
{
    CHECK(strcmp(path, "/proc/self/task") == 0);
    memset(into, 0, sizeof *into);
    into->st_nlink = kernel.tasks == 0 ? 3 : kernel.tasks;
    return kernel.tasks == 0 ? -1 : 0;
}

long sysconf(int name)
{
    CHECK_EQ(name, _SC_PAGESIZE);
    return kernel.page_bytes;
}

ssize_t pread(int fd, void *into, size_t bytes, off_t at)
{
    if (fd < 0)
        return -1;
    CHECK(fd == kernel.fd_of_pagemap && at % 8 == 0);
    struct memory_call *call = next_call(kernel.looks, &kernel.looked);
    size_t first = (size_t)at / 8 - (uintptr_t)ground / PAGE;
    *call = (struct memory_call){(uintptr_t)ground + first * PAGE, bytes, 0};
    CHECK(bytes > 0 && first + bytes / 8 <= GROUND_PAGES);
    memcpy(into, kernel.pages + first, bytes);
    return kernel.looked - 1 == kernel.short_looks ? (ssize_t)bytes - 8 : (ssize_t)bytes;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    CHECK_EQ(fd, kernel.fd_of_image);
    no_signal_comes();
    if (kernel.wrote == kernel.writes_fail_at)
        return kernel.takes == 0 ? 0 : -1;
    size_t taken = bytes < kernel.takes ? bytes : kernel.takes;
    *next_call(kernel.writes, &kernel.wrote) = (struct memory_call){(uintptr_t)from, taken, (size_t)at};
    return (ssize_t)taken;
}

int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    int seals = va_arg(arguments, int);
    va_end(arguments);
    CHECK(fd == kernel.fd_of_image && command == F_ADD_SEALS);
    CHECK_EQ(seals, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    kernel.sealed++;
    return kernel.seals_fail ? -1 : 0;
}

void *mmap(void *at, size_t bytes, int rights, int how, int fd, off_t offset)
{
    if (!kernel.plays)
        return (void *)syscall(SYS_mmap, at, bytes, rights, how, fd, offset);
    no_signal_comes();
    if (fd < 0) { /* for the work */
        CHECK(at == NULL && fd == -1 && offset == 0);
        CHECK(rights == (PROT_READ | PROT_WRITE) && how == (MAP_SHARED | MAP_ANONYMOUS));
        if (kernel.work_at == MAP_FAILED)
            return MAP_FAILED;
        kernel.works++;
        return (void *)syscall(SYS_mmap, at, bytes, rights, how, fd, offset);
    }
    CHECK(fd == kernel.fd_of_image && kernel.sealed == 1); /* nobody changes what is mapped */
    if (at == NULL) {
        CHECK(rights == PROT_READ && how == MAP_SHARED && offset == 0);
        kernel.images++;
        return kernel.image_at;
    }
    CHECK(rights == (PROT_READ | PROT_WRITE) && how == (MAP_PRIVATE | MAP_FIXED));
    *next_call(kernel.fixed, &kernel.mapped) = (struct memory_call){(uintptr_t)at, bytes, (size_t)offset};
    return kernel.fixed_fails ? MAP_FAILED : at;
}

int munmap(void *at, size_t bytes)
{
    kernel.unmapped++;
    return (int)syscall(SYS_munmap, at, bytes);
}

int madvise(void *at, size_t bytes, int advice)
{
    CHECK_EQ(advice, MADV_DONTNEED);
    no_signal_comes();
    *next_call(kernel.advices, &kernel.advised) = (struct memory_call){(uintptr_t)at, bytes, 0};
    return kernel.advised - 1 == kernel.advice_fails_at ? -1 : 0;
}
#endif

#endif
