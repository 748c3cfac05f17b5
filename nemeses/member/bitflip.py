"""`bit-flip`: bytes of one member's own files are not what it wrote.

The member is killed, bytes of its files are changed, and it is started on them. `log` flips a bit
of an entry of its write-ahead log. `store` changes a value of a key of ours in its database file,
in every place where the file has it. `tail` cuts the end of the log off, with entries that it had
acknowledged.

Injector signal: the bytes at the recorded offsets, read back, before and now. Victim signal: the
server itself has read them. For the log it says in its own log that it found corruption, and serves
nobody. For the store it serves the changed value, which the others do not, and its hash over one
revision is another than theirs: etcd has no checksum there and notices nothing. Flipped bytes that
the server never read do not count. Control: the other servers are the processes they were, log no
corruption, hold the right value, and their clients are answered. It has healed when the bytes are
back (for the log, whose file nobody wrote to meanwhile, by the checksum of the whole file), all
serve, and all hashes agree. A member whose cut log has grown since is replaced by a new one.

Of `what=tail`, the injector signal is where the log ended before and after the cut, by its own
records; what was preallocated behind them holds nothing, and to lose only that does not count.
Victim signal: the server says in its own log that it starts with a log which ends before an entry
that it had applied, and before the last entry that its file held. What etcd then does depends on
who leads: a leader that counts on the lost entries makes it panic, a new one feeds it anew. Both
count: it has started on the short log.

Catalogue: N19.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    NemesisContext,
    Option,
    Process,
    Replication,
    ServerLogs,
    Supervised,
    When,
)
from nemeses.base.driver import Facts, Healing, Observed, Reverted, with_facts
from nemeses.base.member_fault import MemberFault, bystanders, signal
from nemeses.base.schedule import WINDOW_OPTIONS, given_targets
from nemeses.member.asked import Damageable, Digests, Members, Revisions, Truncatable
from nemeses.member.membership import REJOIN_TRIES, Listing, incomplete, plain
from nemeses.observe.servers import ask_from_control, only_log, services_of


def tail_injector(record: LandingRecord, states: Mapping[str, Mapping[str, Any]]) -> Signal:
    """The file as it was, as it was left, and as it is; `states` as `flipped` says, per target."""
    problems, good = [], []
    known = {n: s for n, s in states.items() if s.get("at") is not None}
    for name in record.targets:
        state = known.get(name)
        if state is None:
            problems.append(f"{name}: nothing was cut off")
            continue
        bytes_gone, entries_gone = state["end"] - state["at"], state["last"] - state["kept"]
        if bytes_gone <= 0 or entries_gone <= 0:
            problems.append(f"{name}: what was cut off held nothing")
        if state["sha256_now"] == state["sha256"]:
            problems.append(f"{name}: its log is what it was before")
        good.append(
            f"{name}: {bytes_gone:,} of {state['end']:,} bytes of its log are gone, from "
            f"{state['at']:,} on, with {entries_gone:,} entries (sha256 "
            f"{state['cut_off_sha256'][:12]})"
        )
    return signal(
        "end of the write-ahead log, and size of its file",
        {n: [s["end"], s["size"]] for n, s in known.items()},
        {n: [s["at"], s["size_now"]] for n, s in known.items()}
        or dict.fromkeys(record.targets, "as before"),
        problems,
        "; ".join(good),
    )


def tail_victim(record: LandingRecord, states: Mapping[str, Mapping[str, Any]]) -> Signal:
    """The last entry that each server started with, against what it had applied and stored."""
    applied, starts = record.facts["applied_before"], record.facts["starts"]
    lines = record.facts["corruption_lines"]
    problems, good = [], []
    first = {n: next(iter(starts[n]), None) for n in record.targets}
    for name in record.targets:
        start, had, held = first[name], applied.get(name), states[name].get("last")
        if start is None or had is None:
            problems.append(f"{name} has not said with which log it starts, or started")
        elif held is None:
            problems.append(
                f"{name} starts with entry {start}, had {had} applied; its log was not cut"
            )
        elif start >= min(had, held):
            problems.append(f"{name} starts with entry {start}, had {had} applied, {held} stored")
        else:
            told = "; ".join(line[:200] for line in lines[name]) or "nothing about it"
            good.append(f"{name} starts with entry {start}, had {had} applied, and says: {told}")
    return signal(
        "entry of the log that each server had applied, and the last that it starts with",
        {n: applied.get(n) for n in record.targets},
        first,
        problems,
        "; ".join(good),
    )


def not_back(name: str, state: Mapping[str, Any], listing: Listing) -> list[str]:
    """What is missing: the end of the log, or another member in the place of this one."""
    if state["put_back"]:
        same = state["sha256"] == state["sha256_now"]
        return [] if same else [f"{name}: {state['path']} is not what it was before"]
    forgetful = f"{int(state['member']):x}"
    return [
        f"{node} still lists the member of {name} that forgot"
        for node, row in listing.items()
        if forgetful in (row or {})
    ]


STORED_S: Final = 3.0
TRIES: Final = 5
"""A hash is compared at a revision that every member has reached; one may just be behind."""


class BitFlip(MemberFault):
    """The `bit-flip` nemesis."""

    name = "bit-flip"
    taxdc = "crash-recovery"
    doc = "changes bytes of one member's own files, or cuts its log, and starts it on them"
    faults: tuple[str, ...] = ("N19",)
    explains: frozenset[str] = frozenset({"exit", "alarm", "fatal", "panic", "corruption"})
    requires = (Supervised, Damageable, Digests, Revisions, ServerLogs)
    requires_when = (When("what", "tail", (Members, Replication, Truncatable)),)
    options: Mapping[str, Option] = {
        "what": Option(
            type=str,
            default="log",
            choices=("log", "store", "tail"),
            help="one bit of an entry of the write-ahead log, a value in the database, or the last "
            "part of the write-ahead log is cut off",
        ),
        **WINDOW_OPTIONS,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """ConfigError where the members that have not forgotten what they acknowledged would be no
        majority: then the cluster may lose it, and that is no fault of its own."""
        if options["what"] == "tail" and (len(given_targets(options)) > 1 or len(nodes) < 3):
            raise ConfigError(
                "bit-flip: the log of one member of three or more can be cut, not of several",
                remedy="one node in -o targets=, --nodes 3 or more",
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """What to flip where."""
        return {
            "what": options["what"],
            "fraction": round(rng.uniform(0.2, 0.8), 3),
            "value": f"{rng.getrandbits(256):064x}",
        }

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        unflip = ctx.need(Damageable).unflip_command()
        if record.facts["what"] == "tail":
            return [unflip, *[ctx.need(Members).rejoin_command(False)] * REJOIN_TRIES]
        return [unflip]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        await ctx.need(Damageable).write_value(record.facts["value"])
        facts = {
            "log_bytes": await ctx.need(ServerLogs).log_sizes(),
            "values_before": await ctx.need(Damageable).own_values(),
            "hash_before": await _odd_ones(ctx),
        }
        if record.facts["what"] == "store":
            await _in_the_file(ctx, record.targets)
        if record.facts["what"] == "tail":
            facts["applied_before"] = only_log(await ctx.need(Replication).progress())
        return facts

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        if record.facts["what"] == "tail" and len(record.targets) > 1:  # as a schedule may ask
            raise LabError("the log of one member can be cut, not of several at once")
        for name in record.targets:
            await self.flip(ctx, record, name)

    async def flip(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        """Kill, flip, start; a test sabotages this."""
        facts = record.facts
        if facts["what"] == "log":
            await ctx.need(Damageable).flip_in_log(name, facts["fraction"])
        elif facts["what"] == "tail":
            cuts = ctx.need(Truncatable)
            await cuts.cut_log(name, facts["fraction"], facts["value"])
        else:
            files = ctx.need(Damageable)
            await files.flip_in_store(name, facts["value"], _wrong(facts["value"]))

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        """The record says what the bytes are afterwards."""
        put_back = {}
        for name in record.targets:
            put_back[name] = await ctx.need(Damageable).unflip(name)
            if record.facts["what"] == "tail":
                await ctx.need(Members).rejoin(name, learner=False)
        await ctx.need(Supervised).restart(record.targets)
        return Reverted(facts={"put_back": put_back})

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        targets = record.targets
        others = [n for n in ctx.nodes if n not in targets]
        states = {n: await ctx.need(Damageable).flipped(n) for n in targets}
        lines = await ctx.need(Damageable).corruption_lines(record.facts["log_bytes"])
        values = await ctx.need(Damageable).own_values()
        facts = {"flipped": states, "corruption_lines": lines, "values": values}
        record = with_facts(record, facts)
        hit = [f"{n} tells of corruption: {lines[n][0]}" for n in others if lines[n]]
        right = record.facts["value"]
        hit += [f"{n} holds {values[n]!r}" for n in others if values[n] not in (right, None)]
        what = record.facts["what"]
        if what == "tail":
            starts = await ctx.need(Truncatable).last_at_start(record.facts["log_bytes"])
            record = with_facts(record, {"starts": starts})
            hit += [f"{n} has started anew" for n in others if starts[n]]
            injector = tail_injector(record, states)
            victim = tail_victim(record, states)
        else:
            injector = _injector(states)
            victim = await (_refuses if what == "log" else _serves_it)(ctx, record)
        control = await bystanders(ctx, record, hit)
        return Observed(injector=injector, victim=victim, control=control, facts=record.facts)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """The bytes are back, every member holds the value, and all hashes agree."""
        problems = []
        listing = plain(await ctx.need(Members).listed()) if record.facts["what"] == "tail" else {}
        problems += incomplete(listing, list(ctx.nodes))
        for name in record.targets:
            state = record.facts.get("put_back", {}).get(name)
            problems += _not_back(name, state, listing) if state else []
            problems += [f"{name}: its bytes are still flipped"] if state is None else []
        values = await ctx.need(Damageable).own_values()
        right = record.facts["value"]
        problems += [f"{n} holds {values[n]!r}" for n in ctx.nodes if values[n] != right]
        odd = await _odd_ones(ctx)
        problems += [f"hashes differ: {odd}"] if odd else []
        return problems

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Bytes that are flipped still, copies aside, a member that is to be replaced."""
        left = ["flipped bytes"] if await ctx.need(Damageable).flipped(node.name) else []
        members = ctx.offered(Members)
        if members is not None and await members.doomed(node.name):
            left.append("is to join anew")
        return left


async def _in_the_file(ctx: NemesisContext, names: Sequence[str]) -> None:
    """Wait until what members hold is in the pages that they start from, three seconds at most.

    A kill between the writing of a page and of what points to it leaves a page that nobody reads.
    The first commit that ends may have begun before the value came, the second has not.
    """
    was = await ctx.need(Damageable).store_commits()
    deadline_ns = ctx.clock.now_ns() + int(STORED_S * 1e9)
    while ctx.clock.now_ns() < deadline_ns:
        now = await ctx.need(Damageable).store_commits()
        if all(_twice_since(was[n], now[n]) for n in names):
            return
        await asyncio.sleep(0.05)


def _twice_since(was: int | None, now: int | None) -> bool:
    return was is not None and now is not None and now >= was + 2


def _wrong(value: str) -> str:
    """One bit of the text's first character is another."""
    return chr(ord(value[0]) ^ 1) + value[1:]


def _injector(states: Mapping[str, Mapping[str, Any]]) -> Signal:
    rows = {
        f"{n}:{s['path'].rpartition('/')[2]}@{row['offset']}": row
        for n, s in states.items()
        for row in s.get("bytes", ())
    }
    problems = [f"{n}: nothing was flipped" for n, s in states.items() if not s]
    if any(s.get("what") == "log" for s in states.values()):
        problems += [
            f"{at} is {row['now']}" for at, row in rows.items() if row["now"] != row["new"]
        ]
    return signal(
        "bytes at the flipped offsets",
        {at: row["old"] for at, row in rows.items()},
        {at: row["now"] for at, row in rows.items()},
        problems,
        f"{len(rows)} places hold what the server never wrote",
    )


async def _refuses(ctx: NemesisContext, record: LandingRecord) -> Signal:
    """The server found the corruption and serves nobody."""
    lines, problems, found = record.facts["corruption_lines"], [], {}
    for name in record.targets:
        found[name] = len(lines[name])
        problems += [] if lines[name] else [f"{name} has logged no corruption"]
        probe = services_of(ctx, name)[0].probe
        if await ask_from_control(ctx.node(name).info.address, probe):
            problems.append(f"{name} serves")
    return signal(
        "lines about corruption in the server's log",
        dict.fromkeys(record.targets, 0),
        found,
        problems,
        "; ".join(f"{n} serves nobody and says: {lines[n][0]}" for n in found if lines[n]),
    )


async def _serves_it(ctx: NemesisContext, record: LandingRecord) -> Signal:
    """The server returns what was never written, and its state is not that of the others."""
    facts, problems = record.facts, []
    wrong, was, now = _wrong(facts["value"]), facts["values_before"], facts["values"]
    odd = await _odd_ones(ctx)
    for name in record.targets:
        problems += [] if was[name] == facts["value"] else [f"{name} held {was[name]!r} before"]
        problems += [] if now[name] == wrong else [f"{name} holds {now[name]!r}"]
    if facts["hash_before"]:
        problems.append(f"hashes differed before: {facts['hash_before']}")
    if odd != sorted(record.targets):
        problems.append(f"another hash: {', '.join(odd) or 'nobody'}")
    return signal(
        "the value as each member returns it",
        was,
        now,
        problems,
        f"{', '.join(record.targets)} returns what nobody wrote; its hash is another",
    )


async def _odd_ones(ctx: NemesisContext) -> list[str]:
    """Members whose hash at one revision is not that of most; all that differ, looked at anew."""
    odd: list[str] = []
    for _ in range(TRIES):
        reached = [r for r in (await ctx.need(Revisions).revisions()).values() if r is not None]
        hashes = await ctx.need(Digests).hashes(min(reached, default=0))
        known = [h for h in hashes.values() if h is not None]
        usual = max(set(known), key=known.count) if known else None
        odd = sorted(n for n, h in hashes.items() if h is None or h != usual)
        if not odd or len(known) == len(hashes):
            break
        await asyncio.sleep(0.1)
    return odd


def _not_back(name: str, state: Mapping[str, Any], listing: Listing) -> list[str]:
    if "put_back" in state:
        return not_back(name, state, listing)
    if state["what"] == "log":
        same = state["sha256"] == state["sha256_now"]
        return [] if same else [f"{name}: {state['path']} is not what it was before"]
    return []


NEMESIS = BitFlip()
