"""How much of a thing one broker can have, as its shared memory has it (native/shm/layout.h). Numbers only; pure."""

MAX_PROCESSORS = 32  # slots of the process table
MAX_HANDLERS = 64  # request handlers and the coordinator
MAX_LOG_DIRS = 32  # a bit for each in shared memory
COORDINATORS = 1
MAX_ENTRIES = 2**17  # an entry's index has 17 bits in a hint
DEFAULT_ENTRIES = 8192  # of a processor; fewer where there are many processors
PROCESSOR_ARENA_BYTES = 256 << 20  # address space for received requests of one processor, unless set
LEAST_PROCESSOR_ARENA_BYTES = 1 << 20
HANDLER_ARENA_BYTES = 256 << 20  # memory for answers of one request handler, at most
MIN_HANDLER_ARENA_BYTES = 2 << 20  # and at least: a batch of the default message.max.bytes, and the fields around it
LARGEST_ANSWER_BYTES = HANDLER_ARENA_BYTES - (1 << 20)  # records of one; the rest is for the fields around them


def largest_batch_bytes(arena_bytes: int) -> int:
    """Records that one answer can hold where a handler has so much memory for answers."""
    return arena_bytes - min(HANDLER_ARENA_BYTES - LARGEST_ANSWER_BYTES, arena_bytes // 4)


LEAST_DASHCAM_BYTES = 8 << 20  # some segments of a lane each
