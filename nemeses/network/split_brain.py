"""`split-brain`: the leader is cut off, and for a while two nodes claim to lead.

The leader is isolated as by `partition`, and every node is asked without pause whom it takes for
the leader. A system with terms lets a leader that hears nobody go on until it notices, while the
others elect another. Where the old one notices first, or nobody is elected in the time of a
failover, the network is mended and the new leader cut off in its turn, up to `rounds` times.

Injector signal: packets of the system's traffic that each drop rule counted. Victim signal: two
nodes claimed to lead at the same time. A claim is the node's own word: it names itself. A leader
that hears nobody cannot be elected again, so between two claims of its own it led all the time;
another's claim was asked and answered inside that time. All times are of one clock, the control
host's. Control: datagrams on the paths that were not cut. It has healed when nothing is dropped and
probes pass on every path.

etcd names the term of the last entry applied, so the terms of two leaders may be told as the same.

Catalogue: N26.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Leadership, NemesisContext, Option
from nemeses.base.driver import Facts, Observed, with_facts
from nemeses.base.leadership import agreement, lead_when_known
from nemeses.base.path_fault import sources_by_node
from nemeses.base.paths import (
    Reached,
    alive,
    cuts_for,
    evidence,
    packets_before,
    reach_now,
    token_during,
    use_of,
)
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.network.rules import RuleFault, cut_rules, draw_action
from nemeses.observe.servers import leaders_of

ROUND_LEAST_S: Final = 5.0
NOTICED_ANSWERS: Final = 2
"""A leader that has not claimed to lead for as long as so many answers may take has noticed: or is
slow, so that this ends no round at its beginning."""

POLL_S: Final = 0.1
ROUNDS_MAX: Final = 6
ASK_AGAIN_S: Final = 0.02
"""Between an answer and the next question to a node: two leaders at once may be few moments."""


class Claim(msgspec.Struct, frozen=True):
    """A node said that it leads. It meant some instant between question and answer (run time)."""

    node: str
    asked_ns: int
    answered_ns: int


class Rivals(msgspec.Struct, frozen=True):
    """Two leaders at one time: `old` led from before `at_ns` until after `until_ns`."""

    old: str
    new: str
    at_ns: int
    until_ns: int


def rivals(claims: Sequence[Claim], old: str) -> Rivals | None:
    """The first proof that another led while `old` did, None where there is none.

    All claims must be from the time in which `old` was cut off.
    """
    mine = [claim for claim in claims if claim.node == old]
    if not mine:
        return None
    first_ns = min(claim.answered_ns for claim in mine)
    last_ns = max(claim.asked_ns for claim in mine)
    others = [
        claim
        for claim in claims
        if claim.node != old and first_ns <= claim.asked_ns and claim.answered_ns <= last_ns
    ]
    if not others:
        return None
    new = min(others, key=lambda claim: claim.answered_ns)
    return Rivals(old, new.node, new.answered_ns, last_ns)


class SplitBrain(RuleFault):
    """The `split-brain` nemesis."""

    name = "split-brain"
    taxdc = "partition"
    taxdc_tags: frozenset[str] = frozenset({"leadership/election"})
    doc = "cuts the leader off until two nodes claim to lead at once"
    faults: tuple[str, ...] = ("N26",)
    requires: tuple[type, ...] = (*RuleFault.requires, Leadership)
    options: Mapping[str, Option] = {
        "rounds": Option(
            type=int,
            default=4,
            least=1,
            most=ROUNDS_MAX,
            help="how many leaders are cut off in turn until two claim to lead",
        ),
        **{k: v for k, v in WINDOW_OPTIONS.items() if k != "targets"},
    }

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those of a partition of the leader."""
        return {
            **options,
            "shape": "leader",
            "direction": "both",
            "action": "drop",
            "targets": "",
        }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        drawn = draw_action(rng, options, clients=False)
        return {**drawn, "rounds": int(options["rounds"]), "round": 1, "rivals": None}

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        return cut_rules(ctx, record, name, sources, self.hook)

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        return await reach_now(ctx, token)

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not alive(result)]

    async def after_apply(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Watch the claims; cut the next leader off where this one noticed too early."""
        while True:
            found = await self._watch(ctx, record.targets[0], record.facts.get("group", ""))
            if found is not None:
                record = with_facts(record, {"rivals": msgspec.to_builtins(found)})
            if found is not None or record.facts["round"] >= record.facts["rounds"]:
                return record
            record, again = await self._next_round(ctx, record)
            if not again:
                return record

    async def _watch(self, ctx: NemesisContext, old: str, group: str) -> Rivals | None:
        """Ask each node without pause until two claims to lead this group overlap.

        Gives up after a failover's time, or, after a while, once the old leader no longer claims to
        lead: it cannot win another election while it is cut off.
        """
        claims: list[Claim] = []
        timing = ctx.deployment.timing
        began_ns = ctx.clock.now_ns()
        deadline_ns = began_ns + int(timing.failover_s * 1e9)
        least_ns = began_ns + int(ROUND_LEAST_S * 1e9)
        notice_ns = int(NOTICED_ANSWERS * timing.answer_s * 1e9)
        found: list[Rivals] = []
        members = ctx.need(Leadership)

        def end_ns() -> int:
            last_ns = max((c.answered_ns for c in claims if c.node == old), default=began_ns)
            return min(deadline_ns, max(least_ns, last_ns + notice_ns))

        async def ask(name: str) -> None:
            while not found and ctx.clock.now_ns() < end_ns():
                asked_ns = ctx.clock.now_ns()
                if await members.claims(name, group):
                    claims.append(Claim(name, asked_ns, ctx.clock.now_ns()))
                    if (proof := rivals(claims, old)) is not None:
                        found.append(proof)
                await asyncio.sleep(ASK_AGAIN_S)

        await asyncio.gather(*map(ask, ctx.nodes))
        return found[0] if found else None

    async def _next_round(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> tuple[LandingRecord, bool]:
        """Mend the network, wait until all follow one leader, cut that one off, if there is one."""
        await self.remove(ctx, record)
        deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.rejoin_s * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            if not agreement(await leaders_of(ctx, ctx.need(Leadership)), ctx.nodes):
                break
            await asyncio.sleep(POLL_S)
        lead = await lead_when_known(ctx, seed=record.facts["seed"])
        if lead.leader is None:
            return record, False
        cut = cuts_for("leader", "both", list(ctx.nodes), random.Random(0), leader=lead.leader)
        facts = {
            "round": record.facts["round"] + 1,
            **lead.facts(),
            **use_of(ctx, await packets_before(ctx, cut.cuts)),
        }
        record = msgspec.structs.replace(with_facts(record, facts), targets=cut.targets)
        by_node = {name: rows for name, rows in sources_by_node(record).items() if rows}
        await asyncio.gather(*(self.apply_to(ctx, record, n, rows) for n, rows in by_node.items()))
        return record, True

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        """A partition's signals; the victim's is two leaders at once."""
        found = await evidence(ctx, record, token_during(ctx, record))
        return msgspec.structs.replace(found, victim=_claimed(record, found.victim))


def _claimed(record: LandingRecord, victim: Signal) -> Signal:
    """The victim signal of a partition, which counts only where two claimed to lead."""
    found = record.facts["rivals"]
    if found is None:
        detail = f"no two nodes claimed to lead at once, in {record.facts['round']} rounds"
        return msgspec.structs.replace(victim, moved=False, detail=f"{victim.detail}; {detail}")
    ms = round((found["until_ns"] - found["at_ns"]) / 1e6)
    detail = f"{found['new']} claimed to lead, and {found['old']} still did {ms} ms later or more"
    return msgspec.structs.replace(victim, detail=f"{victim.detail}; {detail}")


NEMESIS = SplitBrain()
