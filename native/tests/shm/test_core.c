/* What a process checks before it trusts shared memory (mpb_core_attach): at each bound what just fits, and one more.
 * The segments say that they are larger than they are: nothing but the headers and the ring rows is looked at. */
#include "tests/shm/shm_world.h"

#define CLAIMED_BYTES ((size_t)1 << 40)

static struct world w;
static struct mpb_core core;
static uint8_t first_header[sizeof(struct mpb_segment_header)];

static struct mpb_region *region_of(const char *name)
{
    struct mpb_segment_header *headers[2] = {(void *)w.base, (void *)(w.base + w.core_bytes)};
    for (int h = 0; h < 2; h++)
        for (uint32_t i = 0; i < headers[h]->region_count; i++)
            if (strncmp(headers[h]->regions[i].name, name, sizeof headers[h]->regions[i].name) == 0)
                return &headers[h]->regions[i];
    CHECK(!"a region of this name");
    return NULL;
}

static int attach(void)
{
    uint8_t *page = w.base + w.core_bytes;
    return mpb_core_attach(&core, w.base, CLAIMED_BYTES, page, CLAIMED_BYTES, page + w.page_bytes, 1 << 20);
}

/* Room for the largest plan that there may be. */
static struct mpb_segment_header *ample(void)
{
    struct mpb_segment_header *header = (void *)w.base;
    memcpy(w.base, first_header, sizeof first_header);
    header->coordinator = 0;
    header->arena_processor_bytes = header->arena_handler_bytes = 0;
    header->arena_bytes = 1 << 20;
    region_of("entries")->count = 100000;
    region_of("apis")->count = (MPB_MAX_PROCESSORS + 1) * MPB_API_ROWS;
    region_of("addresses")->count = (MPB_MAX_PROCESSORS + 1) * MPB_ADDRESS_ROWS;
    region_of("extents")->count = (MPB_MAX_HANDLERS + 1) * MPB_EXTENTS_PER_HANDLER;
    CHECK_EQ(attach(), 0);
    return header;
}

enum plan_field { PROCESSORS, HANDLERS, COORDINATOR, ENTRIES_EACH, PROCESSOR_BYTES, HANDLER_BYTES, ARENA_BYTES };

static void set_field(struct mpb_segment_header *header, enum plan_field field, uint64_t value)
{
    switch (field) {
    case PROCESSORS:
        header->processor_count = (uint32_t)value;
        break;
    case HANDLERS:
        header->handler_count = (uint32_t)value;
        break;
    case COORDINATOR:
        header->coordinator = (uint32_t)value;
        break;
    case ENTRIES_EACH:
        header->entries_per_processor = (uint32_t)value;
        break;
    case PROCESSOR_BYTES:
        header->arena_processor_bytes = value;
        break;
    case HANDLER_BYTES:
        header->arena_handler_bytes = value;
        break;
    case ARENA_BYTES:
        header->arena_bytes = value;
        break;
    }
}

/* Two processors and four handlers, but for what a row says. */
static void test_numbers_of_the_plan(void)
{
    static const struct {
        enum plan_field field;
        uint64_t value;
        int status;
    } ROWS[] = {
        {PROCESSORS, MPB_MAX_PROCESSORS, 0},
        {PROCESSORS, MPB_MAX_PROCESSORS + 1, -5},
        {HANDLERS, MPB_MAX_HANDLERS, 0},
        {HANDLERS, MPB_MAX_HANDLERS + 1, -5},
        {COORDINATOR, 1, -5}, /* it is the last handler, or there is none */
        {COORDINATOR, 3, -5},
        {COORDINATOR, 4, 0},
        {COORDINATOR, 5, -5},
        {ENTRIES_EACH, 50000, 0},
        {ENTRIES_EACH, 50001, -5},
        {ENTRIES_EACH, 0x80000000u, -5}, /* times two: 0 in 32 bits */
        {PROCESSOR_BYTES, 1 << 19, 0},
        {PROCESSOR_BYTES, (1 << 19) + 1, -5},
        {HANDLER_BYTES, 1 << 18, 0},
        {HANDLER_BYTES, (1 << 18) + 1, -5},
        {ARENA_BYTES, (1 << 20) + 1, -3}, /* more than there is */
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        set_field(ample(), ROWS[i].field, ROWS[i].value);
        CHECK_EQ(attach(), ROWS[i].status);
    }
    struct mpb_segment_header *header = ample();
    header->arena_processor_bytes = 1 << 18; /* both parts together */
    header->arena_handler_bytes = 1 << 17;
    CHECK_EQ(attach(), 0);
    header->arena_handler_bytes++;
    CHECK_EQ(attach(), -5);
}

static void test_rows_of_the_regions(void)
{
    static const struct {
        const char *name;
        uint64_t count;
        int status;
    } ROWS[] = {
        {"entries", 2 * 6, 0},
        {"entries", 2 * 6 - 1, -5},
        {"entries", (1 << MPB_INDEX_BITS) - 2, 0}, /* a hint has so many bits for the row */
        {"entries", (1 << MPB_INDEX_BITS) - 1, -5},
        {"commands", MPB_MAX_COMMANDS, 0},
        {"commands", MPB_MAX_COMMANDS + 1, -5},
        {"apis", 2 * MPB_API_ROWS, 0},
        {"apis", 2 * MPB_API_ROWS - 1, -5},
        {"addresses", 2 * MPB_ADDRESS_ROWS, 0},
        {"addresses", 2 * MPB_ADDRESS_ROWS - 1, -5},
        {"extents", 4 * MPB_EXTENTS_PER_HANDLER, 0},
        {"extents", 4 * MPB_EXTENTS_PER_HANDLER - 1, -5},
        {"session_owners", 16, 0}, /* as many as there are units */
        {"session_owners", 15, -5},
        {"assignments", 7, -5}, /* eight partitions, or none in a broker that is alone */
        {"assignments", 8, 0},
        {"replicas", 7, -5},
        {"replicas", 8, 0},
        {"processes", CLAIMED_BYTES, -3},
        {"counters", CLAIMED_BYTES, -3},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        ample();
        struct mpb_region *region = region_of(ROWS[i].name);
        uint64_t before = region->count;
        region->count = ROWS[i].count;
        CHECK_EQ(attach(), ROWS[i].status);
        region->count = before;
    }
}

/* A ring's rows are among all rings' rows. */
static void test_rings(void)
{
    uint64_t slots = region_of("slots")->count;
    const struct {
        uint64_t first, capacity;
        int status;
    } rows[] = {{0, slots, 0},  {0, slots + 1, -5}, {slots - 1, 1, 0},   {slots - 1, 2, -5}, {slots, 0, 0},
                {slots, 1, -5}, {slots + 1, 0, -5}, {UINT64_MAX, 2, -5}, {1, UINT64_MAX, -5}};
    static const uint32_t RINGS[] = {0, 1, MPB_MAX_RINGS - 1};
    ample();
    memset((void *)w.core.rings, 0, MPB_MAX_RINGS * sizeof *w.core.rings);
    w.core.rings[MPB_MAX_RINGS].slots_first = UINT64_MAX; /* no ring any more */
    for (size_t r = 0; r < sizeof RINGS / sizeof *RINGS; r++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct mpb_ring_ctl *ring = &w.core.rings[RINGS[r]];
            ring->slots_first = rows[i].first;
            ring->capacity = rows[i].capacity;
            CHECK_EQ(attach(), rows[i].status);
            ring->slots_first = ring->capacity = 0;
        }
}

/* A segment's end, a row's size, what is no segment of ours or an older one. */
static void test_segments(void)
{
    struct mpb_segment_header *header = ample();
    uint8_t *page = w.base + w.core_bytes, *arena = page + w.page_bytes;
    struct mpb_region *last = region_of("replicas"), *entries = region_of("entries"), whole = *entries;
    CHECK_EQ(mpb_core_attach(&core, w.base, sizeof *header - 1, page, CLAIMED_BYTES, arena, 1 << 20), -1);
    CHECK_EQ(mpb_core_attach(&core, w.base, CLAIMED_BYTES, page, sizeof *header - 1, arena, 1 << 20), -1);
    CHECK_EQ(mpb_core_attach(&core, page, CLAIMED_BYTES, page, CLAIMED_BYTES, arena, 1 << 20), -1);
    CHECK_EQ(mpb_core_attach(&core, w.base, CLAIMED_BYTES, w.base, CLAIMED_BYTES, arena, 1 << 20), -1);
    header->version++;
    CHECK_EQ(attach(), -2);
    header->version--;
    entries->stride++;
    CHECK_EQ(attach(), -4);
    *entries = whole;
    entries->offset = CLAIMED_BYTES - entries->count * entries->stride; /* its last row ends with the segment */
    CHECK_EQ(attach(), 0);
    CHECK_EQ((uint8_t *)core.entries - w.base, entries->offset);
    entries->count++;
    CHECK_EQ(attach(), -3);
    entries->count = 0;
    entries->offset = CLAIMED_BYTES;
    CHECK_EQ(attach(), -5); /* within, and too few */
    entries->offset = CLAIMED_BYTES + 1;
    CHECK_EQ(attach(), -3);
    *entries = whole;
    header->region_count--; /* the last one's name is not read any more */
    CHECK_EQ(last - header->regions, header->region_count);
    CHECK_EQ(attach(), -3);
    header->region_count = UINT32_MAX; /* no more than there is room for */
    CHECK_EQ(attach(), 0);
    struct mpb_region behind = *last;
    last->name[0] = 'R';
    CHECK_EQ(attach(), -3);
    memcpy((uint8_t *)header + offsetof(struct mpb_segment_header, topics_high), &behind, sizeof behind);
    CHECK_EQ(attach(), -3);
}

/* Everything where the header says, in memory that was something else before. */
static void test_what_is_filled_in(void)
{
    uint8_t *page = w.base + w.core_bytes;
    uint32_t one = 1;
    const struct {
        const char *name;
        const void *at;
        const uint32_t *count;
    } rows[] = {
        {"topics", &core.topics, &core.topic_count},
        {"journal", &core.journal, &core.journal_count},
        {"partitions", &core.partitions, &core.partition_count},
        {"producers", &core.producers, &core.producer_count},
        {"entries", &core.entries, &core.entry_count},
        {"slots", &core.slots, &core.slot_count},
        {"commands", &core.commands, &core.command_count},
        {"extents", &core.extents, &core.extent_count},
        {"doorbells", &core.doorbells, &one},
        {"killers", &core.killers, NULL},
        {"inject", &core.injects, NULL},
        {"apis", &core.apis, &core.api_count},
        {"groups", &core.groups, &core.group_count},
        {"members", &core.members, &core.member_count},
        {"addresses", &core.addresses, &core.address_count},
        {"fetch_sessions", &core.fetch_sessions, &core.fetch_session_count},
        {"session_units", &core.session_units, &core.session_unit_count},
        {"session_owners", &core.session_owners, NULL},
        {"assignments", &core.assignments, &core.assignment_count},
        {"brokers", &core.brokers, &core.broker_count},
        {"replicas", &core.replicas, &core.replica_count},
        {"processes", &core.processes, NULL},
        {"rings", &core.rings, NULL},
        {"counters", &core.counters, NULL},
    };
    ample();
    memset(&core, 0x5a, sizeof core);
    CHECK_EQ(attach(), 0);
    CHECK(core.header == (void *)w.base && core.page_header == (void *)page && core.arena == page + w.page_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mpb_region *region = region_of(rows[i].name);
        uint8_t *found;
        memcpy(&found, rows[i].at, sizeof found);
        CHECK_EQ(found - ((uint8_t *)region > page ? page : w.base), region->offset);
        CHECK(rows[i].count == NULL || *rows[i].count == region->count);
    }
    for (int i = 0; i < MPB_MAX_PROCESSORS; i++)
        CHECK_EQ(core.eventfds[i], -1);
    memset(&core, 0x5a, sizeof core);
    CHECK_EQ(mpb_core_attach(&core, w.base, sizeof *core.header, page, CLAIMED_BYTES, page, 1 << 20), -3);
    CHECK(core.topics == NULL && core.topic_count == 0); /* nothing is left of what stood there */
}

int main(void)
{
    world_open(&w, &small_plan);
    memcpy(first_header, w.base, sizeof first_header);
    test_numbers_of_the_plan();
    test_rows_of_the_regions();
    test_rings();
    test_segments();
    test_what_is_filled_in();
    world_close(&w);
    printf("core: %lu checks\n", checks_made);
    return 0;
}
