"""Cluster metadata: the store behind it, its records and keys, commands to the controller, and the snapshot in
shared memory. The controller writes; every process may read the snapshot."""
