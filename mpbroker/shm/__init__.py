"""Shared memory: layout, segments, process table, waits, counters. Layer 2; every process attaches, each row has one
writer."""
