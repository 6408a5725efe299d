#include "fetch/fetch_answer.h"

#include "record/frame_writer.h"

#define VERSION_WITH_LOG_START 5
#define VERSION_WITH_PREFERRED_REPLICA 11

/* From the length to the array of topics; where the session's id stands. */
static uint32_t write_head(struct mpb_writer *w, const struct mpb_fetch_request *request, int32_t correlation_id)
{
    mpb_write32(w, correlation_id);
    mpb_write_no_tags(w);
    mpb_write32(w, 0); /* throttle time */
    if (request->version < MPB_FETCH_FIRST_SESSION)
        return 0;
    mpb_write16(w, 0); /* error */
    mpb_write32(w, 0);
    return w->at - 4;
}

static bool write_part(struct mpb_writer *w, const struct mpb_fetch_request *request, const struct mpb_fetch_part *part,
                       struct mpb_log *log)
{
    uint32_t read = 0;
    mpb_write32(w, part->asked.partition);
    mpb_write16(w, 0);
    mpb_write64(w, part->plan.high_watermark);
    mpb_write64(w, part->plan.last_stable);
    if (request->version >= VERSION_WITH_LOG_START)
        mpb_write64(w, part->plan.log_start);
    if (request->isolation == 1)
        mpb_write_count(w, 0); /* aborted transactions */
    else
        mpb_write_null(w);
    if (request->version >= VERSION_WITH_PREFERRED_REPLICA)
        mpb_write32(w, -1);
    mpb_write_count(w, part->plan.length);
    if (w->frame != NULL && part->plan.length != 0 &&
        (mpb_log_read(log, &part->plan, w->frame + w->at, &read) != 0 || read != part->plan.length))
        return false;
    w->at += part->plan.length;
    mpb_write_no_tags(w);
    return true;
}

static void write_topic(struct mpb_writer *w, const struct mpb_fetch_request *request,
                        const struct mpb_native_topic *topic)
{
    if (request->version >= MPB_FETCH_FIRST_BY_ID)
        mpb_write_bytes(w, topic->id, sizeof topic->id);
    else
        mpb_write_text(w, topic->name, topic->name_length);
}

/* The next part from `at` on that is told; the count if there is none. */
static uint32_t next_told(const struct mpb_fetch_request *request, uint32_t at)
{
    while (at < request->count && !request->parts[at].told)
        at++;
    return at;
}

/* How many parts that are told follow each other as one topic, from `at` on, and where the next one begins. */
static uint32_t group(const struct mpb_fetch_request *request, uint32_t at, uint32_t *next)
{
    uint32_t told = 0;
    const struct mpb_native_topic *topic = request->parts[at].topic;
    for (; at < request->count && request->parts[at].topic == topic; at = next_told(request, at + 1))
        told++;
    *next = at;
    return told;
}

static uint32_t groups(const struct mpb_fetch_request *request)
{
    uint32_t count = 0;
    for (uint32_t at = next_told(request, 0); at < request->count; count++)
        group(request, at, &at);
    return count;
}

uint32_t mpb_fetch_answer(const struct mpb_fetch_request *request, int32_t correlation_id, struct mpb_log *log,
                          uint8_t *frame)
{
    struct mpb_writer w = {.frame = frame, .at = 4, .flexible = request->version >= MPB_FETCH_FIRST_FLEXIBLE};
    write_head(&w, request, correlation_id);
    mpb_write_count(&w, groups(request));
    for (uint32_t at = next_told(request, 0), end; at < request->count;) {
        uint32_t told = group(request, at, &end);
        write_topic(&w, request, request->parts[at].topic);
        mpb_write_count(&w, told);
        for (; at != end; at = next_told(request, at + 1))
            if (!write_part(&w, request, &request->parts[at], log))
                return 0;
        mpb_write_no_tags(&w);
    }
    mpb_write_no_tags(&w);
    if (frame)
        mpb_put_be32(frame, (int32_t)(w.at - 4));
    return w.at;
}

void mpb_fetch_answer_session(const struct mpb_fetch_request *request, uint32_t session_id, uint8_t *frame)
{
    struct mpb_writer w = {.at = 4, .flexible = request->version >= MPB_FETCH_FIRST_FLEXIBLE};
    uint32_t at = write_head(&w, request, 0);
    if (at != 0)
        mpb_put_be32(frame + at, (int32_t)session_id);
}
