"""New content for a file that a test writes thousands of times, without the disk in between.

Opened with O_TRUNC (`Path.write_bytes`), a file that held something is written out when it is closed: ext4 does so lest
a crash leave it empty. On a slow disk that is 30 ms each time; 4,096 states of one header took two minutes.
"""

from pathlib import Path


def rewrite(path: Path, data: bytes | bytearray) -> None:
    """The file's content is `data` afterwards; it is made if it does not exist."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()
