/* Serves a Produce request without the interpreter, from its frame to its answer in one call. Runs in request handlers,
 * inside mpb_handler_serve_or_claim.
 *
 * It serves what nearly every producer sends: versions 3 to 13, known topics, nothing transactional. It leaves every other
 * request untouched, before any effect, to server/handlers/produce.py, and counts why; and one that meets a busy
 * partition with the results of the others in its cells, as a second run finds them. One with acks=all waits here for its
 * replicas (waiting_produce.h). docs/produce-checks.md says which of
 * the two makes which check; both are tested against that table. */
#ifndef MPB_SERVE_PRODUCE_H
#define MPB_SERVE_PRODUCE_H

#include "produce/native_topics.h"
#include "produce/waiting_produce.h"
#include "request/handler.h"

struct mpb_log;

/* Decompresses records for their check. `decompress` returns 0 with the bytes, which are valid until `release`, the error
 * code of a batch that cannot be decompressed, or -2: it failed itself. A batch may ask for at most what Python allows. */
#define MPB_DECOMPRESS_FAILED (-2)
struct mpb_decompressor {
    int (*decompress)(void *with, uint8_t codec, const uint8_t *data, size_t length, int32_t max_message_bytes,
                      const uint8_t **out, size_t *out_length);
    void (*release)(void *with);
    void *with;
};

/* Records of a batch that are decompressed without Python; more, and other codecs, go to the decompressor. */
#define MPB_UNPACKED_BYTES (1u << 20)

struct mpb_native_produce {
    struct mpb_handler *handler;
    struct mpb_log *log;
    uint64_t generation; /* of the metadata the topics were taken from */
    struct mpb_native_topics topics;
    struct mpb_decompressor decompressor; /* `decompress` NULL: compressed batches are left to Python */
    uint8_t *unpacked;                    /* MPB_UNPACKED_BYTES for records of lz4, NULL until there were some */
    uint32_t errors_counter;              /* counts partitions in error */
    uint64_t served;                      /* requests */
    int64_t now_ms;                       /* wall clock; below 0: the system's. A test that owns the clock sets it */
    bool parks;                           /* requests that wait for replicas wait here; else with Python */
    struct mpb_waiting_produces waiting;
};

/* True: answered. False: somebody else serves the request; what was appended for it already is in its cells. `native` is a struct mpb_native_produce:
 * this is `serve` of a handler. */
bool mpb_serve_produce(void *native, uint32_t entry);

#endif
