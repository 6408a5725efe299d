"""CRC-32C of bytes, at memory speed. Pure; any process."""

from mpbroker import _native

crc32c = _native.crc32c
"""crc32c(data[, before]) → the checksum; `before` is that of the bytes in front."""
