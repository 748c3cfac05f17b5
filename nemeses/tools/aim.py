"""`aim` on the nodes: where a program is to be met, and what has become of that.

    function:NAME              the function is entered
    return:NAME                it goes back to who has called it
    syscall:NAME[:GLOB[:N]]    the N-th such call, on a file that fits
    any:GLOB                   one of those that fit, drawn among what the load reaches

joined by ` > `: each is waited for when the one before it was reached. `NAME` is whole, its end
behind a `/`, or a glob; a part without one of these words is a function. `any` stands alone. The
program is the stock one, of Go or with symbols.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import PointCount
from dstest.core.node import Node
from dstest.core.residue import Residue
from nemeses.tools.compiled import HOME, compile_tool

TOOL: Final = f"{HOME}/aim"
POINTS: Final = f"{HOME}/aim-points.py"
OFF: Final = f"{HOME}/aim-off"
RUN: Final = "/run/dstest-aim"
SOURCES: Final = ("aim.c", "aim_trace.c", "aim_chain.c", "aim_code.c")
ARMED_S: Final = 5.0
POLL_S: Final = 0.05
LOOK_S: Final = 15.0
_AGENT: Final = Path(__file__).parent / "agent_points.py"

CALLS: Final[Mapping[str, tuple[int, int, int]]] = {
    "read": (0, 0, -1),
    "write": (1, 0, -1),
    "pread64": (17, 0, -1),
    "pwrite64": (18, 0, -1),
    "writev": (20, 0, -1),
    "pwritev": (296, 0, -1),
    "sendto": (44, 0, -1),
    "recvfrom": (45, 0, -1),
    "msync": (26, -1, -1),
    "fsync": (74, 0, -1),
    "fdatasync": (75, 0, -1),
    "ftruncate": (77, 0, -1),
    "fallocate": (285, 0, -1),
    "sync_file_range": (277, 0, -1),
    "rename": (82, -1, 0),
    "renameat": (264, -1, 1),
    "renameat2": (316, -1, 1),
    "unlink": (87, -1, 0),
    "unlinkat": (263, -1, 1),
    "openat": (257, -1, 1),
}
"""System calls of x86-64: the number, and which argument is a descriptor or a path of a file."""

_RUNNING: Final = (
    f"for pid in $(pgrep -x aim); do case $(readlink /proc/$pid/exe) in"
    f" {TOOL}|'{TOOL} (deleted)') echo $pid ;; esac; done"
)

_OFF: Final = f"""\
#!/bin/sh
# Let go of what is traced, its code as it was; harmless where nothing is.
ours() {{ {_RUNNING}; }}
for pid in $(ours); do kill $pid 2>/dev/null; done
n=0
while [ -n "$(ours)" ] && [ $n -lt 120 ]; do  # it lets threads go that do not stop at once
    sleep 0.05
    n=$((n + 1))
done
for pid in $(ours); do kill -9 $pid 2>/dev/null; done
[ ! -e {RUN}/patches ] || {TOOL} --restore {RUN}
rm -rf {RUN}
"""

RESIDUE: Final = Residue(
    name="aim",
    mark=f"the program is {TOOL}, its directory {RUN}",
    look=f"""\
for pid in $({_RUNNING}); do echo "ours process $pid (aim)"; done
[ ! -e {RUN} ] || echo "ours files in {RUN}"
""",
    remove=f"{_OFF.partition(chr(10))[2]}:\n",
    rank=15,
)

_NAME: Final = re.compile(r"(?!.*\.\.)[\w*?(][\w./()*?\[\]·,@~-]*")
_GLOB: Final = re.compile(r"[\w./*?\[\]-]*")

STEPS_MAX: Final = 8
POINTS_MAX: Final = 250
"""Functions that can be met at a time."""

ANY_CALL: Final = -1
"""As the number of a system call: whichever, each counted by its own."""

Kind = Literal["function", "return", "syscall", "any"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the chain. `name` is a pattern of functions, or a system call on a file that fits
    `glob` (empty: on any)."""

    kind: Kind
    name: str
    glob: str = ""


def parse(text: str) -> tuple[list[Step], int]:
    """(The chain that `at=` asks for, the hit that it names, 1 where it names none)."""
    parts = [part.strip() for part in text.split(" > ")]
    found = [_step(part) for part in parts]
    if len(found) > STEPS_MAX:
        raise ConfigError(f"-o at={text}: more than eight steps", remedy="fewer of them")
    early = [part for part, (_, hit) in zip(parts[:-1], found[:-1], strict=True) if hit]
    if early:
        raise ConfigError(
            f"-o at={text}: a number behind {early[0]}", remedy="one behind the last step alone"
        )
    steps = [step for step, _ in found]
    if len(steps) > 1 and any(step.kind == "any" for step in steps):
        raise ConfigError(
            f"-o at={text}: any: stands alone", remedy="function:NAME > return:NAME in a chain"
        )
    return steps, found[-1][1] or 1


def _step(part: str) -> tuple[Step, int]:
    """A part of the chain, and the hit behind it, 0 where there is none."""
    kind, _, rest = part.partition(":")
    if kind not in ("function", "return", "syscall", "any"):
        kind, rest = "function", part
    name, glob, number = (*rest.split(":", 2), "", "")[:3] if kind == "syscall" else (rest, "", "")
    if kind == "syscall" and name not in CALLS:
        raise ConfigError(
            f"-o at={part}: no system call that can be met there",
            remedy=f"one of {', '.join(CALLS)}",
        )
    if number and not re.fullmatch("[1-9][0-9]{0,8}", number):
        raise ConfigError(
            f"-o at={part}: {number[:20]!r} is no number of a hit",
            remedy="syscall:NAME:GLOB:N, such as syscall:fdatasync:*.wal:3",
        )
    if not _NAME.fullmatch(name) or not _GLOB.fullmatch(glob) or glob == "-" or len(glob) > 250:
        raise ConfigError(
            f"-o at={part}: no point of a program",
            remedy="-o at=function:NAME, return:NAME or syscall:NAME:GLOB, joined by ' > ', or"
            " any:GLOB; "
            "`dstest points PROGRAM` lists functions",
        )
    return Step(kind=cast(Kind, kind), name=name, glob=glob), int(number or 0)


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chain lies in a program: addresses by step (none of a system call), and the
    processes that run it with what the kernel has added to its addresses."""

    exe: str
    go: bool
    functions: int
    points: list[dict[str, str]]
    biases: dict[str, str]

    @property
    def addresses(self) -> list[str]:
        """All of them."""
        return sorted({at for names in self.points for at in names.values()})


class AimStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the program on a node says. `hits` counts those of the last step, `step` is the one
    that is waited for, `fired` counts what was done; of the first of these are `pid`, `tid`,
    `address`, `frames` and `file`, and `root` is which of the processes that were named has forked
    it. `stops` stood `stop_ns` together, `stop_ns_max` at most. `points` are hits by address,
    `calls` system calls by name where each was counted."""

    armed_ns: int = 0
    fired_ns: int = 0
    fired: int = 0
    step: int = 0
    hits: int = 0
    pid: int = 0
    tid: int = 0
    root: int = 0
    address: str = ""
    file: str = ""
    frames: list[str] = []
    stops: int = 0
    stop_ns: int = 0
    stop_ns_max: int = 0
    emulated: int = 0
    stepped: int = 0
    delayed: int = 0
    delayed_us: int = 0
    refused: int = 0
    killed: int = 0
    paused: int = 0
    processes: int = 0
    threads: int = 0
    lost: int = 0
    detached: int = 0
    points: dict[str, int] = {}
    calls: dict[str, int] = {}


def parse_status(text: str) -> AimStatus:
    """Of its file; as if nothing had happened where there is none."""
    values: dict[str, Any] = {"points": {}, "calls": {}}
    names = {str(number): name for name, (number, _, _) in CALLS.items()}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "frames":
            values[name] = rest.split()
        elif name == "point":
            address, _, count = rest.partition(" ")
            values["points"][address] = int(count)
        elif name == "call":
            number, _, count = rest.partition(" ")
            if number in names:
                values["calls"][names[number]] = int(count)
        elif name in ("address", "file"):
            values[name] = rest
        elif name in AimStatus.__struct_fields__:
            values[name] = int(rest)
    return AimStatus(**values)


async def install(nemesis: str, nodes: Sequence[Node]) -> None:
    """Put the program, what reads functions, and their undoing on the nodes; take away what a dead
    run left."""
    program = await compile_tool(nemesis, SOURCES)

    async def one(node: Node) -> None:
        await node.put(TOOL, program, mode=0o755)
        await node.put(POINTS, _AGENT.read_bytes())
        await stop(node)

    await asyncio.gather(*map(one, nodes))


async def stop(node: Node) -> None:
    """Take it all away. The script for that is put there first: a lease may need it."""
    await node.put(OFF, _OFF.encode(), mode=0o755)
    await node.run([OFF], timeout_s=LOOK_S, check=False)


async def ask(node: Node, *words: str) -> Any:
    """What `agent_points.py` answers. LabError where it cannot."""
    done = await node.run(["python3", POINTS, *words], timeout_s=LOOK_S, check=False)
    if done.status != 0:
        why = done.stderr.strip().rpartition("\n")[2][-200:]
        raise LabError(f"{node.name}: {why}")
    return json.loads(done.stdout)


async def sight(node: Node, pids: Sequence[int], steps: Sequence[Step]) -> Sight | str:
    """Where the chain lies in the program that has all of its functions, among those that these
    processes run; or why it lies in none."""
    patterns = [step.name for step in steps if step.kind != "syscall"]
    exes: dict[str, list[str]] = {}
    for pid in pids:
        done = await node.run(["readlink", f"/proc/{pid}/exe"], timeout_s=5.0, check=False)
        if done.status == 0:
            exes.setdefault(done.stdout.strip(), []).append(str(pid))
    why = "no process of it can be looked at"
    for exe, own in exes.items():
        try:
            told = await ask(node, "find", f"/proc/{own[0]}/exe", *patterns)
            biases = await ask(node, "bias", *own)
        except LabError as error:
            why = error.message
            continue
        lacking = [p for p in patterns if not told["found"][p]]
        if lacking:
            like = ", ".join(told["like"].get(lacking[0], []))
            why = f"{exe} has {told['functions']:,} functions, and none is {lacking[0]}" + (
                f"; like it: {like}" if like else ""
            )
            continue
        points = [{} if s.kind == "syscall" else told["found"][s.name] for s in steps]
        fit = sum(map(len, points))
        if fit > POINTS_MAX and steps[0].kind != "any":
            why = f"{exe}: {fit} functions fit, and {POINTS_MAX} can be met at a time"
            continue
        return Sight(
            exe=exe, go=told["go"], functions=told["functions"], points=points, biases=biases
        )
    return why


def spec_of(seen: Sight, steps: Sequence[Step], *, hit: int, times: int, then: str) -> str:
    """What the program is told; `then` as its `then` line has it."""
    lines = [f"process {pid} {bias}" for pid, bias in seen.biases.items()]
    for step, names in zip(steps, seen.points, strict=True):
        if step.kind == "syscall":
            number, fd, path = CALLS.get(step.name, (ANY_CALL, -1, -1))
            lines.append(f"step syscall {number} {fd} {path} {step.glob or '-'}")
        else:
            kind = "function" if step.kind == "any" else step.kind
            lines.append(f"step {kind} {' '.join(sorted({*names.values()}))}")
    return "\n".join(
        [*lines, f"go {seen.go:d}", f"hit {hit}", f"times {times}", f"then {then}", ""]
    )


async def start(node: Node, spec: str) -> AimStatus:
    """Trace, with every breakpoint in its place when this returns. LabError where that fails."""
    await node.run(["mkdir", "-p", RUN])
    await node.put(f"{RUN}/spec", spec.encode())
    await node.call("spawn", argv=[TOOL, RUN], log=f"{RUN}/log", pidfile=f"{RUN}/pid", cwd="/")
    deadline_ns = clock.monotonic_ns() + int(ARMED_S * 1e9)
    while not (status := await status_of(node)).armed_ns:
        if clock.monotonic_ns() > deadline_ns:
            log = (await node.get(f"{RUN}/log")).decode("utf-8", "replace").strip()
            raise LabError(f"{node.name}: the program is not traced: {log[-200:] or 'no answer'}")
        await asyncio.sleep(POLL_S)
    return status


async def status_of(node: Node) -> AimStatus:
    """As it is now."""
    found = await node.run(["cat", f"{RUN}/status"], timeout_s=5.0, check=False)
    return parse_status(found.stdout)


async def traces(node: Node) -> list[int]:
    """Pids of our program that run there."""
    found = await node.run(["sh", "-c", _RUNNING], timeout_s=5.0, check=False)
    return [int(line) for line in found.stdout.split()]


async def around(node: Node, seen: Sight, name: str, limit: int = POINTS_MAX) -> Sight:
    """The same program, with this function and those that stand nearest to it by their names."""
    found = await ask(node, "near", f"/proc/{next(iter(seen.biases))}/exe", name, str(limit))
    return msgspec.structs.replace(seen, points=[found])


async def count(node: Node, seen: Sight, kind: Kind, seconds: float) -> PointCount:
    """How often each point of the first step of `seen` is reached in that time; of `syscall` each
    system call that can be met. LabError where nothing can be traced."""
    spec = spec_of(seen, [Step(kind=kind, name="")], hit=1, times=0, then="count")
    try:
        began_ns = clock.monotonic_ns()
        await start(node, spec)
        await asyncio.sleep(seconds)
        status = await status_of(node)
        lasted_s = (clock.monotonic_ns() - began_ns) / 1e9
    finally:
        await stop(node)
    names = {at: name for name, at in seen.points[0].items()}
    reached = {names[at]: hits for at, hits in status.points.items() if at in names}
    return PointCount(
        armed=len(CALLS) if kind == "syscall" else len({*seen.points[0].values()}),
        seconds=round(lasted_s, 2),
        reached=ranked(status.calls if kind == "syscall" else reached),
        stops=status.stops,
        stop_ns=status.stop_ns,
    )


def ranked(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first."""
    return dict(sorted(counts.items(), key=lambda row: (-row[1], row[0])))
