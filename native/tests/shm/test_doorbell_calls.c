/* Which word is waited for and for how long, which are woken and whose descriptor is written to, call by call; and of two
 * who ring at the same time, wherever the one stands still, each takes a sleeper of its own. The calls are the test's. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "shm/counters.h"
#include "tests/shm/shm_world.h"
#include "tests/stepping/stepping.h"

enum { SELF = 1, COORDINATOR = 3, FIRST_FD = 1000, MOST = 200 };

static struct world w;
static struct {
    int op;
    mpb_atomic32 *word;
    uint32_t value, word_was;
    bool has_limit;
    struct timespec limit;
} futex[MOST];
static int futex_error, fds[MOST];
static atomic_int futexes, writes;

long syscall(long number, ...)
{
    va_list given;
    va_start(given, number);
    mpb_atomic32 *word = va_arg(given, mpb_atomic32 *);
    int op = va_arg(given, int);
    uint32_t value = va_arg(given, uint32_t);
    const struct timespec *limit = va_arg(given, struct timespec *);
    va_end(given);
    int at = futexes++;
    if (number != SYS_futex || at >= MOST)
        abort();
    futex[at].op = op;
    futex[at].word = word;
    futex[at].word_was = mpb_load_relaxed(word);
    futex[at].value = value;
    futex[at].has_limit = limit != NULL;
    if (limit != NULL)
        futex[at].limit = *limit;
    errno = futex_error;
    return futex_error == 0 ? 0 : -1;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    uint64_t rung;
    int at = writes++;
    if (count != sizeof rung || at >= MOST)
        abort();
    memcpy(&rung, bytes, sizeof rung);
    if (rung != 1)
        abort();
    fds[at] = fd;
    return 8;
}

static void begin(void)
{
    world_reset(&w);
    memset((void *)&w.core.counters[SELF], 0, sizeof w.core.counters[SELF]);
    for (int i = 0; i < MPB_MAX_PROCESSORS; i++)
        w.core.eventfds[i] = FIRST_FD + i;
    futexes = writes = futex_error = 0;
    memset(futex, 0, sizeof futex);
}

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&w.core.counters[SELF].value[counter]); }
static mpb_atomic32 *word_of(uint32_t handler) { return &w.core.doorbells->handler[handler].word; }

/* Call number `at` woke all who wait for this word, which said so already. */
static void check_wake(int at, mpb_atomic32 *word, uint32_t says)
{
    CHECK(at < futexes && futex[at].op == FUTEX_WAKE);
    CHECK_EQ((uint8_t *)futex[at].word - (uint8_t *)w.core.doorbells, (uint8_t *)word - (uint8_t *)w.core.doorbells);
    CHECK_EQ(futex[at].value, INT_MAX);
    CHECK_EQ(futex[at].word_was, says);
}

/* ------------------------------------------------------------------ waits */
static const struct {
    int64_t ns;
    bool has_limit;
    int64_t seconds, rest;
} LIMITS[] = {{-1, false, 0, 0},        {INT64_MIN, false, 0, 0},        {0, true, 0, 0},
              {1, true, 0, 1},          {999999999, true, 0, 999999999}, {1000000000, true, 1, 0},
              {3000000001, true, 3, 1}, {60000000000, true, 60, 0}};

static void check_wait(int at, mpb_atomic32 *word, uint32_t value, size_t limit)
{
    CHECK(at < futexes && futex[at].op == FUTEX_WAIT); /* of any process, not of this one's threads alone */
    CHECK(futex[at].word == word && futex[at].value == value);
    CHECK_EQ(futex[at].has_limit, LIMITS[limit].has_limit);
    if (futex[at].has_limit)
        CHECK(futex[at].limit.tv_sec == LIMITS[limit].seconds && futex[at].limit.tv_nsec == LIMITS[limit].rest);
}

static void test_how_long_is_waited(void)
{
    static const struct {
        int error, answer;
    } ENDS[] = {{0, 0}, {EAGAIN, 0}, {ETIMEDOUT, 1}, {EINTR, 2}};
    mpb_atomic32 word = 5;
    for (size_t limit = 0; limit < sizeof LIMITS / sizeof *LIMITS; limit++)
        for (size_t end = 0; end < sizeof ENDS / sizeof *ENDS; end++) {
            begin();
            futex_error = ENDS[end].error;
            CHECK_EQ(mpb_futex_wait(&word, 7, LIMITS[limit].ns), ENDS[end].answer);
            check_wait(0, &word, 7, limit);
            mpb_handler_announce(&w.core, 2);
            mpb_store_relaxed(&w.core.doorbells->handler[2].word, 9); /* nothing but the kernel looks at it */
            CHECK_EQ(mpb_handler_sleep(&w.core, 2, LIMITS[limit].ns), ENDS[end].answer);
            check_wait(1, word_of(2), 0, limit);
            CHECK_EQ(atomic_load(&w.core.doorbells->sleepers), 0);
            CHECK_EQ(futexes, 2);
        }
    begin();
    futex_error = ETIMEDOUT;
    errno = EAGAIN; /* of a call before */
    CHECK_EQ(mpb_futex_wait(&word, 7, 1), 1);
    futex_error = 0;
    errno = ETIMEDOUT;
    CHECK_EQ(mpb_futex_wait(&word, 7, 1), 0);
}

/* A service sleeps only if nobody rang, says so meanwhile, and is awake afterwards. */
static void test_a_service_that_waits(void)
{
    static const struct {
        uint32_t word;
        size_t limit;
        bool sleeps;
    } ROWS[] = {{0, 0, true}, {0, 2, false}, {0, 3, true}, {0, 6, true}, {2, 0, false}, {2, 2, false}, {2, 5, false}};
    const uint32_t slots[] = {MPB_SLOT_CONTROLLER, MPB_SLOT_TRACER, MPB_MAX_SLOTS - 1};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (size_t s = 0; s < sizeof slots / sizeof *slots; s++) {
            begin();
            mpb_atomic32 *word = &w.core.doorbells->service_word[slots[s]];
            mpb_store_relaxed(word, ROWS[i].word);
            CHECK_EQ(mpb_service_wait(&w.core, slots[s], LIMITS[ROWS[i].limit].ns), ROWS[i].word == 2);
            CHECK_EQ(futexes, ROWS[i].sleeps);
            if (ROWS[i].sleeps) {
                check_wait(0, word, 1, ROWS[i].limit);
                CHECK_EQ(futex[0].word_was, 1);
            }
            CHECK_EQ(mpb_load_relaxed(word), 0);
        }
}

/* ------------------------------------------------------------------ rings */
static void test_a_service_is_woken_where_it_sleeps(void)
{
    for (uint32_t was = 0; was < 3; was++) {
        begin();
        mpb_atomic32 *word = &w.core.doorbells->service_word[MPB_SLOT_TRACER];
        mpb_store_relaxed(word, was);
        mpb_ring_service(&w.core, MPB_SLOT_TRACER);
        CHECK_EQ(futexes, was == 1);
        if (was == 1)
            check_wake(0, word, 2);
        CHECK_EQ(mpb_load_relaxed(word), 2);
    }
}

static void test_handlers_are_woken(void)
{
    begin();
    mpb_ring_handler(&w.core, 2); /* awake */
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), -1);
    mpb_ring_control_handler(&w.core, SELF);
    CHECK_EQ(futexes, 0);
    for (uint32_t handler = 0; handler < 3; handler++)
        mpb_handler_announce(&w.core, handler);
    mpb_ring_handler(&w.core, 1);
    check_wake(0, word_of(1), 1);
    CHECK_EQ(mpb_load_relaxed(word_of(0)) + mpb_load_relaxed(word_of(2)), 0);
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), 0);
    check_wake(1, word_of(0), 1);
    mpb_ring_control_handler(&w.core, SELF); /* none is kept for it: any of them */
    check_wake(2, word_of(2), 1);
    CHECK(futexes == 3 && counted(MPB_C_HANDLER_WAKES) == 2);
    mpb_handler_announce(&w.core, MPB_MAX_HANDLERS - 1);
    mpb_poke_handler(&w.core, MPB_MAX_HANDLERS - 1, MPB_POKE_SCAN, SELF); /* the last there can be */
    check_wake(3, word_of(MPB_MAX_HANDLERS - 1), 1);
    CHECK_EQ(atomic_load(&w.core.doorbells->sleepers), 0);
}

/* Each processor of either plane, the last there can be too, and nobody else. */
static void test_who_waits_for_room(void)
{
    for (uint32_t plane = 0; plane < 2; plane++)
        for (uint32_t processor = 0; processor < MPB_MAX_PROCESSORS; processor++) {
            begin();
            mpb_want_space(&w.core, plane, processor);
            CHECK_EQ(atomic_load(&w.core.doorbells->want_space), 1ull << (processor + 32 * plane));
            CHECK(mpb_space_is_wanted(&w.core, plane) && !mpb_space_is_wanted(&w.core, 1 - plane));
            mpb_ring_want_space(&w.core, 1 - plane, 0, SELF);
            CHECK_EQ(writes, 0);
            mpb_ring_want_space(&w.core, plane, 0, SELF);
            CHECK(writes == 1 && fds[0] == FIRST_FD + (int)processor);
            CHECK(!mpb_space_is_wanted(&w.core, plane) && counted(MPB_C_PROCESSOR_WAKES) == 1);
        }
    begin();
    for (uint32_t processor = 0; processor < 5; processor += 2) {
        mpb_want_space(&w.core, MPB_PLANE_DATA, processor);
        mpb_want_space(&w.core, MPB_PLANE_CONTROL, processor);
    }
    mpb_ring_want_space(&w.core, MPB_PLANE_DATA, 3, SELF);
    CHECK_EQ(writes, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fds[i], FIRST_FD + 2 * i);
    CHECK_EQ(atomic_load(&w.core.doorbells->want_space), 0x15ull << 32);
}

static void test_descriptors(void)
{
    begin();
    for (int fd = -1; fd < 2; fd++) {
        w.core.eventfds[1] = fd;
        atomic_store(&w.core.doorbells->processor[1].asleep, 1);
        mpb_ring_processor(&w.core, 1, SELF);
        CHECK_EQ(writes, fd + 1); /* the lowest is one as any other; -1 is none */
    }
    CHECK(fds[0] == 0 && fds[1] == 1);
}

static void test_which_partition_moved(void)
{
    static const uint32_t ORDINALS[][2] = {
        {0, 0}, {1, 1}, {63, 63}, {64, 64}, {65, 65}, {4095, 4095}, {4096, 0}, {4097, 1}, {100000, 100000 % 4096}};
    for (size_t i = 0; i < sizeof ORDINALS / sizeof *ORDINALS; i++) {
        begin();
        mpb_tell_handler(&w.core, ORDINALS[i][0], 2, SELF);
        for (uint32_t handler = 0; handler < 4; handler++)
            for (uint32_t at = 0; at < MPB_DIRTY_WORDS; at++)
                CHECK_EQ(w.core.doorbells->dirty[handler][at],
                         handler == 2 && at == ORDINALS[i][1] / 64 ? 1ull << ORDINALS[i][1] % 64 : 0);
    }
}

/* Who waits for replicas is not told of an append alone. */
static void test_two_kinds_of_watchers(void)
{
    begin();
    struct mpb_partition *row = &w.core.partitions[3];
    mpb_store_relaxed(&row->ack_watchers, 0);
    mpb_watch_partition(&w.core, 3, 0);
    mpb_watch_acknowledged(&w.core, 3, 1);
    mpb_watch_acknowledged(&w.core, 3, 2);
    CHECK(atomic_load(&row->watchers) == 1 && atomic_load(&row->ack_watchers) == 6);
    mpb_notify_appended(&w.core, 3, SELF);
    CHECK(atomic_load(&row->watchers) == 0 && atomic_load(&row->ack_watchers) == 6);
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 1);
    mpb_watch_partition(&w.core, 3, 0);
    mpb_notify_partition(&w.core, 3, SELF);
    CHECK(atomic_load(&row->watchers) == 0 && atomic_load(&row->ack_watchers) == 0);
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 3); /* the first has not looked since: it is told already */
    for (uint32_t handler = 0; handler < 4; handler++)
        CHECK_EQ(w.core.doorbells->dirty[handler][0], handler < 3 ? 1 << 3 : 0);
}

/* After a recovery, whoever there is and no other row: handlers that ever ran, the coordinator, processors, services. */
static void test_everybody(void)
{
    static const uint32_t EVER[] = {0, 1, 3, 4, 63, 64};
    for (size_t i = 0; i < sizeof EVER / sizeof *EVER; i++) {
        begin();
        atomic_store(&w.core.header->handlers_high, EVER[i]);
        for (int p = 0; p < 3; p++)
            atomic_store(&w.core.doorbells->processor[p].asleep, 1);
        mpb_ring_everybody(&w.core);
        int at = 0;
        for (uint32_t handler = 0; handler < MPB_MAX_HANDLERS; handler++) {
            bool runs = handler < 4 && (handler < EVER[i] || handler == COORDINATOR);
            CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->handler[handler].poke), runs ? MPB_POKE_SCAN : 0);
            if (runs)
                check_wake(at++, word_of(handler), 1);
        }
        for (uint32_t slot = 0; slot < MPB_MAX_SLOTS; slot++) {
            CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->service_word[slot]), slot >= MPB_SLOT_CONTROLLER ? 2 : 0);
            if (slot >= MPB_SLOT_CONTROLLER)
                check_wake(at++, &w.core.doorbells->service_word[slot], 2);
        }
        CHECK_EQ(futexes, at);
        CHECK(writes == 2 && fds[0] == FIRST_FD && fds[1] == FIRST_FD + 1);
        for (int p = 0; p < 3; p++)
            CHECK_EQ(atomic_load(&w.core.doorbells->processor[p].asleep), p == 2);
    }
}

/* ------------------------------------------------------------------ two who ring */
static int late;
static void ring_data(void *unused) { late = unused == NULL ? mpb_ring_data_handler(&w.core, SELF) : -2; }
static void ring_one(void *unused) { (void)unused, mpb_ring_handler(&w.core, 2); }
static void ring_processor(void *unused) { (void)unused, mpb_ring_processor(&w.core, 1, SELF); }
static void ring_space(void *unused) { (void)unused, mpb_ring_want_space(&w.core, MPB_PLANE_DATA, 0, SELF); }
static void notify(void *unused) { (void)unused, mpb_notify_partition(&w.core, 3, SELF); }

static void all_sleep(void)
{
    begin();
    mpb_handler_announce(&w.core, 1);
    mpb_handler_announce(&w.core, 2);
    atomic_store(&w.core.doorbells->processor[1].asleep, 1);
    mpb_want_space(&w.core, MPB_PLANE_DATA, 0);
    mpb_want_space(&w.core, MPB_PLANE_DATA, 1);
    mpb_store_relaxed(&w.core.partitions[3].ack_watchers, 0);
    mpb_watch_partition(&w.core, 3, 0);
    mpb_watch_acknowledged(&w.core, 3, 0);
}

/* Each of these wakes and tells as often when one stands still at any instruction while another does the same. */
static void test_each_is_woken_once(void)
{
    static const struct {
        step_op *op;
        int futexes, writes, notices;
    } OPS[] = {{ring_one, 1, 0, 0}, {ring_processor, 0, 1, 0}, {ring_space, 0, 2, 0}, {notify, 0, 0, 1}};
    static struct frozen frozen;
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++) {
        trail_forget(&frozen.trail);
        for (long at = 1; STEPPING; at++) {
            all_sleep();
            freeze_at(&frozen, OPS[i].op, NULL, at);
            bool ended = frozen.ended;
            OPS[i].op(NULL);
            thaw(&frozen);
            CHECK_EQ(futexes, OPS[i].futexes);
            CHECK_EQ(writes, OPS[i].writes);
            CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), OPS[i].notices);
            if (ended)
                break;
        }
    }
    trail_forget(&frozen.trail);
    for (long at = 1; STEPPING; at++) { /* two sleep, and three ring */
        all_sleep();
        freeze_at(&frozen, ring_data, NULL, at);
        bool ended = frozen.ended;
        int one = mpb_ring_data_handler(&w.core, SELF), other = mpb_ring_data_handler(&w.core, SELF);
        thaw(&frozen);
        CHECK_EQ(one + other + late, 1 + 2 - 1);
        CHECK(one != other && one != late && other != late);
        CHECK_EQ(futexes, 2);
        if (ended)
            break;
    }
}

int main(void)
{
    world_open(&w, &small_plan);
    test_how_long_is_waited();
    test_a_service_that_waits();
    test_a_service_is_woken_where_it_sleeps();
    test_handlers_are_woken();
    test_who_waits_for_room();
    test_descriptors();
    test_which_partition_moved();
    test_two_kinds_of_watchers();
    test_everybody();
    stepping_install();
    test_each_is_woken_once();
    world_close(&w);
    printf("doorbells, call by call: %lu checks\n", checks_made);
    return 0;
}
