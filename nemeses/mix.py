"""Several nemeses in one run: kinds drawn from a weighted bag, one fault at a time or two at once.

The members share one set of windows, since they share the options that make them; an option by
which they mean different things is given to each as `NEMESIS.key`. By default each
window goes to one member, which thus never meets the faults of another. With `-o at_once=2` two
members of different lanes (`base/driver.py`) share most windows: a storm. Every record is judged
as its own. Not in a mix is what takes others' work with it, as `restart` of whole nodes, and what
does not come in every window, as `upgrade`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.near import meant
from dstest.core.protocols import (
    FaultPlan,
    Foresees,
    Lasting,
    Nemesis,
    NemesisContext,
    Option,
    PlanOptions,
    Prepares,
    Ticking,
    Ticks,
    Withdraws,
    lacking_of,
)
from dstest.core.run_words import number
from nemeses.base.driver import Driver, Overlap
from nemeses.base.schedule import time_for

_WEIGHT_MAX: Final = 1000
_ALONE: Final = 0.25
"""Share of a storm's windows in which a fault stands alone that could have another beside it."""


def parse_weights(text: str, names: Sequence[str]) -> dict[str, int]:
    """`kill:2,partition:1` as a mapping; names that are left out weigh 1. Raises ConfigError."""
    weights = dict.fromkeys(names, 1)
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, number = part.partition(":")
        if name not in weights:
            raise ConfigError(f"-o weights: {name!r} is not in this run", remedy=meant(name, names))
        if not number.isdecimal() or not 1 <= int(number) <= _WEIGHT_MAX:
            raise ConfigError(
                f"-o weights: {part!r}: a weight is a whole number from 1 to {_WEIGHT_MAX}",
                remedy=f"-o weights={name}:2",
            )
        weights[name] = int(number)
    return weights


_OWN: Final[Mapping[str, Option]] = {
    "at_once": Option(
        type=int, default=1, choices=(1, 2), help="faults that stand at the same time, at most"
    ),
    "weights": Option(
        type=str, default="", help="how often each kind comes, such as kill:2,partition:1"
    ),
}


def _qualify(member: Nemesis, key: str) -> str:
    return f"{member.name}.{key}"


def _merge(members: Sequence[Nemesis]) -> dict[str, Option]:
    """All options. One that all who declare it mean alike is given once, for all of them; one that
    means different things is given to each of them apart, as `NEMESIS.key`.
    """
    meanings: dict[str, list[Option]] = {key: [option] for key, option in _OWN.items()}
    for member in members:
        for key, option in member.options.items():
            known = meanings.setdefault(key, [])
            known += [option] if option not in known else []
    found = dict(_OWN)
    for member in members:
        for key, option in member.options.items():
            found[key if len(meanings[key]) == 1 else _qualify(member, key)] = option
    return found


def _times(plans: Sequence[FaultPlan]) -> list[tuple[int, int]]:
    return [(plan.start_ns, plan.duration_ns) for plan in plans]


class Mix(Nemesis):
    """The nemeses `members` in one run."""

    def __init__(self, members: Sequence[Nemesis]) -> None:
        self.parts: Mapping[str, Nemesis] = {member.name: member for member in members}
        self._overlaps = {member.name: _overlap_of(member) for member in members}
        alone = [member.name for member in members if member.restarts_nodes]
        if alone:
            raise ConfigError(
                f"{', '.join(alone)} takes with the nodes what others need there",
                remedy=f"--nemesis {alone[0]} in a run of its own",
            )
        self.name = ",".join(self.parts)
        self.doc = "one fault at a time, or two at once, of: " + ", ".join(self.parts)
        self.faults: tuple[str, ...] = tuple(dict.fromkeys(f for m in members for f in m.faults))
        self.requires: tuple[type, ...] = tuple(
            dict.fromkeys(asked for m in members for asked in getattr(m, "requires", ()))
        )
        self.options: Mapping[str, Option] = _merge(members)

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Each window with the next fault of the kind that was drawn for it.

        ConfigError where a kind gets no window: a run that names it must test it.
        """
        weights = parse_weights(options["weights"], list(self.parts))
        offers = {
            name: member.plan(
                random.Random(rng.getrandbits(64)),
                nodes,
                time_limit_s,
                PlanOptions(self._of(member, options), lacking_of(options)),
            )
            for name, member in self.parts.items()
        }
        first, *others = offers
        mismatched = [name for name in others if _times(offers[name]) != _times(offers[first])]
        if mismatched:
            raise ConfigError(
                f"--nemesis {self.name}: {', '.join(mismatched)} not in the windows of {first}",
                remedy="one run for each of them",
            )
        windows = list(zip(*offers.values(), strict=True))
        at_once = int(options["at_once"])
        chosen = _kinds_per_window(weights, self._overlaps, len(windows), at_once, rng)
        queues = {name: iter(offer) for name, offer in offers.items()}
        plans: list[FaultPlan] = []
        for kinds, window in zip(chosen, windows, strict=True):
            concurrent_faults = [next(queues[kind]) for kind in kinds]
            for plan in _drop_conflicting(concurrent_faults, self._overlaps):
                plans.append(
                    msgspec.structs.replace(
                        plan,
                        fault_id=f"f{len(plans) + 1}",
                        start_ns=window[0].start_ns,
                        duration_ns=window[0].duration_ns,
                        heal_rank=self._overlaps[plan.nemesis].heal_order,
                    )
                )
        absent = [name for name in offers if name not in {plan.nemesis for plan in plans}]
        if absent:
            count = f"{len(windows)} fault{'s' if len(windows) != 1 else ''}"
            needed = time_for(len(offers), options["fault_s"], options["quiet_s"])
            raise ConfigError(
                f"--time-limit {number(time_limit_s)} has room for {count}, which "
                f"leaves none for {', '.join(absent)}",
                remedy=f"--time-limit {needed} or more, a smaller -o fault_s or -o quiet_s",
            )
        return plans

    def _of(self, member: Nemesis, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options as this member knows them: its own values under their plain names."""
        own = {key: _qualify(member, key) for key in member.options}
        return {**options, **{k: options[name] for k, name in own.items() if name in self.options}}

    def _seen_by(self, member: Nemesis, ctx: NemesisContext) -> NemesisContext:
        return msgspec.structs.replace(ctx, options=self._of(member, ctx.options))

    async def prepare(self, ctx: NemesisContext) -> None:
        for member in self.parts.values():
            if isinstance(member, Prepares):
                await member.prepare(self._seen_by(member, ctx))

    async def foresee(self, ctx: NemesisContext) -> str:
        ones = [member for member in self.parts.values() if isinstance(member, Foresees)]
        said = [await one.foresee(self._seen_by(one, ctx)) for one in ones]
        return "; ".join(dict.fromkeys(filter(None, said)))

    async def withdraw(self, ctx: NemesisContext) -> None:
        for member in self.parts.values():
            if isinstance(member, Withdraws):
                await member.withdraw(self._seen_by(member, ctx))

    async def setup(self, ctx: NemesisContext) -> None:
        for member in self.parts.values():
            await member.setup(self._seen_by(member, ctx))

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        member = self.parts[plan.nemesis]
        return await member.inject(self._seen_by(member, ctx), plan)

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        member = self.parts[record.nemesis]
        return await member.recheck(self._seen_by(member, ctx), record)

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        member = self.parts[record.nemesis]
        if not isinstance(member, Ticking):
            return None
        return await member.ticks(self._seen_by(member, ctx), record)

    async def in_force(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        member = self.parts[record.nemesis]
        if not isinstance(member, Lasting):
            return None
        return await member.in_force(self._seen_by(member, ctx), record)

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        member = self.parts[record.nemesis]
        return await member.heal(self._seen_by(member, ctx), record)

    async def teardown(self, ctx: NemesisContext) -> None:
        for member in self.parts.values():
            await member.teardown(self._seen_by(member, ctx))

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """What any member finds, each thing once."""
        found: dict[str, list[str]] = {}
        for member in self.parts.values():
            for node, rows in (await member.audit(self._seen_by(member, ctx))).items():
                known = found.setdefault(node, [])
                known += [row for row in rows if row not in known]
        return found


def _overlap_of(member: Nemesis) -> Overlap:
    """A nemesis that does not say stands alone."""
    return member.overlap if isinstance(member, Driver) else Overlap()


def _drop_conflicting(
    concurrent_faults: list[FaultPlan], overlaps: Mapping[str, Overlap]
) -> list[FaultPlan]:
    """In the order of injection, without what would leave a fault for the leader without one.

    The first one itself stays: its kind was drawn for this window.
    """
    first, kept = concurrent_faults[0], concurrent_faults
    if any(plan.facts.get("scope") == "primaries" for plan in concurrent_faults):
        losing = [p for p in concurrent_faults if overlaps[p.nemesis].may_lose_leader]
        kept = [first] if first in losing else [p for p in concurrent_faults if p not in losing]
    return sorted(kept, key=lambda plan: overlaps[plan.nemesis].inject_order)


def _kinds_per_window(
    weights: Mapping[str, int],
    overlaps: Mapping[str, Overlap],
    count: int,
    at_once: int,
    rng: random.Random,
) -> list[list[str]]:
    """Per window, the kinds that stand in it; the first is the one drawn for it."""
    drawn = _draw(weights, rng)
    found = []
    for _ in range(count):
        kinds = [next(drawn)]
        lane = overlaps[kinds[0]].lane
        others = [name for name in weights if lane and overlaps[name].lane not in ("", lane)]
        if at_once > 1 and others and rng.random() >= _ALONE:
            kinds += rng.choices(others, [weights[name] for name in others])
        found.append(kinds)
    return found


def _draw(weights: Mapping[str, int], rng: random.Random) -> Iterator[str]:
    """Kinds for ever: each kind once in a random order first, then bags filled by weight."""
    bag = list(weights)
    while True:
        rng.shuffle(bag)
        yield from bag
        bag = [name for name, weight in weights.items() for _ in range(weight)]
