"""Load over raw sockets, with requests built before the clock starts, and the CPU time it costs a broker's process
tree."""
