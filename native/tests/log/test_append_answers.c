/* What an append answers without writing, or beside it: for which leader epochs, acks and sizes; what is refused before it
 * and what could not be synced behind it, in the answer and in the result cell; and what a busy partition says. */
#include "tests/log/append_scenarios.h"

static struct fixture f;

static const struct batch_spec PLAIN = {.records = 1, .producer_id = -1, .timestamp = 100, .payload = 40, .mark = 'a'};
enum { PLAIN_BYTES = MPB_BATCH_HEADER_BYTES + 40, ENTRY = 2, START = 3 };

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static struct mpb_append_result with_acks(int16_t acks, const struct batch_spec *spec, uint32_t entry)
{
    struct mpb_batch_info info;
    struct mpb_append_request request = fixture_request(spec, &info);
    struct mpb_append_result result;
    request.entry = entry;
    request.acks = acks;
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    return result;
}

static void has_no_offsets(const struct mpb_append_result *result)
{
    CHECK(result->base_offset == -1 && result->end_offset == -1 && result->append_time_ms == -1);
}

/* Nothing of an append before is left in the answer of one that is refused. */
static const struct mpb_append_result DIRTY = {.error = 99,
                                               .duplicate = true,
                                               .replayed = true,
                                               .flush_due = true,
                                               .busy = true,
                                               .unverified = true,
                                               .waits = true,
                                               .base_offset = 7,
                                               .end_offset = 8,
                                               .append_time_ms = 9,
                                               .log_start = 10,
                                               .leader_epoch = 11};

static void begin(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &PLAIN).error, 0);
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, START), 0);
}

/* Log start is told with the errors that Kafka finds in the log; the first answer of a request holds. */
static void refused(void)
{
    static const uint8_t OURS[16] = {7}, WRONG[16] = {8};
    static const struct {
        int error;
        const uint8_t *topic_id;
        int answer;
        int64_t log_start;
    } CASES[] = {
        {MPB_ERR_INVALID_TIMESTAMP, NULL, MPB_ERR_INVALID_TIMESTAMP, START},
        {MPB_ERR_INVALID_RECORD, OURS, MPB_ERR_INVALID_RECORD, START},
        {MPB_ERR_CORRUPT_MESSAGE, OURS, MPB_ERR_CORRUPT_MESSAGE, -1},
        {MPB_ERR_MESSAGE_TOO_LARGE, NULL, MPB_ERR_MESSAGE_TOO_LARGE, -1},
        {MPB_ERR_INVALID_TXN_STATE, NULL, MPB_ERR_INVALID_TXN_STATE, -1},
        {MPB_ERR_NOT_ENOUGH_REPLICAS, NULL, MPB_ERR_NOT_ENOUGH_REPLICAS, -1},
        {MPB_ERR_INVALID_RECORD, WRONG, MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION, -1},
    };
    struct mpb_append_result result, again;
    begin();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct mpb_append_request request = {.entry = ENTRY, .topic_id = CASES[i].topic_id};
        uint64_t fill = fixture_fill(&f, ENTRY, 1);
        result = DIRTY;
        mpb_append_refuse(&f.log, &request, CASES[i].error, &result);
        CHECK_EQ(result.error, CASES[i].answer);
        CHECK_EQ(result.log_start, CASES[i].log_start);
        CHECK(result.leader_epoch == -1 && !result.duplicate && !result.replayed && !result.flush_due);
        CHECK(!result.busy && !result.unverified && !result.waits);
        has_no_offsets(&result);
        again = (struct mpb_append_result){0};
        CHECK(mpb_cell_read(&f.core, ENTRY, 0, fill, &again));
        CHECK(again.error == CASES[i].answer && again.log_start == CASES[i].log_start);
        CHECK_EQ(mpb_cell_find(&f.core, ENTRY, 0, fill)->ordinal, 0);
        mpb_append_refuse(&f.log, &request, MPB_ERR_INVALID_REQUEST, &result);
        CHECK(result.error == CASES[i].answer && result.replayed);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, 0, &PLAIN).error, CASES[i].answer);
    }
    CHECK_EQ(now()->leo, 6);
    const struct mpb_append_request of_none = {.ordinal = 5, .entry = ENTRY};
    result = DIRTY;
    mpb_append_refuse(&f.log, &of_none, MPB_ERR_INVALID_RECORD, &result); /* that has no lock yet */
    CHECK(result.error == MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION && !result.busy && result.log_start == -1);
    fixture_close(&f);
}

/* The records stay; whoever runs the request again is told of the error, too. */
static void not_synced(void)
{
    const struct mpb_append_request request = {.entry = ENTRY};
    struct mpb_append_result result = DIRTY;
    begin();
    fixture_fill(&f, ENTRY, 1);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, 0, &PLAIN).base_offset, 6);
    mpb_append_not_synced(&f.log, &request, MPB_ERR_KAFKA_STORAGE_ERROR, &result);
    CHECK_EQ(result.error, MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(result.log_start == -1 && result.leader_epoch == -1 && !result.waits && !result.flush_due && !result.busy);
    has_no_offsets(&result);
    result = with_acks(-1, &PLAIN, ENTRY);
    CHECK(result.error == MPB_ERR_KAFKA_STORAGE_ERROR && result.replayed && !result.waits);
    has_no_offsets(&result);
    CHECK_EQ(now()->leo, 7);
    fixture_close(&f);
}

/* Nothing is done and nothing is kept: the caller tries again. */
static void busy(void)
{
    struct mpb_batch_info info;
    struct mpb_append_request request = fixture_request(&PLAIN, &info);
    struct mpb_append_result result = DIRTY;
    begin();
    request.entry = ENTRY;
    uint64_t fill = fixture_fill(&f, ENTRY, 1);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK(result.error == MPB_ERR_REQUEST_TIMED_OUT && result.busy && result.log_start == -1 && !result.replayed);
    result = DIRTY;
    mpb_append_refuse(&f.log, &request, MPB_ERR_INVALID_RECORD, &result);
    CHECK(result.error == MPB_ERR_REQUEST_TIMED_OUT && result.busy && result.log_start == -1 && !result.replayed);
    result = DIRTY;
    mpb_append_not_synced(&f.log, &request, MPB_ERR_KAFKA_STORAGE_ERROR, &result);
    CHECK(result.error == MPB_ERR_KAFKA_STORAGE_ERROR && !result.busy);
    has_no_offsets(&result);
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_BUSY), 3);
    CHECK(!mpb_cell_read(&f.core, ENTRY, 0, fill, &result));
    fixture_let_go(&holder);
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK(result.error == 0 && result.base_offset == 6 && !result.busy && !result.replayed);
    fixture_close(&f);
}

/* The agent looks at every partition again and again: where nothing is proposed it asks for no lock. */
static void nothing_proposed(void)
{
    struct mpb_isr_proposal proposal;
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_BUSY), 0);
    fixture_let_go(&holder);
    fixture_close(&f);
}

static int error_of_epoch(int32_t leader_epoch)
{
    struct mpb_batch_info info;
    struct mpb_append_request request = fixture_request(&PLAIN, &info);
    struct mpb_append_result result;
    request.leader_epoch = leader_epoch;
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK_EQ(result.base_offset < 0, result.error != 0);
    return result.error;
}

/* Alone, a partition is led since its epoch; in a cluster the epoch rises with every change of the ISR, and who leads all
 * the while goes on with what was begun before. */
static void leader_epochs(void)
{
    static const int REFUSED = MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    static const int32_t LED[] = {5, 8};
    begin();
    CHECK_EQ(now()->leader_epoch, 3);
    CHECK(error_of_epoch(-1) == 0 && error_of_epoch(3) == 0);
    CHECK(error_of_epoch(0) == REFUSED && error_of_epoch(2) == REFUSED && error_of_epoch(4) == REFUSED);
    fixture_close(&f);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 4, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(error_of_epoch(-1) == REFUSED && error_of_epoch(4) == REFUSED);
    for (size_t i = 0; i < sizeof LED / sizeof *LED; i++) {
        role = fixture_role(MPB_ROLE_LEADER, LED[i], 1);
        CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
        CHECK(error_of_epoch(-1) == 0 && error_of_epoch(LED[0]) == 0 && error_of_epoch(LED[i]) == 0);
        CHECK(error_of_epoch(0) == REFUSED && error_of_epoch(4) == REFUSED && error_of_epoch(LED[i] + 1) == REFUSED);
    }
    CHECK_EQ(error_of_epoch(6), 0);
    fixture_close(&f);
}

/* Only acks=all waits, for an end that the high watermark has not reached: with a new batch, with one that is in the log
 * already, and with one whose result a predecessor left, of which nobody knows. */
static void who_waits(void)
{
    const struct mpb_isr_proposal alone = {.leader_epoch = 4, .partition_epoch = 5, .isr = {FIX_SELF}, .isr_count = 1};
    fixture_open(&f);
    prepare_leader_of_three(&f);
    const struct batch_spec twice = numbered(9, 0, 45), failing = numbered(9, 7, 45);
    CHECK(now()->leo == 20 && now()->hw == 18);
    fixture_fill(&f, ENTRY, 1);
    CHECK(with_acks(-1, &twice, ENTRY).waits);
    for (int16_t acks = -1; acks <= 1; acks++) {
        struct mpb_append_result result = with_acks(acks, &twice, MPB_NO_REQUEST);
        CHECK(result.error == 0 && result.duplicate && result.base_offset == 20 && result.end_offset == 22);
        CHECK_EQ(result.waits, acks < 0);
        result = with_acks(acks, &twice, ENTRY);
        CHECK(result.error == 0 && result.replayed && result.end_offset == 22);
        CHECK_EQ(result.waits, acks < 0);
        CHECK_EQ(with_acks(acks, &PLAIN, MPB_NO_REQUEST).waits, acks < 0);
        result = with_acks(acks, &failing, MPB_NO_REQUEST);
        CHECK(result.error == MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER && !result.waits);
    }
    fetch_as(&f.log, FIX_OTHER, 22);
    CHECK_EQ(now()->hw, 22);
    CHECK(!with_acks(-1, &twice, MPB_NO_REQUEST).waits); /* as far as that the watermark is */
    CHECK(with_acks(-1, &twice, ENTRY).waits);           /* a replay: nobody has looked */
    CHECK_EQ(counted(&f, MPB_C_LOG_DUPLICATES), 4);
    CHECK_EQ(mpb_isr_answered(&f.log, &alone, 0), 0);
    struct mpb_append_result result = with_acks(-1, &PLAIN, MPB_NO_REQUEST);
    CHECK(!result.waits && now()->hw == now()->leo); /* nobody else to wait for */
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 6, 1);
    role.min_isr = 2;
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    int64_t leo = now()->leo;
    result = with_acks(-1, &PLAIN, MPB_NO_REQUEST);
    CHECK(result.error == MPB_ERR_NOT_ENOUGH_REPLICAS && result.log_start == 0 && now()->leo == leo);
    for (int16_t acks = 0; acks <= 1; acks++)
        CHECK_EQ(with_acks(acks, &PLAIN, MPB_NO_REQUEST).base_offset, leo + acks);
    CHECK_EQ(now()->hw, leo); /* it stands below min.insync.replicas */
    fixture_close(&f);
}

/* A segment holds the batch just so; a sync is due with the message that makes the number full; and a replay is none. */
static void sizes(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    begin();
    mpb_store_release(&f.core.partitions[0].flushed_offset, 4); /* two messages behind */
    options.flush_messages = 4;
    options.segment_bytes = PLAIN_BYTES;
    struct mpb_append_result result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &PLAIN);
    CHECK(result.base_offset == 6 && result.end_offset == 7 && !result.flush_due);
    CHECK(result.log_start == START && result.leader_epoch == 3 && result.append_time_ms == -1);
    fixture_fill(&f, ENTRY, 1);
    result = append_batch(&f.log, &options, 0, ENTRY, 0, &PLAIN);
    CHECK(result.base_offset == 7 && result.flush_due && !result.replayed);
    result = append_batch(&f.log, &options, 0, ENTRY, 0, &PLAIN);
    CHECK(result.base_offset == 7 && result.replayed && !result.flush_due);
    CHECK_EQ(counted(&f, MPB_C_LOG_ROLLS), 2);
    options.segment_bytes = PLAIN_BYTES - 1;
    result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &PLAIN);
    CHECK(result.error == MPB_ERR_RECORD_LIST_TOO_LARGE && result.log_start == -1 && !result.flush_due);
    options.segment_bytes = 1; /* a transaction that cannot end would hold its readers for ever */
    struct mpb_marker marker = {
        .producer_id = 9, .commit = true, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    mpb_append_marker(&f.log, &options, &marker, &result);
    CHECK(result.error == 0 && result.base_offset == 8);
    CHECK_EQ(counted(&f, MPB_C_LOG_APPENDS), 9);
    CHECK_EQ(counted(&f, MPB_C_LOG_APPEND_BYTES), 8 * PLAIN_BYTES + MPB_MARKER_BYTES);
    fixture_close(&f);
}

/* Of a topic with the broker's times the answer tells which, and the batch has it; else the largest that was found in the
 * records counts, not what the header says. */
static void times(void)
{
    static const struct {
        bool log_append_time;
        int64_t found, told, kept;
    } CASES[] = {
        {false, MPB_RECORDS_UNSEEN, -1, 100}, {false, 70, -1, 70}, {false, -1, -1, -1}, {true, 70, 5000, 5000}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mpb_append_options options = FIX_OPTIONS;
        struct mpb_batch_info info;
        struct mpb_append_request request = fixture_request(&PLAIN, &info);
        struct mpb_append_result result;
        struct mpb_read_plan plan;
        uint8_t bytes[PLAIN_BYTES];
        uint32_t length;
        fixture_open(&f);
        fixture_partition(&f, 0);
        options.log_append_time = CASES[i].log_append_time;
        request.max_timestamp = CASES[i].found;
        mpb_append(&f.log, &options, &request, &result);
        CHECK(result.error == 0 && result.append_time_ms == CASES[i].told);
        CHECK(now()->max_timestamp == CASES[i].kept && now()->first_timestamp == CASES[i].kept);
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 0, MPB_READ_TO_END, sizeof bytes, true, &plan), 0);
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
        mpb_batch_read(bytes, &info);
        CHECK(info.max_timestamp == CASES[i].kept && mpb_batch_crc_ok(bytes, sizeof bytes));
        CHECK_EQ((info.attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME) != 0, CASES[i].log_append_time);
        fixture_close(&f);
    }
}

int main(void)
{
    refused();
    not_synced();
    busy();
    nothing_proposed();
    leader_epochs();
    who_waits();
    sizes();
    times();
    printf("append_answers: %lu checks\n", checks_made);
    return 0;
}
