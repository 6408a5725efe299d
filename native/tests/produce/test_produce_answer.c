/* The room that is reserved for an answer before anything is appended is exactly what the answer takes: every version,
 * names around the lengths at which a varint grows, one topic to as many as a request may have. */
#include "produce/produce_answer.h"
#include "tests/stepping/check.h"
#include <string.h>

static const uint32_t NAME_LENGTHS[] = {1, 5, 126, 127, 128, 249};
enum { LENGTHS = sizeof NAME_LENGTHS / sizeof *NAME_LENGTHS };

/* `topics` topics of `parts` partitions each. */
static void measure(int16_t version, uint32_t topics, uint32_t parts, uint32_t first_length)
{
    static struct mpb_native_topic known[MPB_NATIVE_PARTITIONS];
    static struct mpb_produce_request request;
    static uint8_t frame[MPB_NATIVE_PARTITIONS * 512];
    memset(&request, 0, sizeof request);
    request.version = version;
    request.topics = topics;
    for (uint32_t t = 0; t < topics; t++) {
        known[t].name_length = NAME_LENGTHS[(first_length + t) % LENGTHS];
        memset(known[t].name, 'n', known[t].name_length);
        request.parts[request.count].parts_of_topic = parts;
        for (uint32_t p = 0; p < parts; p++)
            request.parts[request.count++].topic = &known[t];
    }
    memset(frame, 0xAB, sizeof frame);
    uint32_t bytes = mpb_produce_answer_bytes(&request);
    CHECK_EQ(mpb_produce_answer(&request, 7, frame), bytes);
    CHECK_EQ(mpb_be32(frame), (int32_t)bytes - 4);
    CHECK_EQ(mpb_be32(frame + 4), 7);
    CHECK_EQ(frame[bytes], 0xAB);
}

int main(void)
{
    for (int16_t version = 3; version <= 13; version++)
        for (uint32_t topics = 1; topics <= MPB_NATIVE_PARTITIONS; topics++)
            for (uint32_t parts = 1; topics * parts <= MPB_NATIVE_PARTITIONS; parts++)
                for (uint32_t first_length = 0; first_length < LENGTHS; first_length++)
                    measure(version, topics, parts, first_length);
    printf("produce answer: %lu checks\n", checks_made);
    return 0;
}
