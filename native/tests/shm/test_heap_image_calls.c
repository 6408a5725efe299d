/* The image of a heap, call by call, on a kernel that says what the test wants: which mappings and pages go into it, how
 * pages become runs, what is given back, and that nothing happens where the kernel refuses or does not tell. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "tests/shm/scripted_kernel.h"
#include "shm/heap_image.h"

enum { LEAST = 32, AT_ONCE = 512, MOST_RUNS = 768, MOST_PAGES = 65536, GAP = 8, MAPS_ROOM = (1 << 17) - 1 };

static uint8_t image[1201 * PAGE];

/* An image is made once in a process. */
static void in_a_fork(void (*scenario)(size_t), size_t which)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        kernel_begin();
        kernel.image_at = image;
        scenario(which);
        exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void present(size_t first, size_t pages)
{
    for (size_t i = first; i < first + pages; i++)
        kernel.pages[i] = PRESENT;
}

/* Nothing was made, and the next one may try. */
static void check_none(void)
{
    CHECK_EQ(mpb_heap_image_take(), 0);
    CHECK(kernel.mapped == 0 && mpb_heap_image_due_ns == UINT64_MAX);
    all_is_given_back();
    CHECK_EQ(mpb_heap_image_give_back(), 0);
}

/* These runs, one behind the other, are the image. */
static void check_taken(const struct memory_call *runs, size_t count)
{
    size_t bytes = 0;
    CHECK_EQ(mpb_heap_image_due_ns, UINT64_MAX);
    size_t taken = mpb_heap_image_take();
    CHECK_EQ(kernel.wrote, count);
    CHECK_EQ(kernel.mapped, count);
    for (size_t i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)ground + runs[i].at * PAGE;
        CHECK(kernel.writes[i].at == at && kernel.fixed[i].at == at);
        CHECK(kernel.writes[i].bytes == runs[i].bytes * PAGE && kernel.fixed[i].bytes == runs[i].bytes * PAGE);
        CHECK(kernel.writes[i].offset == bytes && kernel.fixed[i].offset == bytes);
        bytes += runs[i].bytes * PAGE;
    }
    CHECK_EQ(taken, bytes);
    CHECK(kernel.images == 1 && mpb_heap_image_due_ns == 0);
    all_is_given_back();
    CHECK_EQ(mpb_heap_image_take(), 0); /* once in a process */
    CHECK(kernel.images == 1 && kernel.works == 1);
}

/* ------------------------------------------------------------------ which memory */
static const struct {
    const char *rights, *name;
    unsigned inode;
    size_t pages;
    bool counts;
} LINES[] = {
    {"rw-p", "", 0, LEAST, true},
    {"rw-p", "", 0, LEAST - 1, false}, /* thread-local storage and what the C library writes to */
    {"rw-p", "", 0, LEAST + 1, true},
    {"rw-p", "[heap]", 0, 40, true},
    {"rw-p", "[heap]", 0, LEAST - 1, false},
    {"rw-p", "[heaps]", 0, 40, false},
    {"rw-p", "[stack]", 0, 40, false},
    {"rw-p", "[anon:somebody's]", 0, 40, false},
    {"rw-p", "/usr/lib/libssl.so.3", 77, 40, true},
    {"rw-p", "/usr/lib/a name with blanks.so", 1, LEAST, true},
    {"rw-p", "/usr/lib/libssl.so.3", 77, LEAST - 1, false},
    {"rw-p", "/dev/zero", 0, 40, false},
    {"rw-p", "", 1, 40, false}, /* of a file that has no name */
    {"rw-p", "[heap]", 1, 40, false},
    {"rw-p", "anon_inode:x", 1, 40, false},
    {"rw-s", "", 0, 40, false}, /* with others */
    {"r--p", "", 0, 40, false},
    {"rwxp", "", 0, 40, false},
    {"---p", "", 0, 40, false},
    {"rw-s", "/usr/lib/libssl.so.3", 77, 40, false},
};

static void each_kind_of_mapping(size_t which)
{
    enum { COUNT = sizeof LINES / sizeof *LINES };
    struct memory_call runs[COUNT];
    size_t count = 0, at = 3;
    kernel.piece = which;
    for (size_t i = 0; i < COUNT; i++) {
        add_line(at, LINES[i].pages, LINES[i].rights, 0x1000, LINES[i].inode, LINES[i].name);
        present(at, LINES[i].pages);
        if (LINES[i].counts)
            runs[count++] = (struct memory_call){at, LINES[i].pages, 0};
        at += LINES[i].pages + 20;
    }
    check_taken(runs, count);
    for (size_t i = 0; i < count; i++) /* those of others are not even asked about */
        CHECK(kernel.looks[i].at == (uintptr_t)ground + runs[i].at * PAGE &&
              kernel.looks[i].bytes == runs[i].bytes * 8);
    CHECK_EQ(kernel.looked, count);
}

/* More is said than there is room for: all of it counts, or none. The last line may lack its end. */
static void as_much_as_can_be_read(size_t length)
{
    const struct memory_call run = {0, LEAST, 0};
    present(0, LEAST + 100);
    add_line(0, LEAST, "rw-p", 0, 0, "");
    while (strlen(kernel.maps) + 300 < length)
        add_line(100, LEAST, "r--p", 0, 0, "");
    size_t has = strlen(kernel.maps);
    add_line(100, LEAST, "r--p", 0, 3, "/");
    CHECK(has + 150 < length && strlen(kernel.maps) < length);
    has = strlen(kernel.maps);
    memset(kernel.maps + has - 1, 'n', length - has + 1);
    CHECK_EQ(strlen(kernel.maps), length);
    if (length < MAPS_ROOM)
        check_taken(&run, 1);
    else
        check_none();
}

/* A line of another kind ends the mappings: nobody knows what stands there. */
static void a_line_of_another_kind(size_t which)
{
    const struct memory_call runs[] = {{0, LEAST, 0}, {200, LEAST, 0}};
    present(0, 300);
    add_line(0, LEAST, "rw-p", 0, 0, "");
    if (which == 1)
        strcat(kernel.maps, "1000-200000 rw-p\n");
    add_line(200, LEAST, "rw-p", 0, 0, "");
    kernel.reads_fail = which == 2; /* behind the last one */
    check_taken(runs, which == 1 ? 1 : 2);
}

/* ------------------------------------------------------------------ runs of pages */
/* Those that few others lie between become one; not across two mappings. */
static void gaps(size_t which)
{
    static const struct {
        size_t pages[5], count;
        struct memory_call runs[5];
        size_t run_count;
    } ROWS[] = {
        {{0}, 1, {{0, 1, 0}}, 1},
        {{0, 1}, 2, {{0, 2, 0}}, 1},
        {{0, 1 + GAP}, 2, {{0, 2 + GAP, 0}}, 1},
        {{0, 2 + GAP}, 2, {{0, 1, 0}, {2 + GAP, 1, 0}}, 2},
        {{5, 6 + GAP, 7 + 2 * GAP}, 3, {{5, 3 + 2 * GAP, 0}}, 1},
        {{1, 2, 4, 3 * GAP, 3 * GAP + 1}, 5, {{1, 4, 0}, {3 * GAP, 2, 0}}, 2},
        {{39, 40}, 2, {{39, 1, 0}, {40, 1, 0}}, 2}, /* the end of one mapping, and the beginning of the next */
        {{38, 40, 41}, 3, {{38, 1, 0}, {40, 2, 0}}, 2},
        {{79}, 1, {{79, 1, 0}}, 1},
        {{39, 79}, 2, {{39, 1, 0}, {79, 1, 0}}, 2},
    };
    add_line(0, 40, "rw-p", 0, 0, "");
    add_line(40, 40, "rw-p", 0, 0, "[heap]");
    present(80, 40); /* nobody's */
    for (size_t i = 0; i < ROWS[which].count; i++)
        kernel.pages[ROWS[which].pages[i]] = PRESENT | (i % 2 ? OF_A_FILE : 0) | i;
    kernel.pages[20] = OF_A_FILE | 77; /* in swap, or nowhere */
    check_taken(ROWS[which].runs, ROWS[which].run_count);
    CHECK_EQ(kernel.looked, 2);
}

/* The kernel allows so many mappings and no more, and so much memory is copied and no more. */
static void as_many_as_there_may_be(size_t runs)
{
    enum { STEP = GAP + 2 };
    struct memory_call all[MOST_RUNS];
    add_line(0, MOST_RUNS * STEP + 40, "rw-p", 0, 0, "");
    for (size_t i = 0; i < runs; i++) {
        present(i * STEP, 1);
        if (i < MOST_RUNS)
            all[i] = (struct memory_call){i * STEP, 1, 0};
    }
    if (runs > MOST_RUNS)
        check_none();
    else if (runs == 0)
        check_none(); /* nothing is there */
    else
        check_taken(all, runs);
}

static void a_last_run_that_grows(size_t pages)
{
    enum { STEP = GAP + 2 };
    add_line(0, MOST_RUNS * STEP + 40, "rw-p", 0, 0, "");
    for (size_t i = 0; i < MOST_RUNS; i++)
        present(i * STEP, 1);
    present((MOST_RUNS - 1) * STEP, pages);
    CHECK_EQ(mpb_heap_image_take(), (MOST_RUNS - 1 + pages) * PAGE);
}

static void as_much_as_is_copied(size_t pages)
{
    const struct memory_call run = {0, pages, 0};
    add_line(0, pages + 60, "rw-p", 0, 0, "");
    present(0, pages);
    if (pages > MOST_PAGES)
        check_none();
    else
        check_taken(&run, 1);
    size_t looks = (pages + 60 + AT_ONCE - 1) / AT_ONCE;
    CHECK_EQ(kernel.looked, looks);
    for (size_t i = 0; i < looks; i++) {
        size_t left = pages + 60 - i * AT_ONCE;
        CHECK_EQ(kernel.looks[i].at, (uintptr_t)ground + i * AT_ONCE * PAGE);
        CHECK_EQ(kernel.looks[i].bytes, 8 * (left < AT_ONCE ? left : AT_ONCE));
    }
}

/* As much of a run as the kernel takes at once; what lies behind it in the image goes on where it ended. */
static void writes_in_pieces(size_t takes)
{
    size_t at = 0, expected = 0;
    add_line(0, 100, "rw-p", 0, 0, "");
    present(0, 3);
    present(50, 2);
    kernel.takes = takes;
    CHECK_EQ(mpb_heap_image_take(), 5 * PAGE);
    for (int i = 0; i < kernel.wrote; i++) {
        size_t end = at < 3 * PAGE ? 3 * PAGE : 5 * PAGE, from = at < 3 * PAGE ? at : at + 47 * PAGE;
        expected = end - at < takes ? end - at : takes;
        CHECK_EQ(kernel.writes[i].offset, at);
        CHECK_EQ(kernel.writes[i].at, (uintptr_t)ground + from);
        CHECK_EQ(kernel.writes[i].bytes, expected);
        at += expected;
    }
    CHECK_EQ(at, 5 * PAGE);
    all_is_given_back();
}

/* ------------------------------------------------------------------ what the kernel refuses */
static void some_memory(void)
{
    kernel_begin();
    kernel.image_at = image;
    add_line(0, 100, "rw-p", 0, 0, "");
    present(0, 3);
    present(50, 2);
}

static void refusals(size_t unused)
{
    (void)unused;
#define REFUSED(change) \
    do {                \
        some_memory();  \
        change;         \
        check_none();   \
    } while (0)
    REFUSED(kernel.page_bytes = 2 * PAGE);
    CHECK_EQ(kernel.works, 0);
    REFUSED(kernel.tasks = 0); /* it does not say how many threads there are */
    REFUSED(kernel.tasks = 2);
    REFUSED(kernel.tasks = 4);
    CHECK_EQ(kernel.works, 0);
    REFUSED(kernel.fd_of_maps = -1);
    REFUSED(kernel.work_at = MAP_FAILED);
    REFUSED((kernel.work_at = MAP_FAILED, kernel.fd_of_maps = -1));
    REFUSED(kernel.fd_of_pagemap = -1);
    REFUSED(kernel.fd_of_image = -1);
    CHECK(kernel.looked == 0 && kernel.wrote == 0);
    REFUSED(kernel.short_looks = 0);
    REFUSED((add_line(200, 40, "rw-p", 0, 0, ""), kernel.short_looks = 1)); /* half of it is no image */
    REFUSED(kernel.writes_fail_at = 0);
    CHECK_EQ(kernel.sealed, 0);
    REFUSED(kernel.writes_fail_at = 1);
    REFUSED((kernel.writes_fail_at = 1, kernel.takes = 0)); /* takes nothing, and says no error */
    REFUSED((kernel.writes_fail_at = 0, kernel.takes = 0));
    REFUSED(kernel.seals_fail = 1);
    REFUSED(kernel.image_at = MAP_FAILED);
    REFUSED(kernel.maps[0] = '\0');
#undef REFUSED
    some_memory();
    kernel.fd_of_maps = 1; /* descriptors as any other */
    kernel.fd_of_pagemap = 0;
    kernel.fd_of_image = 2;
    CHECK_EQ(mpb_heap_image_take(), 5 * PAGE);
    all_is_given_back();
}

static void the_first_descriptor(size_t unused)
{
    (void)unused;
    some_memory();
    kernel.fd_of_maps = 0;
    CHECK_EQ(mpb_heap_image_take(), 5 * PAGE);
    all_is_given_back();
}

static void the_first_descriptor_is_the_image(size_t unused)
{
    (void)unused;
    some_memory();
    kernel.fd_of_image = 0;
    CHECK_EQ(mpb_heap_image_take(), 5 * PAGE);
    all_is_given_back();
}

/* What was there may be gone: nobody goes on. */
static void a_mapping_that_fails(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        some_memory();
        kernel.fixed_fails = 1;
        mpb_heap_image_take();
        _exit(1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 70);
}

/* ------------------------------------------------------------------ what is given back */
enum { IMAGE_PAGES = 1200 };

/* An image of 1,200 pages, all of which are the image's still. */
static void with_an_image(void)
{
    add_line(0, IMAGE_PAGES, "rw-p", 0, 0, "");
    present(0, IMAGE_PAGES);
    CHECK_EQ(mpb_heap_image_take(), IMAGE_PAGES * PAGE);
    kernel_begin();
    for (size_t i = 0; i < IMAGE_PAGES; i++) {
        memset(image + i * PAGE, (int)(i % 251), PAGE);
        memset(ground + i * PAGE, (int)(i % 251), PAGE);
        kernel.pages[i] = PRESENT | OF_A_FILE;
    }
}

/* Pages of the ground that are copies and say what the image says, beside what the kernel was told of. Page `from` + i of
 * the ground has page `at` + i of the image. */
static void check_given(const bool *equal_copy, size_t from, size_t pages)
{
    int advised = 0;
    size_t given = 0, bytes = mpb_heap_image_give_back();
    for (size_t i = 0; i < pages;) {
        size_t end = i, chunk_end = i - i % AT_ONCE + AT_ONCE;
        while (end < pages && end < chunk_end && equal_copy[i] && equal_copy[end])
            end++;
        if (end > i) {
            CHECK(advised < kernel.advised);
            CHECK_EQ(kernel.advices[advised].at, (uintptr_t)ground + (from + i) * PAGE);
            CHECK_EQ(kernel.advices[advised].bytes, (end - i) * PAGE);
            given += advised == kernel.advice_fails_at ? 0 : (end - i) * PAGE;
            advised++;
        }
        i = end > i ? end : i + 1;
    }
    CHECK_EQ(bytes, given);
    CHECK_EQ(kernel.advised, advised + 1);
    CHECK(kernel.advices[advised].at == (uintptr_t)image && kernel.advices[advised].bytes == IMAGE_PAGES * PAGE);
    all_is_given_back();
}

static void copies_that_are_equal(size_t seed_of)
{
    uint64_t seed = seed_of + 1;
    bool equal_copy[IMAGE_PAGES];
    with_an_image();
    add_line(0, IMAGE_PAGES, "rw-p", 0, 9, IMAGE_NAME);
    for (size_t i = 0; i < IMAGE_PAGES; i++) {
        uint32_t kind = random_below(&seed, 3 + (uint32_t)seed_of % 5);
        equal_copy[i] = kind > 2 || (seed_of == 0 && i != 600);
        if (equal_copy[i])
            kernel.pages[i] = PRESENT | i;
        else if (kind == 0)
            kernel.pages[i] = i % 2 == 0 ? OF_A_FILE : 0; /* not there */
        else if (kind == 1) {
            kernel.pages[i] = PRESENT;
            ground[i * PAGE + random_below(&seed, PAGE)] ^= 1;
        }
    }
    if (seed_of == 0) { /* the last byte of one page */
        kernel.pages[600] = PRESENT;
        ground[601 * PAGE - 1] ^= 1;
    }
    if (seed_of % 4 == 3)
        kernel.advice_fails_at = (int)seed_of % 3;
    check_given(equal_copy, 0, IMAGE_PAGES);
}

/* Parts of the image, wherever they lie by now, are looked at beside what the image has there. */
static void parts_of_the_image(size_t which)
{
    static const struct {
        const char *rights, *name;
        size_t at, pages;
        bool counts;
    } ROWS[] = {
        {"rw-p", IMAGE_NAME, 0, IMAGE_PAGES, true},
        {"rw-p", IMAGE_NAME, 1, IMAGE_PAGES - 1, true},
        {"rw-p", IMAGE_NAME, 1, IMAGE_PAGES, false}, /* it ends before */
        {"rw-p", IMAGE_NAME, 700, 500, true},
        {"rw-p", IMAGE_NAME, 700, 501, false},
        {"rw-p", "/memfd:mpbroker-heap", 3, 1, true},
        {"rw-p", "/memfd:mpbroker-heaP (deleted)", 3, 1, false},
        {"rw-p", "/memfd:mpbroker", 3, 1, false},
        {"rw-p", "", 3, 1, false},
        {"rw-s", IMAGE_NAME, 3, 1, false},
        {"r--p", IMAGE_NAME, 3, 1, false},
        {"rw-p", IMAGE_NAME, 9, AT_ONCE, true},
        {"rw-p", IMAGE_NAME, 9, AT_ONCE + 1, true},
    };
    static bool equal_copy[IMAGE_PAGES + 1];
    enum { FROM = 2000 };
    with_an_image();
    memset(image + IMAGE_PAGES * PAGE, IMAGE_PAGES % 251, PAGE);
    for (size_t i = 0; i <= ROWS[which].pages; i++) { /* and somebody else's page behind them */
        kernel.pages[FROM + i] = PRESENT;
        memset(ground + (FROM + i) * PAGE, (int)((ROWS[which].at + i) % 251), PAGE);
        equal_copy[i] = i < ROWS[which].pages && ROWS[which].counts;
    }
    add_line(0, 5, "rw-p", 0, 0, "");
    add_line(FROM, ROWS[which].pages, ROWS[which].rights, ROWS[which].at * PAGE, 9, ROWS[which].name);
    check_given(equal_copy, FROM, ROWS[which].pages);
}

static void give_back_that_is_refused(size_t unused)
{
    (void)unused;
    with_an_image();
    present(0, IMAGE_PAGES);
    add_line(0, IMAGE_PAGES, "rw-p", 0, 9, IMAGE_NAME);
    static const nlink_t TASKS[] = {0, 2, 4};
    for (int i = 0; i < 3; i++) {
        kernel.tasks = TASKS[i];
        CHECK_EQ(mpb_heap_image_give_back(), 0);
        CHECK(kernel.works == 0 && kernel.advised == 0);
    }
    kernel.tasks = 3;
    kernel.fd_of_maps = -1;
    CHECK_EQ(mpb_heap_image_give_back(), 0);
    all_is_given_back();
    kernel.fd_of_maps = MAPS_FD;
    kernel.work_at = MAP_FAILED;
    CHECK_EQ(mpb_heap_image_give_back(), 0);
    all_is_given_back();
    kernel.work_at = NULL;
    kernel.short_looks = 1; /* of the second part nothing is known */
    CHECK_EQ(mpb_heap_image_give_back(), (IMAGE_PAGES - AT_ONCE) * PAGE);
    all_is_given_back();
}

int main(void)
{
    if (!SCRIPTED) {
        puts("heap image, call by call: not run, a sanitizer maps memory itself");
        return 0;
    }
    static const size_t PIECES[] = {1 << 20, 4096, 100, 7, 1},
                        TAKEN[] = {SIZE_MAX, PAGE, PAGE - 1, PAGE + 1, 3 * PAGE - 1};
    for (size_t i = 0; i < 5; i++) {
        in_a_fork(each_kind_of_mapping, PIECES[i]);
        in_a_fork(writes_in_pieces, TAKEN[i]);
    }
    for (size_t length = MAPS_ROOM - 2; length < MAPS_ROOM + 3; length++)
        in_a_fork(as_much_as_can_be_read, length);
    for (size_t which = 0; which < 3; which++)
        in_a_fork(a_line_of_another_kind, which);
    for (size_t row = 0; row < 10; row++)
        in_a_fork(gaps, row);
    static const size_t RUNS[] = {0, 1, MOST_RUNS - 1, MOST_RUNS, MOST_RUNS + 1};
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++)
        in_a_fork(as_many_as_there_may_be, RUNS[i]);
    in_a_fork(a_last_run_that_grows, 9);
    static const size_t PAGES[] = {1, AT_ONCE - 60, AT_ONCE - 59, MOST_PAGES - 1, MOST_PAGES, MOST_PAGES + 1};
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        in_a_fork(as_much_as_is_copied, PAGES[i]);
    in_a_fork(refusals, 0);
    in_a_fork(the_first_descriptor, 0);
    in_a_fork(the_first_descriptor_is_the_image, 0);
    a_mapping_that_fails();
    for (size_t seed = 0; seed < 12; seed++)
        in_a_fork(copies_that_are_equal, seed);
    for (size_t row = 0; row < 13; row++)
        in_a_fork(parts_of_the_image, row);
    in_a_fork(give_back_that_is_refused, 0);
    printf("heap image, call by call: %lu checks\n", checks_made);
    return 0;
}
