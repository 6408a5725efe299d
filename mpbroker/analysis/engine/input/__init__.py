"""What a trace holds, read in bulk: raw segments and compacted files as columns, losses, clocks, names and events."""
