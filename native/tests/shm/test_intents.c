/* The partition in which a request's append was under way when its handler died (append rule 2): the row whose intent names
 * the entry and what it is filled with, of an append alone; rows that were never in use are not looked at. */
#include <string.h>
#include "tests/stepping/check.h"
#include "shm/intents.h"

enum { ROWS = 5, ENTRY = 2, FILL = 77 };

static struct mpb_segment_header header;
static struct mpb_partition partitions[ROWS + 1]; /* one that is no row */
static struct mpb_entry entries[4];
static struct mpb_core core = {
    .header = &header, .partitions = partitions, .partition_count = ROWS, .entries = entries};

static void intend(uint32_t row, uint64_t kind, uint32_t entry, uint64_t fill_number)
{
    partitions[row].intent.entry = entry;
    partitions[row].intent.fill_number = fill_number;
    mpb_store_release(&partitions[row].intent.word, kind << 24 | 0xabcdef);
}

static void begin(uint32_t high)
{
    memset((void *)partitions, 0, sizeof partitions);
    mpb_store_release(&header.partitions_high, high);
    for (uint32_t i = 0; i < 4; i++)
        entries[i].fill_number = FILL + i - ENTRY;
}

int main(void)
{
    static const struct {
        uint64_t kind;
        uint32_t entry;
        uint64_t fill_number;
        bool is_its;
    } INTENTS[] = {{MPB_INTENT_APPEND, ENTRY, FILL, true},      {MPB_INTENT_NONE, ENTRY, FILL, false},
                   {MPB_INTENT_ROLL, ENTRY, FILL, false},       {MPB_INTENT_TRUNCATE, ENTRY, FILL, false},
                   {MPB_INTENT_APPEND, ENTRY + 1, FILL, false}, {MPB_INTENT_APPEND, ENTRY, FILL + 1, false},
                   {MPB_INTENT_APPEND, ENTRY, FILL - 1, false}, {MPB_INTENT_APPEND, 0, 0, false}};
    for (size_t i = 0; i < sizeof INTENTS / sizeof *INTENTS; i++)
        for (uint32_t row = 0; row <= ROWS; row++)
            for (uint32_t high = 0; high <= ROWS + 1; high++) {
                begin(high);
                if (row != 0)
                    intend(0, MPB_INTENT_APPEND, ENTRY - 1, FILL - 1); /* another one's */
                intend(row, INTENTS[i].kind, INTENTS[i].entry, INTENTS[i].fill_number);
                bool is_found = INTENTS[i].is_its && row < high && row < ROWS;
                CHECK_EQ(mpb_intended_row(&core, ENTRY), is_found ? (int64_t)row : -1);
            }
    printf("intents: %lu checks\n", checks_made);
    return 0;
}
