/* The cells of a request's entry at their bounds, what is told beside an error, and whom a leader answers. */
#include "tests/log/append_scenarios.h"

#include "log/replica_role.h"
#include "log/result_cell.h"

static struct fixture f;

enum { ENTRY = 2, CELLS = 3 };

/* The first cell stands in the entry, the others in the arena: those that the entry counts and the arena holds. */
static void bounds(void)
{
    fixture_open(&f);
    struct mpb_entry *entry = &f.core.entries[ENTRY];
    uint64_t fill = fixture_fill(&f, ENTRY, CELLS);
    CHECK(fill != 0 && mpb_entry_fill_number(&f.core, ENTRY) == fill);
    CHECK(mpb_entry_fill_number(&f.core, FIX_ENTRIES - 1) == 0 && mpb_entry_fill_number(&f.core, FIX_ENTRIES) == 0);
    CHECK_EQ(mpb_entry_fill_number(&f.core, MPB_NO_REQUEST), 0);
    CHECK(mpb_cell_find(&f.core, FIX_ENTRIES, 0, 0) == NULL && mpb_cell_find(&f.core, MPB_NO_REQUEST, 0, 0) == NULL);
    CHECK(mpb_cell_find(&f.core, ENTRY, 0, fill) == &entry->cell);
    CHECK(mpb_cell_find(&f.core, ENTRY, 0, fill + 1) == NULL && mpb_cell_find(&f.core, ENTRY, 1, fill - 1) == NULL);
    for (uint32_t cell = 1; cell < CELLS; cell++)
        CHECK((uint8_t *)mpb_cell_find(&f.core, ENTRY, cell, fill) ==
              f.core.arena + entry->cells_offset + (cell - 1) * sizeof(struct mpb_cell));
    CHECK(mpb_cell_find(&f.core, ENTRY, CELLS, fill) == NULL);
    entry->cells_offset = FIX_ARENA - 2 * sizeof(struct mpb_cell);
    CHECK(mpb_cell_find(&f.core, ENTRY, 2, fill) != NULL);
    entry->cells_offset++;
    CHECK(mpb_cell_find(&f.core, ENTRY, 1, fill) != NULL && mpb_cell_find(&f.core, ENTRY, 2, fill) == NULL);
    fixture_close(&f);
}

/* The first result holds; beside an error there are no offsets, and log start where Kafka tells it. */
static void results(void)
{
    static const struct {
        int16_t error;
        bool tells_start;
    } CASES[] = {{0, true}, {MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, true}, {MPB_ERR_NOT_LEADER_OR_FOLLOWER, false}};
    fixture_open(&f);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            const struct mpb_append_result first = {.error = CASES[i].error,
                                                    .base_offset = 7,
                                                    .end_offset = 9,
                                                    .append_time_ms = 11,
                                                    .log_start = 5,
                                                    .leader_epoch = 6};
            struct mpb_append_result second = {.base_offset = 77}, read = {.error = 99, .leader_epoch = 3};
            uint64_t fill = fixture_fill(&f, ENTRY, CELLS);
            bool good = CASES[i].error == 0;
            mpb_cell_fail(&f.core, ENTRY, cell, fill, MPB_ERR_KAFKA_STORAGE_ERROR); /* it is not filled yet */
            CHECK(!mpb_cell_read(&f.core, ENTRY, cell, fill, &read) && read.error == 99 && !read.replayed);
            mpb_cell_fill(&f.core, 4, ENTRY, cell, fill - 1, &second); /* of a request before */
            CHECK(!mpb_cell_read(&f.core, ENTRY, cell, fill, &read));
            mpb_cell_fill(&f.core, 4, ENTRY, cell, fill, &first);
            mpb_cell_fill(&f.core, 5, ENTRY, cell, fill, &second);
            mpb_cell_fail(&f.core, ENTRY, cell, fill + 1, MPB_ERR_KAFKA_STORAGE_ERROR);
            CHECK(mpb_cell_read(&f.core, ENTRY, cell, fill, &read) && read.replayed && read.error == CASES[i].error);
            CHECK_EQ(mpb_cell_find(&f.core, ENTRY, cell, fill)->ordinal, 4);
            CHECK(read.base_offset == (good ? 7 : -1) && read.end_offset == (good ? 9 : -1));
            CHECK(read.append_time_ms == (good ? 11 : -1) && read.log_start == (CASES[i].tells_start ? 5 : -1));
            CHECK_EQ(read.leader_epoch, good ? 6 : 3);
            mpb_cell_fail(&f.core, ENTRY, cell, fill, MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
            CHECK(mpb_cell_read(&f.core, ENTRY, cell, fill, &read));
            CHECK_EQ(read.error, MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
            CHECK(read.base_offset == -1 && read.end_offset == -1 && read.append_time_ms == -1 && read.log_start == -1);
        }
    fixture_close(&f);
}

/* Kafka's answers to a fetch of an epoch that is not the leader's; the first broker may have the id 0, and nobody has -1. */
static void roles(void)
{
    static const struct {
        int32_t epoch, asked;
        int error;
    } CASES[] = {{0, -1, 0},
                 {0, 0, 0},
                 {0, 1, MPB_ERR_UNKNOWN_LEADER_EPOCH},
                 {2, -1, 0},
                 {2, 0, MPB_ERR_FENCED_LEADER_EPOCH},
                 {2, 1, MPB_ERR_FENCED_LEADER_EPOCH},
                 {2, 2, 0},
                 {2, 3, MPB_ERR_UNKNOWN_LEADER_EPOCH}};
    struct mpb_partition_copy copy = {.role = MPB_ROLE_LEADER};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        copy.leader_epoch = CASES[i].epoch;
        CHECK_EQ(mpb_role_refuses(&copy, CASES[i].asked), CASES[i].error);
    }
    copy.role = MPB_ROLE_FOLLOWER;
    CHECK_EQ(mpb_role_refuses(&copy, 2), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    copy.role = MPB_ROLE_NONE;
    CHECK_EQ(mpb_role_refuses(&copy, -1), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    fixture_open(&f);
    struct mpb_partition *row = &f.core.partitions[3];
    f.core.replicas[3].ids[0][0] = 7;
    CHECK_EQ(mpb_replica_place(&f.core, row, &copy, 7), -1); /* a broker alone has no replicas */
    fixture_replicate(&f);
    for (copy.ids_at = 0; copy.ids_at < 4; copy.ids_at++) {
        int32_t *ids = f.core.replicas[3].ids[copy.ids_at & 1];
        for (int place = 0; place < MPB_MAX_REPLICAS; place++)
            ids[place] = place < MPB_MAX_REPLICAS - 1 ? 3 * place + 100 * (copy.ids_at & 1) : -1;
        for (int place = 0; place < MPB_MAX_REPLICAS - 1; place++) {
            CHECK_EQ(mpb_replica_place(&f.core, row, &copy, ids[place]), place);
            CHECK_EQ(mpb_replica_place(&f.core, row, &copy, ids[place] + 1), -1);
        }
        CHECK_EQ(mpb_replica_place(&f.core, row, &copy, -1), -1);
        ids[MPB_MAX_REPLICAS - 1] = 999;
        CHECK_EQ(mpb_replica_place(&f.core, row, &copy, 999), MPB_MAX_REPLICAS - 1);
    }
    copy.ids_at = 0; /* behind its list the other one begins, with this broker */
    CHECK(f.core.replicas[3].ids[1][0] == 100 && mpb_replica_place(&f.core, row, &copy, 100) == -1);
    fixture_close(&f);
}

int main(void)
{
    bounds();
    results();
    roles();
    printf("result_cell: %lu checks\n", checks_made);
    return 0;
}
