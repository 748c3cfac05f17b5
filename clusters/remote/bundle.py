"""The agent as it travels to a node: its files, their version, and the command that starts it.

The command is a small program that reads one frame with the files, checks that the node carries
this lab's marker *before* it writes anything, and then becomes the agent.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

RUN_PATH = "/run/dstest"
MARKER_PATH = "/etc/dstest-lab"
FILES = (
    "agent_main", "agent_exec", "agent_probe", "agent_lease", "agent_janitor",
    "agent_groups", "agent_services", "agent_samples", "agent_readings",
)  # fmt: skip

BOOTSTRAP = r"""
import json, os, shutil, struct, sys
def read(n):
    data = b""
    while len(data) < n:
        part = os.read(0, n - len(data))
        if not part:
            os._exit(3)
        data += part
    return data
first = json.loads(read(struct.unpack(">I", read(4))[0]))
run, marker = first["run"], first["marker"]
try:
    lab_id = open(marker).read().strip()
except OSError:
    lab_id = None
if lab_id is None or lab_id != first["lab_id"]:
    text = json.dumps({"not_a_lab_node": lab_id}).encode()
    os.write(1, struct.pack(">I", len(text)) + text)
    os._exit(4)
home = os.path.join(run, "agent-" + first["version"])
if not os.path.isdir(home):
    os.makedirs(run, 0o700, exist_ok=True)
    work = home + "." + str(os.getpid())
    os.makedirs(os.path.join(work, "clusters", "remote"))
    for name, text in first["files"].items():
        with open(os.path.join(work, name), "w", encoding="utf-8") as out:
            out.write(text)
    try:
        os.rename(work, home)
    except OSError:
        shutil.rmtree(work)
sys.path.insert(0, home)
from clusters.remote import agent_main
agent_main.main(run, marker, first["version"], first["slowness"])
"""


def module_texts(names: Sequence[str]) -> dict[str, str]:
    """Path below the directory to import from -> text, of modules that run on nodes."""
    here = Path(__file__).parent
    found = {f"clusters/remote/{name}.py": (here / f"{name}.py").read_text() for name in names}
    return {"clusters/__init__.py": "", "clusters/remote/__init__.py": "", **found}


@functools.cache
def files() -> dict[str, str]:
    """All of the agent."""
    return module_texts(FILES)


@functools.cache
def version() -> str:
    """Changes with any of the agent's files."""
    return hashlib.sha256(json.dumps(files(), sort_keys=True).encode()).hexdigest()[:16]


def start_argv() -> list[str]:
    """What starts the agent on a node; it then waits for `first_frame`."""
    return ["python3", "-I", "-S", "-c", BOOTSTRAP]


def pack(message: object) -> bytes:
    """One frame."""
    data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return struct.pack(">I", len(data)) + data


@functools.cache
def _text_of(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text()


def argv_of(module: ModuleType) -> list[str]:
    """Runs one module on a node by itself, its own words after that: standard library only."""
    return ["python3", "-I", "-S", "-c", _text_of(module)]


def piped_argv() -> list[str]:
    """Runs a program that comes on standard input (`pipe_text`), so that neither its text nor its
    words stand in the list of processes, where `pkill -f` would find them."""
    return ["python3", "-I", "-S", "-c", _PIPED]


def pipe_text(module: ModuleType, words: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What `piped_argv` reads: the module with its own words and more environment. What comes after
    it on standard input is the program's."""
    text = (
        f"import os, sys\nsys.argv[1:] = {[*words]!r}\nos.environ.update({dict(env)!r})\n"
        f"exec({_text_of(module)!r})\n"
    ).encode()
    return b"%d\n%s" % (len(text), text)


_PIPED: Final = """\
source, text = open(0, "rb", 0, closefd=False), b""
size = int(source.readline())
while len(text) < size:
    part = source.read(size - len(text))
    if not part:
        raise SystemExit("what was to be run did not come whole")
    text += part
exec(text)
"""
"""Unbuffered: nothing is taken from what follows."""


def first_frame(
    lab_id: str, *, run: str = RUN_PATH, marker: str = MARKER_PATH, slowness: float = 1.0
) -> bytes:
    """The frame that carries the agent to a node of the lab `lab_id`."""
    return pack(
        {
            "lab_id": lab_id,
            "version": version(),
            "files": files(),
            "run": run,
            "marker": marker,
            "slowness": slowness,
        }
    )
