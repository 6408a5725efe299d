"""May a SQLite store that brokers share lie here? Not on a file system that machines share. Any process."""

import os
from pathlib import Path
from typing import Final

NETWORK_KINDS: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"}
    | {"prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"}
)
LOCAL_FUSE: Final = frozenset({"fuseblk", "fuse.fuse-overlayfs"})


def network_kind(path: Path, mounts: str | None = None) -> str:
    """The kind of network file system that a directory is on; empty if it is on none. `mounts`: mountinfo's text."""
    if mounts is None:
        mounts = Path("/proc/self/mountinfo").read_text()
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        words = line.split()
        if len(words) > 6 and words[2] == wanted and "-" in words:
            kind = words[words.index("-") + 1]
            return kind if _is_network(kind) else ""
    return ""


def _is_network(kind: str) -> bool:
    return kind in NETWORK_KINDS or (kind.startswith("fuse") and kind not in LOCAL_FUSE)
