"""Records, batches and their compression; layer 1: pure functions over bytes, used by every process."""
