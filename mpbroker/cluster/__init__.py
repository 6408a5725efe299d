"""What the elected controller of a cluster decides, without sockets, clock, shared memory or store: the process around
it (slot `cluster-controller`) feeds events in and carries effects out."""
