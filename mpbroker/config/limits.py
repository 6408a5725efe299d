"""How much of a thing one broker can have, as its shared memory has it (native/shm/layout.h). Numbers only; pure."""

MAX_PROCESSORS = 32  # slots of the process table
MAX_HANDLERS = 64
MAX_ENTRIES = 2**17  # an entry's index has 17 bits in a hint
HANDLER_ARENA_BYTES = 256 << 20  # memory for answers of one request handler
LARGEST_ANSWER_BYTES = HANDLER_ARENA_BYTES - (1 << 20)  # records of one; the rest is for the fields around them
