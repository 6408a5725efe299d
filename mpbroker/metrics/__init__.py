"""What the broker tells about itself: log lines and counters."""
