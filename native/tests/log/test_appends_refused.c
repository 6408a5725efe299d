/* A log directory without room: appends are refused, reads and retention go on; appends, too, once there is room. */
#include "tests/log/log_fixture.h"

#include "log/log_read.h"
#include "log/retain.h"
#include "log/roll.h"

static const struct batch_spec PLAIN = {.records = 1, .producer_id = -1, .timestamp = 100, .payload = 40, .mark = 'a'};

static int append(struct fixture *f, const struct batch_spec *spec)
{
    return append_batch(&f->log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, spec).error;
}

static struct batch_spec numbered(int sequence)
{
    struct batch_spec spec = PLAIN;
    spec.producer_id = 7;
    spec.sequence = sequence;
    return spec;
}

static void reads(struct fixture *f, int64_t offset)
{
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length = 0;
    CHECK_EQ(mpb_log_find(&f->log, 0, NULL, offset, INT64_MAX, sizeof bytes, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f->log, &plan, bytes, &length), 0);
    CHECK(length > 0);
}

static void retention_deletes(struct fixture *f)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    uint32_t count = 0;
    struct mpb_retain_rules rules = {
        .retention_ms = -1, .retention_bytes = 2 * (MPB_BATCH_HEADER_BYTES + 40), .now_ms = 5000};
    CHECK_EQ(mpb_retain(&f->log, 0, &rules, removed, &count), 0);
    CHECK_EQ(count, 1);
}

int main(void)
{
    struct fixture f;
    struct batch_spec first = numbered(0), second = numbered(1);
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append(&f, &PLAIN), 0);
    CHECK_EQ(mpb_roll(&f.log, 0, 2000), 0);
    CHECK_EQ(append(&f, &first), 0);
    mpb_log_dir_refuse_appends(&f.core, 1, true); /* another directory */
    CHECK_EQ(append(&f, &PLAIN), 0);
    mpb_log_dir_refuse_appends(&f.core, 0, true);
    CHECK_EQ(append(&f, &PLAIN), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(append(&f, &second), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(append(&f, &first), 0); /* is in the log */
    CHECK_EQ(counted(&f, MPB_C_LOG_APPENDS_REFUSED), 2);
    CHECK_EQ(counted(&f, MPB_C_LOG_APPENDS), 3); /* neither those nor the one that was there */
    CHECK_EQ(counted(&f, MPB_C_LOG_IO_ERRORS), 0);
    CHECK(mpb_log_dir_online(&f.core, 0));
    const uint32_t slot = f.log.slot;
    f.log.slot = MPB_SLOT_COORDINATOR; /* consumers of groups read on, and their groups are written down */
    CHECK_EQ(append(&f, &PLAIN), 0);
    mpb_log_dir_refuse_groups(&f.core, 1, true);
    CHECK_EQ(append(&f, &PLAIN), 0);
    mpb_log_dir_refuse_groups(&f.core, 0, true);
    CHECK_EQ(append(&f, &PLAIN), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_log_dir_refuse_groups(&f.core, 0, false);
    CHECK_EQ(append(&f, &PLAIN), 0);
    f.log.slot = slot;
    CHECK_EQ(append(&f, &PLAIN), MPB_ERR_KAFKA_STORAGE_ERROR);
    reads(&f, 0);
    reads(&f, 1);
    retention_deletes(&f);
    reads(&f, 2);
    mpb_log_dir_refuse_appends(&f.core, 0, false);
    CHECK_EQ(append(&f, &second), 0);
    CHECK_EQ(append(&f, &PLAIN), 0);
    CHECK(!mpb_log_dir_takes_appends(&f.core, 1));
    fixture_close(&f);
    printf("appends_refused: %lu checks\n", checks_made);
    return 0;
}
