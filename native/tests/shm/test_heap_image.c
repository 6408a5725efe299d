#define _GNU_SOURCE
/* The image of a heap behind the heap: forks see what was there, keep what they change, give back what they changed
 * back; what is not the image's is nobody's business. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/stepping/check.h"
#include "shm/heap_image.h"

enum { PAGE = 4096, PAGES = 40, BETWEEN = 4, UNTOUCHED = 20 }; /* pages; beyond a gap a mapping is parted */
enum { SAME_AGAIN = 3, CHANGED = 5, MAPPED_ANEW = 7, UNMAPPED = 9 };

static uint8_t *first, *between, *second, *constant, *library;

static void *map_at(void *at, size_t pages, int how)
{
    void *mapped = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | how, -1, 0);
    CHECK(mapped != MAP_FAILED);
    return mapped;
}

static void fill(uint8_t *at, size_t pages, uint8_t mark)
{
    for (size_t i = 0; i < pages; i++)
        if (at != first || i < UNTOUCHED || i >= UNTOUCHED + 12)
            memset(at + i * PAGE, mark + (int)i, PAGE);
}

/* Two mappings of an allocator with one of somebody else between them, so small that a gap in one would be as large. */
static void lay_out(void)
{
    first = mmap(NULL, (2 * PAGES + BETWEEN) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(first != MAP_FAILED);
    between = first + PAGES * PAGE;
    second = between + BETWEEN * PAGE;
    map_at(first, PAGES, MAP_PRIVATE | MAP_FIXED);
    map_at(between, BETWEEN, MAP_SHARED | MAP_FIXED);
    map_at(second, PAGES, MAP_PRIVATE | MAP_FIXED);
    fill(first, PAGES, 10);
    fill(between, BETWEEN, 70);
    fill(second, PAGES, 90);
    constant = map_at(NULL, PAGES, MAP_PRIVATE);
    fill(constant, PAGES, 150);
    int file = memfd_create("library", 0);
    CHECK_EQ(ftruncate(file, PAGES * PAGE), 0);
    for (int i = 0; i < PAGES; i++) /* in the file, and changed in every second page here */
        CHECK_EQ(pwrite(file, constant + i * PAGE, PAGE, i * PAGE), PAGE);
    library = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(library != MAP_FAILED);
    for (int i = 0; i < PAGES; i += 2)
        library[i * PAGE + 100] = 1;
    close(file);
    CHECK_EQ(mprotect(constant, PAGES * PAGE, PROT_READ), 0);
}

static bool is_full_of(const uint8_t *page, uint8_t mark)
{
    return page[0] == mark && memcmp(page, page + 1, PAGE - 1) == 0;
}

static bool is_as_filled(const uint8_t *at, size_t pages, uint8_t mark)
{
    for (size_t i = 0; i < pages; i++)
        if (!is_full_of(at + i * PAGE, at == first && i >= UNTOUCHED && i < UNTOUCHED + 12 ? 0 : (uint8_t)(mark + i)))
            return false;
    return true;
}

/* Whether the page is the image's, not a copy of its own. */
static bool is_shared(const uint8_t *page)
{
    uint64_t said = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    CHECK_EQ(*(volatile const uint8_t *)page, *page); /* it is there */
    CHECK_EQ(pread(pagemap, &said, sizeof said, (off_t)((uintptr_t)page / PAGE * sizeof said)), sizeof said);
    close(pagemap);
    CHECK(said >> 63 & 1);
    return said >> 61 & 1;
}

/* The lowest descriptor that is free: as before, if a call gave back all that it opened. */
static int next_descriptor(void)
{
    int made = dup(0);
    CHECK(made >= 0);
    close(made);
    return made;
}

static void write_and_undo(volatile uint8_t *at)
{
    *at ^= 1;
    *at ^= 1;
}

static void *stand_by(void *unused) { return pause() == 0 ? NULL : unused; }

static void test_nothing_with_two_threads(void)
{
    pthread_t other;
    CHECK_EQ(pthread_create(&other, NULL, stand_by, NULL), 0);
    write_and_undo(first + SAME_AGAIN * PAGE);
    CHECK_EQ(mpb_heap_image_give_back(), 0);
    CHECK(!is_shared(first + SAME_AGAIN * PAGE));
    pthread_cancel(other);
    pthread_join(other, NULL);
}

static void test_copies_are_given_back(void)
{
    CHECK(is_as_filled(first, PAGES, 10) && is_as_filled(second, PAGES, 90));
    write_and_undo(&second[SAME_AGAIN * PAGE + 17]);
    write_and_undo(&second[(SAME_AGAIN + 1) * PAGE]);
    second[CHANGED * PAGE + PAGE - 1] = 1;
    CHECK(!is_shared(second + SAME_AGAIN * PAGE) && !is_shared(second + CHANGED * PAGE));
    int free_descriptor = next_descriptor();
    CHECK(mpb_heap_image_give_back() >= 2 * PAGE);
    CHECK_EQ(next_descriptor(), free_descriptor);
    CHECK(is_shared(second + SAME_AGAIN * PAGE) && is_shared(second + (SAME_AGAIN + 1) * PAGE));
    CHECK(!is_shared(second + CHANGED * PAGE));
    CHECK_EQ(second[CHANGED * PAGE + PAGE - 1], 1);
    second[CHANGED * PAGE + PAGE - 1] = 90 + CHANGED;
    CHECK(mpb_heap_image_give_back() >= PAGE);
    CHECK(is_shared(second + CHANGED * PAGE));
    CHECK(mpb_heap_image_give_back() < PAGES / 2 * PAGE); /* and not what is the image already */
    CHECK(is_as_filled(first, PAGES, 10) && is_as_filled(second, PAGES, 90));
}

/* Memory that was freed and is something else's now, were it byte for byte what it was. */
static void test_what_was_mapped_anew_stays(void)
{
    munmap(second + UNMAPPED * PAGE, PAGE);
    map_at(second + MAPPED_ANEW * PAGE, 1, MAP_PRIVATE | MAP_FIXED);
    memset(second + MAPPED_ANEW * PAGE, 90 + MAPPED_ANEW, PAGE);
    write_and_undo(&second[(UNMAPPED + 1) * PAGE]);
    CHECK(mpb_heap_image_give_back() >= PAGE);
    CHECK(is_shared(second + (UNMAPPED + 1) * PAGE)); /* the parts of a mapping are found in the image, too */
    CHECK(is_full_of(second + MAPPED_ANEW * PAGE, 90 + MAPPED_ANEW));
    CHECK(is_full_of(second + (UNMAPPED + 1) * PAGE, 90 + UNMAPPED + 1));
}

static void test_looks_lie_further_and_further_apart(void)
{
    uint64_t now = 5000000000, second_ns = 1000000000;
    mpb_heap_image_idle(now);
    CHECK_EQ(mpb_heap_image_due_ns, now + second_ns);
    for (uint64_t interval = 1; interval <= 2048; interval *= 2) {
        uint64_t next = interval < 512 ? 2 * interval : 512, due = mpb_heap_image_due_ns;
        write_and_undo(first + SAME_AGAIN * PAGE);
        mpb_heap_image_idle(due - 1);
        CHECK(!is_shared(first + SAME_AGAIN * PAGE));
        mpb_heap_image_idle(due);
        CHECK(is_shared(first + SAME_AGAIN * PAGE));
        CHECK_EQ(mpb_heap_image_due_ns, due + next * second_ns);
    }
}

static void child(void)
{
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ(mpb_heap_image_take(), 0); /* once for all */
    test_copies_are_given_back();
    test_nothing_with_two_threads();
    test_looks_lie_further_and_further_apart();
    test_what_was_mapped_anew_stays();
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        CHECK_EQ(sigismember(&after, number), number == SIGUSR2);
    fill(between, BETWEEN, 60); /* still shared */
    printf("heap image: %lu checks\n", checks_made);
}

int main(void)
{
    int status;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("heap image: not run, the sanitizer's memory is not to be replaced");
    return 0;
#endif
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK_EQ(mpb_heap_image_give_back(), 0);
    CHECK_EQ(mpb_heap_image_due_ns, UINT64_MAX);
    lay_out();
    int free_descriptor = next_descriptor();
    size_t bytes = mpb_heap_image_take();
    CHECK_EQ(next_descriptor(), free_descriptor);
    CHECK(bytes >= (3 * PAGES - 12) * PAGE && bytes < 4 << 20);
    CHECK(is_shared(first) && is_shared(second + (PAGES - 1) * PAGE) && !is_shared(constant));
    for (int i = 0; i < PAGES; i++)
        CHECK(library[i * PAGE] == 150 + i && library[i * PAGE + 100] == (i % 2 ? 150 + i : 1));
    CHECK(is_shared(library) && is_shared(library + PAGE));
    mpb_heap_image_idle(1); /* a fork begins anew */
    CHECK(is_as_filled(first, PAGES, 10) && is_as_filled(between, BETWEEN, 70) && is_as_filled(second, PAGES, 90));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child();
        exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK(is_as_filled(first, PAGES, 10) && is_as_filled(between, BETWEEN, 60) && is_as_filled(second, PAGES, 90));
    return 0;
}
