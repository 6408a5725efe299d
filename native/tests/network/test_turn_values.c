/* A processor's turn value by value, without sockets: its lists, what is served and what room there is, the events that
 * Python gets. Fresh memory is not empty here, as it is not in a process that has run for a while. */
#include "tests/request/request_drama.h"
#include "network/network_turn.h"
#include "record/wire.h"
#include "tests/stepping/starved.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct drama d;
static struct mpb_turn turn;

static void open_turn(void)
{
    drama_open(&d);
    memset((void *)&turn, 0xa5, sizeof turn);
    CHECK_EQ(mpb_turn_open(&turn, &d.p[0], epoll_create1(0)), 0);
    turn.max_request_bytes = 1 << 20;
}

static void close_turn(void)
{
    close(turn.epoll);
    mpb_turn_close(&turn);
    drama_close(&d);
}

static void expect(uint32_t at, enum mpb_event_kind kind, const struct mpb_connection *c, int64_t first, int64_t second)
{
    CHECK(at < turn.event_count);
    const struct mpb_event *event = &turn.events[at];
    CHECK(event->connection == c);
    CHECK_EQ(event->kind, kind);
    CHECK_EQ(event->first, first);
    CHECK_EQ(event->second, second);
}

/* ------------------------------------------------------------------ a turn's life */
/* One life of a turn that used every list it has. */
static void live_once(void)
{
    struct mpb_connection c[40];
    const uint8_t frame[8] = {0};
    CHECK_EQ(mpb_turn_open(&turn, &d.p[0], -1), 0);
    for (uint32_t i = 0; i < 40; i++) {
        c[i] = (struct mpb_connection){.fd = (int)(20 + i), .number = i, .generation = 1};
        CHECK_EQ(mpb_turn_add(&turn, &c[i]), 0);
        mpb_turn_schedule(&turn, &c[i]);
    }
    CHECK(!mpb_turn_serves(&turn, &c[0], frame));
    mpb_turn_receive(&turn, false);
    mpb_turn_close(&turn);
    CHECK(turn.scratch == NULL && turn.events == NULL && turn.event_count == 0 && turn.by_fd.at == NULL);
    CHECK(turn.by_number.at == NULL && turn.scheduled.at == NULL && turn.current.at == NULL);
    CHECK(turn.holding.at == NULL && turn.by_fd.capacity == 0);
    mpb_turn_close(&turn); /* once more: nothing is left */
}

/* The allocator keeps some of what it gets back, but not more every time. */
static void test_all_memory_is_given_back(void)
{
    size_t used = 0;
    drama_open(&d);
    for (int life = 0; life < 60; life++) {
        live_once();
        if (life == 30)
            used = mallinfo2().uordblks;
    }
    CHECK_EQ(mallinfo2().uordblks, used);
    drama_close(&d);
}

static void test_a_new_turn(void)
{
    uint8_t frame[8] = {0};
    struct mpb_lane lane = {0};
    open_turn();
    CHECK(turn.port == &d.p[0] && turn.event_count == 0 && turn.by_fd.count == 0 && turn.scheduled.count == 0);
    CHECK(!turn.arrivals.wanted && !turn.classifies && turn.queued_bytes_limit == 0 && turn.plane == 0);
    CHECK(turn.awake_since_ns != 0 && turn.awake_since_ns <= mpb_trace_clock_ns());
    for (int key = 0; key < MPB_API_KEYS; key++)
        for (int version = -1; version < 2; version++) {
            mpb_put_be16(frame, (uint16_t)key);
            mpb_put_be16(frame + 2, (uint16_t)version);
            CHECK(!mpb_turn_serves(&turn, NULL, frame)); /* nothing is served that nobody named */
        }
    CHECK_EQ(turn.event_count, 3 * MPB_API_KEYS);
    for (uint32_t i = 0; i < turn.event_count; i++) /* every one, in order, however many there are */
        expect(i, MPB_EVENT_UNSUPPORTED, NULL, i / 3, (int64_t)(i % 3) - 1);
    close_turn();
    drama_open(&d);
    d.p[0].lane = &lane;
    CHECK_EQ(mpb_turn_open(&turn, &d.p[0], 4711), 0);
    CHECK(turn.arrivals.wanted && turn.epoll == 4711);
    d.p[0].lane = NULL;
    mpb_turn_close(&turn);
    drama_close(&d);
}

/* ------------------------------------------------------------------ lists */
static void test_connections_have_places(void)
{
    static const struct {
        int fd;
        uint32_t number;
    } ROWS[] = {{9, 0}, {0, 9}, {17, 16}, {16, 17}, {200, 1}, {1, 300}, {90, 3000}};
    enum { COUNT = sizeof ROWS / sizeof *ROWS };
    struct mpb_connection c[COUNT], none = {.fd = -1};
    open_turn();
    CHECK_EQ(mpb_turn_add(&turn, &none), -1);
    for (uint32_t i = 0; i < COUNT; i++) {
        c[i] = (struct mpb_connection){.fd = ROWS[i].fd, .number = ROWS[i].number, .generation = 1};
        CHECK_EQ(mpb_turn_add(&turn, &c[i]), 0);
        CHECK_EQ(turn.by_fd.count, i + 1);
        CHECK(turn.scheduled.capacity > i && turn.current.capacity > i && turn.holding.capacity > i);
        uint32_t fds = 0, numbers = 0;
        for (uint32_t at = 0; at < turn.by_fd.capacity; at++)
            fds += turn.by_fd.at[at] != NULL;
        for (uint32_t at = 0; at < turn.by_number.capacity; at++)
            numbers += turn.by_number.at[at] != NULL;
        CHECK(fds == i + 1 && numbers == i + 1); /* no place of another one's memory */
        for (uint32_t known = 0; known <= i; known++)
            CHECK(turn.by_fd.at[ROWS[known].fd] == &c[known] && turn.by_number.at[ROWS[known].number] == &c[known]);
    }
    CHECK(turn.by_fd.capacity > 200 && turn.by_number.capacity > 3000);
    close_turn();
}

/* One of five goes, which is scheduled, holds answers and has events: the others stay as they are. */
static void test_one_that_goes(void)
{
    struct mpb_connection c[5], stranger = {.fd = 12, .number = 12, .generation = 1};
    uint8_t frame[8] = {0, 9};
    open_turn();
    for (uint32_t i = 0; i < 5; i++) {
        c[i] = (struct mpb_connection){.fd = (int)(10 + i), .number = i, .generation = 1};
        CHECK_EQ(mpb_turn_add(&turn, &c[i]), 0);
        mpb_turn_schedule(&turn, &c[i]);
        mpb_turn_schedule(&turn, &c[i]); /* once */
        turn.holding.at[turn.holding.count++] = &c[i];
        turn.current.at[turn.current.count++] = &c[i];
        for (uint32_t n = 0; n < 3; n++) {
            frame[3] = (uint8_t)n;
            CHECK(!mpb_turn_serves(&turn, &c[i == 0 && n == 0 ? 2 : i], frame));
        }
    }
    CHECK_EQ(turn.scheduled.count, 5);
    mpb_turn_forget(&turn, &stranger); /* another one's descriptor: nobody goes */
    stranger.fd = -1;
    mpb_turn_forget(&turn, &stranger);
    stranger.fd = 100000;
    mpb_turn_forget(&turn, &stranger);
    CHECK(turn.by_fd.count == 5 && turn.event_count == 15 && !stranger.closed);
    turn.events[turn.event_count].connection = &c[2]; /* of an event that was told long ago */
    for (int twice = 0; twice < 2; twice++) {
        mpb_turn_forget(&turn, &c[2]);
        CHECK(c[2].closed && turn.by_fd.at[12] == NULL && turn.by_number.at[2] == NULL);
        CHECK_EQ(turn.by_fd.count, 4);
        CHECK_EQ(turn.event_count, 11);
    }
    const struct mpb_connections *lists[] = {&turn.scheduled, &turn.current, &turn.holding};
    static const uint32_t LEFT[] = {0, 1, 3, 4};
    for (uint32_t list = 0; list < 3; list++) {
        CHECK_EQ(lists[list]->count, 4);
        for (uint32_t i = 0; i < 4; i++)
            CHECK(lists[list]->at[i] == &c[LEFT[i]]);
    }
    uint32_t events[5] = {0};
    for (uint32_t i = 0; i < turn.event_count; i++)
        events[turn.events[i].connection - c]++;
    CHECK(events[0] == 2 && events[1] == 3 && events[2] == 0 && events[3] == 3 && events[4] == 3);
    struct mpb_connection zero = {.fd = 0, .number = 9, .generation = 1}; /* the lowest descriptor is one as well */
    CHECK_EQ(mpb_turn_add(&turn, &zero), 0);
    CHECK(turn.by_fd.count == 5 && turn.by_fd.at[0] == &zero);
    mpb_turn_forget(&turn, &zero);
    CHECK(turn.by_fd.count == 4 && turn.by_fd.at[0] == NULL && zero.closed);
    uint32_t places = turn.by_fd.capacity; /* behind the last place there is nothing, whatever stands there */
    turn.by_fd.at = realloc(turn.by_fd.at, (places + 1) * sizeof *turn.by_fd.at);
    CHECK(turn.by_fd.at != NULL);
    turn.by_fd.at[places] = &stranger;
    stranger.fd = (int)places;
    mpb_turn_forget(&turn, &stranger);
    CHECK(turn.by_fd.count == 4 && !stranger.closed);
    mpb_turn_schedule(&turn, &c[2]); /* it is gone */
    c[0].scheduled = false;
    c[0].waits = true;
    mpb_turn_schedule(&turn, &c[0]);
    CHECK_EQ(turn.scheduled.count, 4);
    close_turn();
}

/* Nobody is known by half, and a lost event is told of. */
static void test_no_memory(void)
{
    if (!CAN_STARVE)
        return;
    struct mpb_connection far = {.fd = 5, .number = 1u << 29, .generation = 1}, high = {.fd = 1 << 29};
    const uint8_t frame[8] = {0};
    open_turn();
    starve();
    int number = mpb_turn_add(&turn, &far), descriptor = mpb_turn_add(&turn, &high);
    turn.event_count = turn.event_capacity = 1u << 28;
    bool served = mpb_turn_serves(&turn, &far, frame);
    feed();
    CHECK(number < 0 && descriptor < 0 && turn.by_fd.count == 0);
    CHECK(!served && turn.out_of_memory && turn.event_count == 1u << 28);
    turn.event_count = turn.event_capacity = 0;
    close_turn();
}

/* ------------------------------------------------------------------ requests */
static void test_what_is_served(void)
{
    static const struct {
        int key, version;
        bool served;
    } ROWS[] = {{3, 1, false},   {3, 2, true},    {3, 5, true},   {3, 6, false}, {3, -1, false}, {4, 0, false},
                {5, 7, true},    {5, 6, false},   {5, 8, false},  {0, 0, true},  {0, 1, false},  {127, 0, true},
                {127, 1, false}, {128, 0, false}, {-1, 0, false}, {18, 0, true}, {18, 99, true}, {18, -1, true}};
    uint8_t frame[8];
    struct mpb_connection c = {.fd = 5};
    open_turn();
    turn.apis[3] = (struct mpb_api_range){2, 5};
    turn.apis[5] = (struct mpb_api_range){7, 7};
    turn.apis[0] = turn.apis[127] = (struct mpb_api_range){0, 0};
    turn.apis[18] = (struct mpb_api_range){0, 4};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        mpb_put_be16(frame, (uint16_t)ROWS[i].key);
        mpb_put_be16(frame + 2, (uint16_t)ROWS[i].version);
        turn.event_count = 0;
        CHECK_EQ(mpb_turn_serves(&turn, &c, frame), ROWS[i].served);
        CHECK_EQ(turn.event_count, !ROWS[i].served);
        if (!ROWS[i].served)
            expect(0, MPB_EVENT_UNSUPPORTED, &c, ROWS[i].key, ROWS[i].version);
    }
    turn.apis[18] = (struct mpb_api_range){0, -1}; /* not even that */
    mpb_put_be16(frame, 18);
    CHECK(!mpb_turn_serves(&turn, &c, frame));
    close_turn();
}

static void test_the_bytes_of_all_processors(void)
{
    static const struct {
        int64_t limit;
        uint64_t mine, theirs, nobodys;
        bool over;
    } ROWS[] = {{-1, 9, 9, 0, false}, {0, 9, 9, 0, false},  {1, 0, 0, 0, false},  {1, 1, 0, 0, true},
                {10, 9, 0, 0, false}, {10, 10, 0, 0, true}, {10, 5, 4, 0, false}, {10, 5, 5, 0, true},
                {10, 0, 10, 0, true}, {10, 5, 4, 9, false}};
    open_turn();
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const uint64_t bytes[] = {ROWS[i].mine, ROWS[i].theirs, ROWS[i].nobodys};
        for (uint32_t p = 0; p < 3; p++)
            mpb_store_relaxed(&d.w.core.counters[MPB_SLOT_PROCESSORS + p].value[MPB_C_QUEUED_BYTES], bytes[p]);
        turn.queued_bytes_limit = ROWS[i].limit;
        CHECK_EQ(mpb_turn_over_limit(&turn), ROWS[i].over);
    }
    for (uint32_t p = 0; p < 3; p++)
        mpb_store_relaxed(&d.w.core.counters[MPB_SLOT_PROCESSORS + p].value[MPB_C_QUEUED_BYTES], 0);
    close_turn();
}

/* What a connection looks like behind the frame that the broker has, or has not. */
static void test_what_became_of_a_frame(void)
{
    static const struct {
        int64_t code;
        bool taken;
        int event;
        int64_t first;
    } ROWS[] = {{0, true, -1, 0},
                {7, true, -1, 0},
                {MPB_NO_ENTRY, false, MPB_EVENT_NO_ROOM, MPB_NO_ENTRY},
                {MPB_NO_SPACE, false, MPB_EVENT_NO_ROOM, MPB_NO_SPACE},
                {MPB_POISON, false, MPB_EVENT_POISON, 0},
                {MPB_PLANE_FULL, true, MPB_EVENT_PARKED, 5}};
    const uint8_t frame[8] = {0, 3};
    struct mpb_submission s = {.frame = frame, .length = 8, .frame_done_ns = 70, .client_hash = 11};
    struct mpb_lane lane = {0};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int traced = 0; traced < 2; traced++) {
            struct mpb_connection c = {.fd = 5,
                                       .first_ns = 1,
                                       .later_ns = 2,
                                       .first_arrival_ns = 3,
                                       .later_arrival_ns = 4,
                                       .last_active_ns = 5,
                                       .frame_started_ns = 6,
                                       .requests = 40};
            bool taken = ROWS[i].taken;
            uint32_t introduced = traced && taken;
            open_turn();
            d.p[0].lane = traced ? &lane : NULL;
            d.p[0].parked = 5;
            CHECK_EQ(mpb_turn_submitted(&turn, &c, &s, ROWS[i].code), taken);
            CHECK_EQ(c.first_ns, taken ? 2 : 1);
            CHECK_EQ(c.first_arrival_ns, taken ? 4 : 3);
            CHECK_EQ(c.last_active_ns, taken ? 70 : 5);
            CHECK_EQ(c.frame_started_ns, taken ? 0 : 6);
            CHECK_EQ(c.in_flight, taken);
            CHECK_EQ(c.requests, 40 + taken);
            CHECK_EQ(turn.event_count, introduced + (ROWS[i].event >= 0));
            if (introduced)
                expect(0, MPB_EVENT_INTRODUCED, &c, 11, 0);
            if (ROWS[i].event >= 0)
                expect(introduced, (enum mpb_event_kind)ROWS[i].event, &c, ROWS[i].first, 0);
            d.p[0].lane = NULL;
            mpb_connection_close(&c);
            close_turn();
        }
}

/* A frame in the buffer, through the turn, into an entry: which plane it waits in, and what its entry says of it. */
static void test_which_plane_a_request_waits_in(void)
{
    static const uint16_t BETWEEN_BROKERS[] = {4, 5, 6, 7, 56, 67};
    for (uint16_t key = 0; key < MPB_API_KEYS; key++)
        for (uint32_t way = 0; way < 4; way++) { /* classifies or not; a listener of data, or of control requests */
            bool between = false, classifies = way & 1;
            uint8_t bytes[4 + 12] = {0, 0, 0, 12};
            struct mpb_connection c = {.fd = 5, .number = 2, .generation = 3};
            for (size_t i = 0; i < sizeof BETWEEN_BROKERS / sizeof *BETWEEN_BROKERS; i++)
                between |= BETWEEN_BROKERS[i] == key;
            open_turn();
            turn.classifies = classifies;
            turn.plane = way >> 1;
            turn.listener = 6;
            turn.apis[key] = (struct mpb_api_range){0, 0};
            mpb_put_be16(bytes + 4, key);
            CHECK_EQ(mpb_turn_add(&turn, &c), 0);
            CHECK(mpb_connection_preload(&c, bytes, sizeof bytes, 9));
            CHECK(mpb_turn_submit(&turn, &c));
            CHECK(mpb_connection_buffered(&c) == 0 && c.in_flight && c.frame_started_ns == 0);
            int64_t entry = mpb_handler_claim(&d.h[0], false);
            CHECK(entry >= 0);
            const struct mpb_entry *e = &d.w.core.entries[entry];
            CHECK_EQ(e->plane, (classifies && between) || turn.plane == 1);
            CHECK(e->listener == 6 && e->connection == 2 && e->connection_generation == 3 && e->payload_length == 12);
            CHECK(!mpb_turn_submit(&turn, &c)); /* nothing is there any more */
            mpb_connection_close(&c);
            close_turn();
        }
}

/* ------------------------------------------------------------------ sockets */
/* The bell is emptied, another descriptor of the processor is Python's; what is broken is no interruption. */
static void test_descriptors_that_are_no_connection(void)
{
    uint64_t rings;
    open_turn();
    int bell = eventfd(3, EFD_NONBLOCK), other = eventfd(1, EFD_NONBLOCK), far = fcntl(other, F_DUPFD_CLOEXEC, 500);
    d.w.core.eventfds[0] = bell;
    const int fds[] = {bell, other, far};
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_ADD, fds[i], &event), 0);
    }
    errno = EINTR; /* of an earlier call */
    CHECK(mpb_turn_poll(&turn, 0));
    CHECK(read(bell, &rings, sizeof rings) < 0 && errno == EAGAIN);
    CHECK_EQ(turn.event_count, 2);
    int64_t seen = turn.events[0].first + turn.events[1].first;
    CHECK_EQ(seen, other + far);
    for (uint32_t i = 0; i < 2; i++)
        expect(i, MPB_EVENT_DESCRIPTOR, NULL, turn.events[i].first, 0);
    struct epoll_event silent = {.events = EPOLLIN, .data.fd = bell}; /* a bell that somebody else has emptied */
    CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_MOD, other, &silent), 0);
    CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_DEL, far, NULL), 0);
    CHECK(mpb_turn_poll(&turn, 0));
    CHECK_EQ(turn.event_count, 2);
    d.w.core.eventfds[0] = -1;
    close(bell);
    close(other);
    close(far);
    int epoll = turn.epoll;
    turn.epoll = -1;
    errno = EINTR;
    CHECK(mpb_turn_poll(&turn, 0)); /* not a descriptor: that is no signal */
    turn.epoll = epoll;
    close_turn();
}

int main(void)
{
    mallopt(M_PERTURB, 0x5a);
    world_open(&d.w, &small_plan);
    test_all_memory_is_given_back();
    test_a_new_turn();
    test_connections_have_places();
    test_one_that_goes();
    test_what_is_served();
    test_the_bytes_of_all_processors();
    test_what_became_of_a_frame();
    test_which_plane_a_request_waits_in();
    test_descriptors_that_are_no_connection();
    test_no_memory();
    world_close(&d.w);
    printf("turn values: %lu checks\n", checks_made);
    return 0;
}
