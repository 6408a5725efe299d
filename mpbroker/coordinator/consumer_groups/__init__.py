"""Groups of the next-generation protocol (KIP-848), which work out assignments themselves. In the coordinator process.

Imported with the first such request or record. Logic without I/O, clock and shared memory, as that of classic groups:
`requests.py` is the way in, `consumer_group.py` the state, `change.py` how it changes.
"""
