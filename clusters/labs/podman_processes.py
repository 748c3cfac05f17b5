"""Which processes of this host belong to a podman store of ours: asked of the kernel.

What podman starts carries the store's configuration in its environment. A node's first process
stands in a root directory whose upper layer lies in the store. Both hold whoever was killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clusters.labs import host
from clusters.labs.podman_host import CONF


def helpers(below: Path) -> dict[int, Path]:
    """podman, its monitors and runtimes: pid -> the store, of the stores at or below a directory.

    A zombie is none: it has no environment any more.
    """
    form = re.compile(
        rb"(?:^|\0)CONTAINERS_CONF=([^\0]*)/" + re.escape(CONF.encode()) + rb"(?:\0|$)"
    )
    found = {}
    for pid in _pids():
        try:
            named = form.search(Path(f"/proc/{pid}/environ").read_bytes())
        except OSError:
            continue
        if named is not None:
            store = Path(named[1].decode(errors="replace"))
            if store == below or below in store.parents:
                found[pid] = store
    return found


def firsts(below: Path) -> dict[int, Path]:
    """The first process of each container: pid -> the upper layer of its root, likewise."""
    found = {}
    for pid in _pids():
        upper = _upper(pid)
        if upper is not None and below in upper.parents:
            found[pid] = upper
    return found


def is_first_of(pid: int, store: Path) -> bool:
    """Is this the first process of a container of the store?"""
    upper = _upper(pid)
    return upper is not None and store in upper.parents and host.proc_start(pid) is not None


def _pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _upper(pid: int) -> Path | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        inner = re.search(r"^NSpid:\t\d+(?:\t\d+)*\t1$", status, re.MULTILINE)
        if inner is None:
            return None
        table = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    for line in table.splitlines():
        words = line.split()
        if words[4] == "/" and (layer := re.search(r"[ ,]upperdir=([^,\s]+)", line)):
            return Path(layer[1])
    return None
