/* A follower's log against a list of batches: a leader's log of plain, idempotent and transactional batches and markers, with
 * gaps as compaction leaves them and epochs that rise, fetched in pieces that are cut off anywhere. After every piece the
 * ends, the producers and the transactions are those of the list; in the end all of it is read back, from every offset. */
#include "tests/log/append_scenarios.h"

#include "log/aborted.h"
#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"

enum { BATCHES = 70, PRODUCERS = 4, LEADER = 1, EPOCH = 9, COORDINATOR = 7, SEGMENT = 1500, INTERVAL = 300 };

struct listed {
    int64_t base, last, timestamp, producer_id;
    int32_t epoch, sequence;
    enum mpb_batch_kind kind;
    size_t at, bytes; /* in `sent` */
    int64_t taken_ms;
};

static struct fixture f;
static struct listed list[BATCHES];
static uint8_t sent[1 << 16], got[1 << 16];
static size_t sent_bytes;
static uint32_t taken; /* batches of the list that the follower has */
static int64_t hw, log_start;
static uint64_t dice;

static uint32_t roll_dice(uint32_t sides) { return random_below(&dice, sides); }

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

/* Producers 0 and 1 are transactional, 2 and 3 idempotent; -1 is none. */
static void lead_one(struct listed *one, int32_t next_sequence[PRODUCERS], bool open[PRODUCERS])
{
    struct mpb_append_result result;
    one->producer_id = (int64_t)roll_dice(8) - 4;
    one->producer_id = one->producer_id < 0 ? -1 : one->producer_id;
    bool transactional = one->producer_id == 0 || one->producer_id == 1;
    one->kind = transactional ? MPB_BATCH_IN_TRANSACTION : MPB_BATCH_PLAIN;
    if (transactional &&
        (open[one->producer_id] ? roll_dice(2) : roll_dice(8)) == 0) { /* some end what was not begun */
        struct mpb_marker marker = {.ordinal = LEADER,
                                    .producer_id = one->producer_id,
                                    .commit = roll_dice(2) == 0,
                                    .coordinator_epoch = COORDINATOR,
                                    .now_ms = 1000 + roll_dice(500),
                                    .leader_epoch = -1,
                                    .entry = MPB_NO_REQUEST};
        mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
        one->kind = marker.commit ? MPB_BATCH_COMMIT : MPB_BATCH_ABORT;
        one->timestamp = marker.now_ms;
        open[one->producer_id] = false;
    } else {
        struct batch_spec spec = {.records = 1 + (int32_t)roll_dice(3),
                                  .producer_id = one->producer_id,
                                  .timestamp = 1000 + roll_dice(500),
                                  .payload = roll_dice(150),
                                  .mark = (uint8_t)roll_dice(256),
                                  .transactional = transactional};
        one->timestamp = spec.timestamp;
        if (one->producer_id >= 0) {
            one->sequence = spec.sequence = next_sequence[one->producer_id];
            next_sequence[one->producer_id] += spec.records;
        }
        if (transactional) {
            CHECK_EQ(mpb_txn_verify(&f.log, LEADER, NULL, spec.producer_id, 0, MPB_NO_GUARD), 0);
            open[one->producer_id] = true;
        }
        result = append_batch(&f.log, &FIX_OPTIONS, LEADER, MPB_NO_REQUEST, 0, &spec);
    }
    CHECK_EQ(result.error, 0);
    one->base = result.base_offset;
    one->last = result.end_offset - 1;
}

/* The leader's bytes; offsets and epochs, which no checksum covers, as if some batches had been compacted away. */
static void lead(void)
{
    int32_t next_sequence[PRODUCERS] = {0};
    bool open[PRODUCERS] = {false};
    fixture_partition(&f, LEADER);
    memset(list, 0, sizeof list);
    for (uint32_t i = 0; i < BATCHES; i++)
        lead_one(&list[i], next_sequence, open);
    const struct mpb_partition *row = &f.core.partitions[LEADER];
    int fd = mpb_segment_fd(&f.log, row, mpb_partition_in_force(row), 0, MPB_FILE_LOG);
    sent_bytes = mpb_partition_in_force(row)->position;
    CHECK(sent_bytes <= sizeof sent && pread(fd, sent, sent_bytes, 0) == (ssize_t)sent_bytes);
    size_t at = 0;
    int64_t gap = 0;
    int32_t epoch = 3;
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct listed *one = &list[i];
        gap += roll_dice(6) == 0 ? 1 + roll_dice(4) : 0;
        epoch += epoch < EPOCH && roll_dice(12) == 0;
        one->base += gap, one->last += gap, one->epoch = epoch, one->at = at;
        one->bytes = (size_t)mpb_be32(sent + at + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES;
        mpb_put_be64(sent + at + MPB_BATCH_BASE_OFFSET, one->base);
        mpb_put_be32(sent + at + MPB_BATCH_LEADER_EPOCH, epoch);
        at += one->bytes;
    }
    CHECK_EQ(at, sent_bytes);
}

static bool is_marker(const struct listed *one)
{
    return one->kind == MPB_BATCH_COMMIT || one->kind == MPB_BATCH_ABORT;
}

/* Of the transaction that batch `i` begins, its marker; BATCHES: it is open. -1: it begins none. */
static int64_t end_of_transaction(uint32_t i)
{
    if (list[i].kind != MPB_BATCH_IN_TRANSACTION)
        return -1;
    for (uint32_t before = i;
         before > 0 && !(is_marker(&list[before - 1]) && list[before - 1].producer_id == list[i].producer_id); before--)
        if (list[before - 1].producer_id == list[i].producer_id)
            return -1;
    for (uint32_t at = i; at < taken; at++)
        if (is_marker(&list[at]) && list[at].producer_id == list[i].producer_id)
            return at;
    return BATCHES;
}

static void ends_are_right(void)
{
    int64_t leo = taken == 0 ? 0 : list[taken - 1].last + 1, lso = hw;
    uint32_t open = 0;
    for (uint32_t i = 0; i < taken; i++) {
        int64_t end = end_of_transaction(i);
        open += end == BATCHES;
        bool holds = end == BATCHES || (end >= 0 && list[end].last >= hw); /* its end may still be lost */
        int64_t first = list[i].base < log_start ? log_start : list[i].base;
        lso = holds && first < lso ? first : lso;
    }
    CHECK(now()->leo == leo && now()->hw == hw && now()->log_start == log_start);
    CHECK_EQ(now()->lso, lso);
    CHECK_EQ(now()->open_transactions, open);
}

static void producer_is_right(int64_t producer_id)
{
    struct mpb_producer_batch kept[MPB_PRODUCER_KEPT];
    uint32_t at = mpb_producer_find(&f.core, &f.core.partitions[0], producer_id), count = 0;
    int64_t open = -1, written_ms = -1;
    bool ended = false;
    const struct listed *of_it[BATCHES];
    for (uint32_t i = 0; i < taken; i++)
        if (list[i].producer_id == producer_id) {
            written_ms = list[i].taken_ms;
            if (!is_marker(&list[i]))
                of_it[count++] = &list[i];
            ended |= is_marker(&list[i]);
            open = end_of_transaction(i) == BATCHES ? list[i].base : open;
        }
    CHECK_EQ(at != 0, written_ms >= 0);
    if (at == 0)
        return;
    const struct mpb_producer *producer = &f.core.producers[at - 1];
    uint32_t found = mpb_producer_kept(producer, kept);
    CHECK_EQ(found, count < MPB_PRODUCER_KEPT ? count : MPB_PRODUCER_KEPT);
    for (uint32_t i = 0; i < found; i++) {
        const struct listed *one = of_it[count - found + i];
        int32_t records = (int32_t)(one->last - one->base);
        CHECK(kept[i].base_offset == one->base && kept[i].last_offset_delta == records && kept[i].epoch == 0);
        CHECK(kept[i].first_sequence == one->sequence && kept[i].last_sequence == one->sequence + records);
        CHECK_EQ(kept[i].timestamp_ms, one->timestamp);
    }
    CHECK_EQ(mpb_load_relaxed(&producer->written_ms), written_ms);
    CHECK_EQ(mpb_txn_first(producer), open);
    CHECK_EQ(mpb_txn_epochs_of(producer).coordinator, ended ? COORDINATOR : MPB_NO_EPOCH);
}

static int64_t told_hw, hw_before, leo_before; /* of the piece that is being appended */

/* Before each write the last batch's commit stands for itself: a reader of that moment is told of the right ends, too. */
static int look_between(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != MPB_IO_WRITE)
        return 0;
    const uint32_t all = taken;
    const int64_t hw_of_all = hw, start_of_all = log_start;
    while (taken > 0 && list[taken - 1].last >= now()->leo)
        taken--;
    int64_t below = told_hw < now()->leo ? told_hw : now()->leo;
    hw = below > hw_before ? below : hw_before;
    hw = now()->leo == leo_before ? hw_before : hw; /* nothing of this piece is committed yet */
    log_start = now()->log_start;
    ends_are_right();
    taken = all, hw = hw_of_all, log_start = start_of_all;
    return 0;
}

/* What is fetched from the end of what is there, cut off somewhere; the ends that the leader tells with it. */
static void fetch_a_piece(int64_t now_ms)
{
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_follower_appended out;
    options.segment_bytes = SEGMENT;
    options.index_interval_bytes = INTERVAL;
    size_t at = taken < BATCHES ? list[taken].at : sent_bytes, left = sent_bytes - at;
    size_t length = 1 + roll_dice(900);
    uint32_t ahead = taken + roll_dice(16); /* the leader's high watermark may be beyond what it sends */
    int64_t told = list[ahead < 8 ? 0 : ahead - 8 < BATCHES ? ahead - 8 : BATCHES - 1].base;
    struct mpb_follower_append request = {.leader_epoch = EPOCH,
                                          .offset = taken == 0 ? 0 : list[taken - 1].last + 1,
                                          .records = sent + at,
                                          .length = length < left ? length : left,
                                          .leader_hw = told,
                                          .leader_log_start = told - 12 + roll_dice(16),
                                          .now_ms = now_ms};
    uint32_t before = taken;
    while (taken < BATCHES && list[taken].at + list[taken].bytes <= at + request.length)
        list[taken++].taken_ms = now_ms;
    told_hw = told, hw_before = hw, leo_before = now()->leo;
    mpb_io_fault = look_between;
    mpb_append_follower(&f.log, &options, &request, &out);
    mpb_io_fault = NULL;
    int64_t leo = taken == 0 ? 0 : list[taken - 1].last + 1;
    int64_t below = told < leo ? told : leo;
    hw = below > hw ? below : hw;
    bool starts = request.leader_log_start > log_start && request.leader_log_start <= hw;
    log_start = starts ? request.leader_log_start : log_start;
    CHECK_EQ(out.error, 0);
    CHECK_EQ(out.batches, taken - before);
    CHECK(out.leo == leo && out.hw == hw && out.log_start == log_start);
    CHECK_EQ(out.last_epoch, taken == 0 ? 3 : list[taken - 1].epoch);
    ends_are_right();
    for (int64_t id = 0; id < PRODUCERS; id++)
        producer_is_right(id);
}

/* Each segment has as much as fits, and counts what is in it; the active one's largest time is told with the last offset of the
 * first batch that has it. */
static void segments_are_right(void)
{
    const struct mpb_segment_list *found;
    uint64_t bytes = 0, records = 0;
    uint32_t segment = 0, largest = 0;
    size_t position = 0;
    CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[0], now(), &found), 0);
    CHECK_EQ(found->bases[0], 0);
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (position > 0 && position + list[i].bytes > SEGMENT) {
            CHECK(++segment < found->count);
            CHECK_EQ(found->bases[segment], list[i - 1].last + 1);
            position = 0, largest = i;
        }
        largest = list[i].timestamp > list[largest].timestamp ? i : largest;
        position += list[i].bytes;
        bytes += list[i].bytes;
        records += (uint64_t)(list[i].last - list[i].base + 1);
    }
    CHECK(segment > 3 && segment + 1 == found->count && now()->segment_count == found->count);
    CHECK(now()->position == position && now()->max_timestamp == list[largest].timestamp);
    CHECK_EQ(now()->max_timestamp_offset, list[largest].last);
    CHECK(now()->bytes_in == bytes && now()->log_bytes == (int64_t)bytes && now()->records_in == records);
}

/* An entry names a batch and the last offset of what was written with it, and two are more than an interval apart. */
static void index_is_right(int64_t base)
{
    uint8_t entry[MPB_INDEX_ENTRY_BYTES];
    const struct mpb_partition *row = &f.core.partitions[0];
    int64_t bytes = mpb_segment_bytes(&f.log, row, now(), base, MPB_FILE_INDEX);
    int fd = mpb_segment_fd(&f.log, row, now(), base, MPB_FILE_INDEX);
    uint32_t first = 0, previous = 0;
    while (list[first].base < base)
        first++;
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof entry) {
        CHECK_EQ(pread(fd, entry, sizeof entry, at), sizeof entry);
        uint32_t position = (uint32_t)mpb_be32(entry + 4), i = first, end;
        while (list[i].at - list[first].at < position)
            i++;
        CHECK_EQ(list[i].at - list[first].at, position);
        for (end = i; list[end].last < base + mpb_be32(entry); end++)
            CHECK(list[end].producer_id < 0 && list[end + 1].producer_id < 0);
        CHECK_EQ(list[end].last, base + mpb_be32(entry));
        CHECK(end == i || list[end].at + list[end].bytes - list[i].at <= INTERVAL);
        CHECK(position - previous > INTERVAL && position - previous <= 3 * INTERVAL);
        previous = position;
    }
    CHECK(mpb_segment_bytes(&f.log, row, now(), base, MPB_FILE_LOG) - previous <= 3 * INTERVAL);
}

static void is_read_back(void)
{
    struct mpb_read_plan plan;
    uint32_t length;
    for (uint32_t i = 0; i < BATCHES; i++)
        for (int64_t offset = i == 0 ? 0 : list[i - 1].last + 1; offset <= list[i].last; offset++) {
            int error = mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_REPLICA_TO_HIGH_WATERMARK, sizeof got, true,
                                     &plan);
            CHECK_EQ(error, offset < log_start ? MPB_ERR_OFFSET_OUT_OF_RANGE : 0);
            if (error != 0)
                continue;
            CHECK_EQ(plan.first_offset, list[i].base);
            CHECK_EQ(mpb_log_read(&f.log, &plan, got, &length), 0);
            CHECK(length >= list[i].bytes && memcmp(got, sent + list[i].at, length) == 0);
        }
}

/* Kafka's last stable offset behind a marker: the first offset of the transactions that are open then, or its own end. */
static int64_t stable_behind(uint32_t marker)
{
    int64_t stable = list[marker].base + 1;
    for (uint32_t begun = 0; begun < marker; begun++)
        if (end_of_transaction(begun) > marker && list[begun].base < stable)
            stable = list[begun].base;
    return stable;
}

/* A reader of what is committed is told of the aborted transactions that a batch may be of, and of none that is not one. */
static uint32_t aborted_are_told(void)
{
    struct mpb_aborted found[BATCHES];
    struct mpb_read_plan plan;
    uint32_t count, all_told = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        int64_t offset = list[i].base;
        if (offset < log_start || offset >= now()->lso)
            continue;
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_REPLICA_TO_STABLE, 1, true, &plan), 0);
        CHECK_EQ(mpb_log_aborted(&f.log, &plan, offset, found, BATCHES, &count), 0);
        uint32_t known = 0;
        for (uint32_t begun = 0; begun < BATCHES; begun++) {
            int64_t end = end_of_transaction(begun);
            if (end < 0 || end == BATCHES || list[end].kind != MPB_BATCH_ABORT)
                continue;
            bool told = false;
            for (uint32_t n = 0; n < count; n++)
                if (found[n].last_offset == list[end].base) {
                    told = true;
                    CHECK(found[n].producer_id == list[begun].producer_id && found[n].first_offset == list[begun].base);
                    CHECK_EQ(found[n].last_stable, stable_behind((uint32_t)end));
                }
            CHECK(told || list[begun].base > offset || list[end].base < offset);
            known += told;
        }
        CHECK_EQ(known, count);
        all_told += known;
    }
    return all_told;
}

int main(void)
{
    uint32_t pieces = 0, told = 0;
    for (dice = 1; dice <= 20; dice++) {
        const uint64_t seed = dice;
        const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, EPOCH, 0);
        const struct mpb_segment_list *found;
        fixture_open(&f);
        fixture_replicate(&f);
        lead();
        fixture_partition(&f, 0);
        CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
        taken = 0, hw = log_start = 0;
        for (int64_t ms = 6000; taken < BATCHES; ms++, pieces++) {
            fetch_a_piece(ms);
            told += aborted_are_told();
        }
        const struct mpb_follower_append last = {
            .leader_epoch = EPOCH, .offset = now()->leo, .leader_hw = INT64_MAX, .now_ms = 9000};
        struct mpb_follower_appended out;
        mpb_append_follower(&f.log, &FIX_OPTIONS, &last, &out);
        hw = now()->leo;
        CHECK(out.error == 0 && out.batches == 0 && out.hw == hw);
        ends_are_right();
        segments_are_right();
        CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[0], now(), &found), 0);
        for (uint32_t i = 0; i < found->count; i++)
            index_is_right(found->bases[i]);
        is_read_back();
        told += aborted_are_told();
        fixture_close(&f);
        dice = seed;
    }
    CHECK(told > 100);
    printf("follower_model: %u pieces, %u aborted transactions told, %lu checks\n", pieces, told, checks_made);
    return 0;
}
