"""`bit-rot`: bits of what a server has on its disk are not what it wrote.

The server is killed, bits of its files are flipped below it, and it is started on them. A file
system of ours lies under the data (`nemeses/disk/disk_fault.py`, csrc/faultfs_rot.c): it flips one
bit in each so many bytes that hold something, of the files whose names match, and counts each one
that is read. What is written from then on is as it should be.

Injector signal: bits flipped, on each target and on no other node. Victim signal: rotten bits in
what was read from the disk while the server was started on it, on each target, in whole pages. Bits
that are not read do not count.
Control: the other servers are the processes they were, and their clients are answered. What the
server makes of it is its own affair: it may refuse to start, mend itself from the others, lose what
it had, or serve what nobody wrote. It has healed when it has been killed again, the bits that it
has not written over are put back, and all serve.

Jepsen flips bits and cuts files likewise (NATS 2.12.1, 2025; TigerBeetle 0.16.11, 2025), and leaves
them so. Catalogue: N19.
"""

from __future__ import annotations

import asyncio
import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import (
    DataDir,
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Supervised,
)
from nemeses.base.driver import Choice, Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import RESTART_S, bystanders, signal
from nemeses.base.process_fault import choose_processes, not_serving
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.disk import disk_fault
from nemeses.disk.disk_fault import (
    USERS,
    DiskFault,
    clear_disks,
    counter_delta,
    owner,
    readings,
)
from nemeses.observe.processes import ProcessSnapshot, dying, processes_before

MADE: Final = "rotted"
READ: Final = "rotten_read"
PUT_BACK: Final = "rot_put_back"
REPLACED: Final = "rot_replaced"
START_S: Final = 10.0

_END_USERS: Final = f"""\
{USERS}for _ in $(seq 30); do
    found=$(users "$1")
    [ -n "$found" ] || break
    kill -9 $found
    sleep 0.1
done
"""


class BitRot(DiskFault):
    """The `bit-rot` nemesis."""

    name = "bit-rot"
    taxdc = "crash-recovery"
    taxdc_tags: frozenset[str] = frozenset({"durability"})
    doc = "flips bits in the files of servers, and starts them on these"
    faults: tuple[str, ...] = ("N19",)
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic", "corruption"})
    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="one",
            choices=("one", "minority"),
            help="whose disk: one node's, or a minority's; no promise holds for a majority's",
        ),
        "files": Option(
            type=str, default="*", help="names of the files, as *.blk; 60 characters at most"
        ),
        "every_kib": Option(
            type=int,
            default=64,
            least=1,
            most=1_000_000,
            help="one bit in so many KiB of each file; 4,096 in all, spread, and 512 files at most",
        ),
        **WINDOW_OPTIONS,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """ConfigError for names that the file system would not be told."""
        names = options["files"]
        if not 0 < len(names.encode()) <= 60 or not names.isprintable() or {*" /"} & {*names}:
            raise ConfigError(
                f"-o files={names!r}: no pattern of names", remedy="a word such as *.blk"
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """Which bits."""
        return {
            "files": options["files"],
            "every_bytes": options["every_kib"] * 1024,
            "rot_seed": rng.getrandbits(62),
        }

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """It is about the service that keeps its data there: others beside it notice nothing."""
        return await choose_processes(ctx, plan, service=owner(ctx))

    def patience_s(self, record: LandingRecord) -> float:
        return RESTART_S

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self._down(ctx, record)
        for name in record.targets:
            await self.rot(ctx, record, name)
            start = ctx.need(Supervised).restart_command(name)
            # It may not serve on what it finds.
            await ctx.node(name).run(start, timeout_s=START_S, check=False)

    async def _down(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """Nobody has the files open when their bytes are changed."""
        await ctx.need(Supervised).kill(record.targets, owner(ctx))
        await asyncio.gather(
            *(dying(ctx.node(n), processes_before(record, n)) for n in record.targets)
        )

    async def rot(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        """Flip the bits; a test sabotages this."""
        facts = record.facts
        words = ("rot", facts["rot_seed"], facts["every_bytes"], facts["files"])
        if not (await disk_fault.ask(ctx.node(name), *words))["rotten"]:
            raise LabError(
                f"{name}: no byte of a file whose name matches {facts['files']} holds anything"
            )

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, {"disk": await readings(ctx)})
        made, read = counter_delta(record, MADE), counter_delta(record, READ)
        hit = [f"the disk of {n} rots as well" for n in made if made[n] and n not in record.targets]
        return Observed(
            injector=_counted(record, "bits flipped in the server's files", made),
            victim=_counted(record, "rotten bits read from the server's disk", read),
            control=await bystanders(ctx, record, hit),
            facts=record.facts,
        )

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """As `revert`: a server that runs would go on with what it has read."""
        start = shlex.join(ctx.need(Supervised).restart_command(name))
        script = f"{_END_USERS}{shlex.join(disk_fault.asking('clear'))}; exec {start}"
        return [["sh", "-c", script, "sh", ctx.need(DataDir).data_dir()]]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(Supervised).kill(record.targets, owner(ctx))
        await clear_disks(ctx, record.targets)
        await ctx.need(Supervised).restart(record.targets)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """Each bit was put back, or the server has written over it."""
        now, before = await readings(ctx), record.facts["disk_before"]
        problems = [*await super().missing(ctx, record, healing)]
        for name in record.targets:
            made, *gone = (now[name][c] - before[name][c] for c in (MADE, PUT_BACK, REPLACED))
            if made != sum(gone):
                problems.append(f"{name}: {made - sum(gone)} of {made} bits are not put back")
        return problems

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        return not_serving(now, snapshot)


def _counted(record: LandingRecord, what: str, counts: Mapping[str, int]) -> Signal:
    """Each target has some."""
    of_targets = {name: counts[name] for name in record.targets}
    problems = [f"{name}: 0 {what}" for name, count in of_targets.items() if not count]
    good = ", ".join(f"{name}: {count:,}" for name, count in of_targets.items())
    return signal(what, dict.fromkeys(of_targets, 0), of_targets, problems, f"{good} {what}")


NEMESIS = BitRot()
