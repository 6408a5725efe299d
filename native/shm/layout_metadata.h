/* The part of layout.h for metadata: commands of handlers to the controller, and the topics that it shows. */
#ifndef MPB_LAYOUT_METADATA_H
#define MPB_LAYOUT_METADATA_H

#include <stdint.h>
#include "shm/atomics.h"

/* ------------------------------------------------------------------ controller commands
 * Same first word as an entry (state, generation, owner), so that the same ring code claims them. */
#define MPB_COMMAND_BYTES 65536
#define MPB_MAX_COMMANDS 4096
#define MPB_COMMAND_REQUEST 40960
struct mpb_command {
    mpb_atomic64 state;        /* FREE, FILL, QUEUED, CLAIMED, DONE, as an entry has */
    uint64_t operation;        /* made of the fill number of the request it serves: a re-run finds its first result */
    mpb_atomic32 handler_slot; /* who waits for the answer; a re-run on another handler takes it over */
    uint32_t handler_incarnation;
    uint32_t request_length;
    uint32_t answer_length;
    uint64_t generation_after; /* metadata generation that shows the change */
    uint8_t unused[24];
    uint8_t request[MPB_COMMAND_REQUEST]; /* kept apart: a successor runs it again after a half-written answer */
    uint8_t answer[MPB_COMMAND_BYTES - 64 - MPB_COMMAND_REQUEST];
};
_Static_assert(sizeof(struct mpb_command) == MPB_COMMAND_BYTES, "controller command");

/* ------------------------------------------------------------------ metadata snapshot
 * The controller alone writes. Two copies and a selector per row (low bit: copy in force); a change writes its rows,
 * appends their numbers to the journal, then raises metadata_generation. */
#define MPB_TOPIC_BLOB 3584
struct mpb_topic_copy {
    uint8_t id[16];
    uint32_t partition_count;
    uint32_t flags;         /* 1 exists, 2 internal, 4 being deleted */
    uint32_t first_ordinal; /* partition rows are chained by next_ordinal */
    uint32_t name_length;
    uint32_t overrides_length; /* msgspec JSON object of the settings given at creation */
    uint32_t unused;
    uint64_t version; /* of the MetaStore entry */
    uint8_t name[256];
    uint8_t overrides[MPB_TOPIC_BLOB];
};
struct mpb_topic {
    mpb_atomic64 selector;
    uint8_t unused[56];
    struct mpb_topic_copy copy[2];
    uint8_t pad[8192 - 64 - 2 * sizeof(struct mpb_topic_copy)];
};
_Static_assert(sizeof(struct mpb_topic) == 8192, "topic row");
#define MPB_JOURNAL_ROWS 4096 /* mpb_atomic64 each: topic row number of change g at g modulo rows */

#endif
