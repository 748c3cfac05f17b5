"""Programs of the control host: run with a deadline, or explained by what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from dstest.core import processes
from dstest.core.errors import LabError

PARALLEL = 8
"""Programs that wait more than they work: more at once than there are cores."""

T = TypeVar("T")
R = TypeVar("R")

TOOLS = {
    "lxc-start": "lxc",
    "lxc-stop": "lxc",
    "lxc-info": "lxc",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
}
"""Program -> the Debian package that has it."""


def run(
    argv: Sequence[str],
    *,
    timeout_s: float = 20.0,
    check: bool = True,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program of this host. Raises LabError where it fails (`check`), hangs or is absent."""
    try:
        done = subprocess.run(
            list(argv),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed", remedy=apt_remedy([argv[0]])) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from None
    if check and done.returncode != 0:
        tail = (done.stderr or done.stdout).strip()[-500:]
        raise LabError(
            f"`{' '.join(argv)}` ended with status {done.returncode}: {tail}",
            remedy=_MORE_RIGHTS if _refused(tail) and powerless() else None,
        )
    return done


def apt_remedy(tools: Sequence[str], of: Mapping[str, str] = TOOLS) -> str:
    """The command that installs what `tools` come from."""
    packages = sorted({of.get(Path(tool).name, Path(tool).name) for tool in tools})
    return "apt-get install -y --no-install-recommends " + " ".join(packages)


def search_path() -> str:
    """Where programs are looked for: also where those of the system are."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing_tools(of: Mapping[str, str] = TOOLS) -> list[str]:
    """Those of these programs that are not on the path."""
    return [tool for tool in of if shutil.which(tool, path=search_path()) is None]


_REFUSED: Final = ("operation not permitted", "permission denied")
_CAPABILITIES: Final = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""What links, mounts and namespaces ask for, each with its number in capability.h."""
_MORE_RIGHTS: Final = (
    "this container is not privileged: run it with --privileged;"
    " or `dstest run --lab sim --system toykv` (simulated) needs no rights"
)


def _refused(said: str) -> bool:
    return any(words in said.lower() for words in _REFUSED)


def powerless(status: Path = Path("/proc/self/status")) -> list[str]:
    """The capabilities that root lacks here, as in a container that is not privileged; none where
    we are not root or nobody can tell."""
    if os.geteuid() != 0:
        return []
    try:
        rows = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        held = int(rows["CapEff"], 16)
    except (OSError, KeyError, ValueError):
        return []
    return [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]


def require_root() -> None:
    """Raise LabError unless we may make containers and links."""
    if os.geteuid() != 0:
        raise LabError(
            "making nodes needs root: containers, bridges and routes belong to it",
            remedy="run the same command with sudo; without root there are --lab rootless,"
            " --lab sim --system toykv, and existing machines with --lab hosts",
        )
    if lacks := powerless():
        raise LabError(f"root has no {' and no '.join(lacks)} here", remedy=_MORE_RIGHTS)


def proc_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None where there is none (or a zombie)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def lxc_monitors() -> dict[int, tuple[str, str]]:
    """Every LXC monitor process on this host: pid -> (directory of its containers, container)."""
    found = {}
    for pid, line in processes.each("cmdline"):
        text = line.decode(errors="replace").replace("\0", " ").strip()
        prefix, _, rest = text.partition("[lxc monitor] ")
        path, _, container = rest.partition(" ")
        if prefix == "" and path:
            found[pid] = (path, container.strip())
    return found


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`function` of all items, several at once; the first error is raised after all have ended."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(function, item) for item in items]
    return [future.result() for future in futures]


def mounts_below(path: Path) -> list[str]:
    """Mount points below `path`, the innermost first."""
    below = str(path) + "/"
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    points = [line.split()[4].replace("\\040", " ") for line in table.splitlines()]
    return sorted((p for p in points if p.startswith(below)), reverse=True)


def remove_tree(path: Path) -> list[str]:
    """Unmount what is mounted below `path` and remove it; returns what was there."""
    removed = []
    for point in mounts_below(path):
        run(["umount", "-l", point])
        removed.append(f"mount {point}")
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            raise LabError(f"{path} cannot be removed", remedy=f"remove it by hand: rm -rf {path}")
        removed.append(f"directory {path}")
    return removed
