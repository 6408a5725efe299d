/* One client connection: the bytes that were received and not taken yet, and the answers that the kernel did not take
 * yet. Runs in processors; only the process that holds the socket touches it.
 *
 * A frame is a 4-byte big-endian length and as many bytes. Its announced length alone never allocates memory. Sockets are
 * watched edge-triggered, so `readable` remembers that the kernel may have more. */
#ifndef MPB_CONNECTION_H
#define MPB_CONNECTION_H

#include "request/processor.h"

#define MPB_API_VERSIONS_KEY 18
#define MPB_RECEIVE_BYTES 65536u     /* more per call makes the allocator map and unmap memory every time */
#define MPB_SMALL_FRAME_BYTES 16384u /* up to here a frame is copied, above it goes straight into the arena */
#define MPB_ARRIVED_BEFORE_RESERVE (1u << 20)
#define MPB_INTRODUCTION_BYTES 1024u /* of a request that says who the client is: header, and ApiVersions' software */
#define MPB_MAX_INTRODUCTIONS 16u    /* client ids of one connection that are noted */
#define MPB_OFFSET_SAMPLE_NS 1000000u
#define MPB_MAX_HELD 8u                 /* answers sent with one call */
#define MPB_MAX_OUT (MPB_MAX_HELD + 2u) /* held, and the one of a request that was in flight when they stopped going */

struct mpb_connection {
    int fd;
    uint32_t number, generation; /* its name in request entries */
    uint8_t *buffer;             /* received, not taken: [start, end) */
    uint32_t start, end, capacity;
    bool readable, hung_up, scheduled, holding, closed;
    bool waits;             /* a whole frame, or the beginning of a large one, waits for room: not read meanwhile */
    bool large;             /* a frame is being received straight into the arena, by Python code */
    bool blocked;           /* the kernel took a part of the answers; the rest waits for room in the socket */
    bool in_flight;         /* a request of it is in the broker: it is mute, that is, not read until that is answered */
    bool unmute_after_send; /* its request is answered; it is read again when the kernel has taken the answer */
    bool close_after_send;
    uint64_t last_active_ns;
    uint64_t requests; /* frames given to the handlers */
    uint64_t first_ns,
        later_ns; /* when the first byte of the next frame was received, and that of the frames behind it */
    uint64_t first_arrival_ns, later_arrival_ns; /* when it had arrived in the kernel; 0: not known */
    uint64_t frame_started_ns; /* when the frame under way last brought a fair share of bytes; 0: none under way */
    uint64_t frame_bytes_seen;
    uint32_t out[MPB_MAX_OUT]; /* entries whose answers are held or under way, oldest first */
    uint32_t out_count;
    uint32_t out_taken; /* bytes of the first one that the kernel has */
    uint64_t out_started_ns;
    uint64_t sent_bytes;  /* that the kernel took of all answers */
    uint32_t client_hash; /* of the client id its last request had */
    uint32_t introductions, introduction_bytes;
    uint8_t *introduction; /* the beginning of a request with a new client id, until Python has read it */
};

/* How to learn when bytes arrived in the kernel, which stamps them with the wall clock (SO_TIMESTAMPNS). The difference
 * between the clocks is measured again after MPB_OFFSET_SAMPLE_NS: a step of the wall clock falsifies what lay in a
 * socket while it happened. */
struct mpb_arrivals {
    bool wanted;
    uint64_t sampled_ns;
    int64_t wall_minus_monotonic_ns;
};

enum mpb_received { MPB_RECEIVED = 1, MPB_RECEIVED_NOTHING = 0, MPB_CONNECTION_LOST = -1, MPB_NO_MEMORY = -2 };
enum mpb_frame { MPB_FRAME_WHOLE = 1, MPB_FRAME_PART = 0, MPB_FRAME_INVALID = -1 };

void mpb_connection_close(struct mpb_connection *c);
/* One receive into the buffer, through `scratch`. TCP gives one arrival for all bytes of a receive, that of the last
 * packet: frames of one receive share it, and the wait computed from it is never too long. A frame that begins in the
 * bytes of one receive and ends in another keeps the arrival of its first byte's receive. */
enum mpb_received mpb_connection_receive(struct mpb_connection *c, uint8_t scratch[MPB_RECEIVE_BYTES], uint64_t now_ns,
                                         struct mpb_arrivals *arrivals);
/* Whether a request that was just given to the handlers says who the client is: it has another client id than the one
 * before, or is ApiVersions with the name of the software. Its beginning is kept in `introduction` then. */
bool mpb_connection_introduces(struct mpb_connection *c, const uint8_t *frame, uint32_t length, uint32_t client_hash);
/* The bytes are the caller's, NULL: none; to be freed. */
uint8_t *mpb_connection_take_introduction(struct mpb_connection *c, uint32_t *bytes);
/* Bytes that another processor had received before it passed the connection on; false: no memory. */
bool mpb_connection_preload(struct mpb_connection *c, const uint8_t *bytes, uint32_t length, uint64_t now_ns);
/* Looks for the next frame: `frame` and `length` (signed, as announced) are set unless not even the length is here. */
enum mpb_frame mpb_connection_frame(const struct mpb_connection *c, uint32_t max_bytes, const uint8_t **frame,
                                    int32_t *length);
/* Whether the next frame is here, or one that will be refused. */
bool mpb_connection_has_frame(const struct mpb_connection *c);
/* Drops bytes from the front. */
void mpb_connection_take(struct mpb_connection *c, uint32_t bytes);
/* Length of the unfinished frame if it should now move to the arena, else 0. Up to 1 MiB, an eighth of it must have
 * arrived first: an announced length reserves at most eight times (for the largest frames a hundred times) what the
 * client really sent. */
uint32_t mpb_connection_wants_arena(const struct mpb_connection *c);

static inline uint32_t mpb_connection_buffered(const struct mpb_connection *c) { return c->end - c->start; }

enum mpb_send { MPB_SEND_DONE = 1, MPB_SEND_WAITS = 0, MPB_SEND_LOST = -1 };

/* Sends every answer of `out` as one piece and settles those the kernel has; WAITS: the socket has no room for the rest. */
enum mpb_send mpb_connection_send(struct mpb_connection *c, struct mpb_processor *p);
/* Bytes of its answers that the kernel has not taken; their memory is in use until it has. */
uint64_t mpb_connection_untaken(const struct mpb_connection *c, const struct mpb_core *core);
/* The connection is being closed: what is held is sent if that works at once, every entry is settled. */
void mpb_connection_give_up(struct mpb_connection *c, struct mpb_processor *p);

#endif
