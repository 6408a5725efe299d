"""What several studies measure: from an engine's tables to waits, blocks of time, causes and errors."""
