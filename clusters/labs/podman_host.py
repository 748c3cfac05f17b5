"""podman on this host: the settings that it needs here, and stores that are ours alone.

A store is a directory with `containers.conf`, `storage.conf`, a wrapper of the runtime, and all
that podman keeps: containers and images of whoever else uses podman here are never seen. What is
started from a store says so in its environment, and is found by that.

Which processes of this host belong to a podman store of ours: asked of the kernel.

What podman starts carries the store's configuration in its environment. A node's first process
stands in a root directory whose upper layer lies in the store. Both hold whoever was killed.

Images for podman, each made once from the root directory of an image of the lab `lxc`.

They are in a store of their own, which the stores of all labs read.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clusters.labs import host, image, state
from dstest.core import processes
from dstest.core.errors import LabError

CONF = "containers.conf"
CGROUP = Path("/sys/fs/cgroup")
FUSE = Path("/dev/fuse")
HELPERS = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/libexec/podman")

TOOLS = {
    "podman": "podman",
    "conmon": "conmon",
    **{tool: package for tool, package in host.TOOLS.items() if package != "lxc"},
}
"""Program -> the Debian package that has it."""

CAP_SYS_RESOURCE = 24
NPROC_MAX = 32768
NOFILE_MAX = 1048576
"""What podman would ask for itself, where it may."""

FOREIGN = ("CONTAINER_HOST", "CONTAINER_CONNECTION", "STORAGE_DRIVER", "STORAGE_OPTS")
"""Settings of the user's that would lead podman to another store, or another machine."""

CONTAINERS = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "dstest"
tmp_dir = {tmp}

[engine.runtimes]
dstest = [{wrapper}]

[network]
network_backend = "netavark"
network_config_dir = {net}

[containers]
pids_limit = 0
{ulimits}
"""

STORAGE = """\
[storage]
driver = "overlay"
graphroot = {storage}
runroot = {run}

[storage.options]
additionalimagestores = [{more}]

[storage.options.overlay]
skip_mount_home = "true"
"""

WRAPPER = """\
#!/bin/sh
exec {runtime} --root {state} "$@"
"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`ulimits` are as podman takes them; empty: its own will do. `fuse`: may nodes have it?"""

    runtime: str
    ulimits: tuple[str, ...]
    fuse: bool


def missing() -> dict[str, str]:
    """What this host lacks for podman: program -> how to get it."""
    tools = host.missing_tools(TOOLS)
    lacks = {tool: host.apt_remedy([tool], TOOLS) for tool in tools}
    if not any(Path(folder, "netavark").exists() for folder in HELPERS):
        lacks["netavark"] = host.apt_remedy(["netavark"])
    fitting = _runtimes()
    if not any(map(_which, fitting)):
        lacks[fitting[0]] = host.apt_remedy([fitting[0]])
    return lacks


def settings() -> Settings:
    """Found, not tried. Raises LabError where no runtime fits this host's control groups."""
    paths = [path for name in _runtimes() if (path := _which(name))]
    if not paths:
        name = _runtimes()[0]
        raise LabError(f"{name} is not installed", remedy=host.apt_remedy([name]))
    return Settings(runtime=paths[0], ulimits=_ulimits(), fuse=_opens(FUSE))


def _runtimes() -> tuple[str, ...]:
    """Those that can work here, the better one first: crun refuses hybrid control groups."""
    pure = (CGROUP / "cgroup.controllers").exists()
    return ("crun", "runc") if pure else ("runc",)


def _which(name: str) -> str | None:
    return shutil.which(name, path=host.search_path())


def _ulimits() -> tuple[str, ...]:
    """Who may not raise limits has to ask for less than podman does of its own accord."""
    bounding = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            bounding = int(line.split()[1], 16)
    if bounding >> CAP_SYS_RESOURCE & 1:
        return ()
    files = _at_most(resource.RLIMIT_NOFILE, NOFILE_MAX)
    processes = _at_most(resource.RLIMIT_NPROC, NPROC_MAX)
    return (f"nofile={files}:{files}", f"nproc={processes}:{processes}")


def _at_most(kind: int, wanted: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def write(store: Path, of: Settings, images: Path | None = None) -> None:
    """Make a store; `images` is another one whose images it may use."""
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    spool(store).mkdir(exist_ok=True, mode=0o700)
    wrapper = store / "runtime"
    words = (of.runtime, str(store / "runtime.d"))
    runtime, kept = map(shlex.quote, words)
    wrapper.write_text(WRAPPER.format(runtime=runtime, state=kept))
    wrapper.chmod(0o700)
    limits = ", ".join(map(json.dumps, of.ulimits))
    (store / CONF).write_text(
        CONTAINERS.format(
            tmp=_text(store / "tmp"),
            wrapper=_text(wrapper),
            net=_text(store / "net"),
            ulimits=f"default_ulimits = [{limits}]" if limits else "",
        )
    )
    (store / "storage.conf").write_text(
        STORAGE.format(
            storage=_text(store / "storage"),
            run=_text(store / "run"),
            more="" if images is None else _text(images / "storage"),
        )
    )


def spool(store: Path) -> Path:
    """Where podman lays aside what it reads."""
    return store / "spool"


def _text(path: Path) -> str:
    return json.dumps(str(path))


def environment(store: Path) -> list[str]:
    """Words before a command that is to use this store."""
    forgotten = [word for name in FOREIGN for word in ("-u", name)]
    named = [f"CONTAINERS_CONF={store / CONF}", f"CONTAINERS_STORAGE_CONF={store / 'storage.conf'}"]
    return ["env", *forgotten, *named, f"TMPDIR={spool(store)}"]


def podman(store: Path, *words: str, timeout_s: float = 60.0, check: bool = True) -> str:
    """What podman prints. Raises LabError with its last words."""
    return host.run(
        [*environment(store), "podman", *words], timeout_s=timeout_s, check=check
    ).stdout


def helpers(below: Path) -> dict[int, Path]:
    """podman, its monitors and runtimes: pid -> the store, of the stores at or below a directory.

    A zombie is none: it has no environment any more.
    """
    form = re.compile(
        rb"(?:^|\0)CONTAINERS_CONF=([^\0]*)/" + re.escape(CONF.encode()) + rb"(?:\0|$)"
    )
    found = {}
    for pid in processes.pids():
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
    for pid in processes.pids():
        upper = _upper(pid)
        if upper is not None and below in upper.parents:
            found[pid] = upper
    return found


def is_first_of(pid: int, store: Path) -> bool:
    """Is this the first process of a container of the store?"""
    upper = _upper(pid)
    return upper is not None and store in upper.parents and host.proc_start(pid) is not None


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


IMPORT_S = 600.0
REPOSITORY = "localhost/dstest-node"


def store() -> Path:
    """The directory of the store with all images."""
    return state.root_dir() / "podman"


def ensure(packages: Sequence[str], say: image.Progress) -> str:
    """The name of the image with these packages, made where it is not there yet."""
    base = image.ensure(packages, say)
    name = f"{REPOSITORY}:{base.name}"
    if exists(name):
        return name
    with state.lock("podman"):
        write(store(), settings())
        if not exists(name):
            say(f"importing the image {name} into podman (once)")
            _import(base / "rootfs", name)
    return name


def exists(name: str) -> bool:
    """Is it in the store?"""
    if not (store() / CONF).exists():
        return False
    argv = [*environment(store()), "podman", "image", "exists", name]
    return host.run(argv, check=False).returncode == 0


def _import(rootfs: Path, name: str) -> None:
    pack = ["tar", "-C", str(rootfs), "--numeric-owner", "--xattrs", "-cf", "-", "."]
    load = [*environment(store()), "podman", "import", "-q"]
    load += ["--change", "STOPSIGNAL SIGRTMIN+3", "-", name]
    script = f"set -o pipefail; {shlex.join(pack)} | {shlex.join(load)}"
    host.run(["bash", "-c", script], timeout_s=IMPORT_S)


def remove_unused(used: set[str]) -> list[str]:
    """Remove the images that are not in `used` (names); returns what was removed."""
    if not (store() / CONF).exists():
        return []
    with state.lock("podman"):
        listed = podman(store(), "images", "--format", "{{.Repository}}:{{.Tag}}").split()
        unused = [name for name in listed if name not in used]
        for name in unused:
            podman(store(), "rmi", "--force", name)
    return [f"image {name}" for name in unused]


def remove_temporaries() -> list[str]:
    """Remove what an import that was killed left behind; returns the paths."""
    removed = []
    with state.lock("podman"):
        if helpers(store()):  # of an import whose command is gone
            return []
        for path in spool(store()).glob("*"):
            removed += host.remove_tree(path) if path.is_dir() else [f"file {path}"]
            path.unlink(missing_ok=True)
    return removed
