"""From a toolbox and candidate claims to claims, hypotheses and what could test them, with the
options of a nemesis that a fault asks for, where their defaults may not bring it about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from dstest.campaign.fit import planned_faults
from dstest.campaign.launch import Arm, Budget, Run
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.judge.facts import SHAPES, TIER_NEEDS
from dstest.plans.choice import PICKER, PITFALLS, Choice, Pattern, Tool, Toolbox, fitting_nemeses
from dstest.plans.draft.sources import Candidate
from dstest.plans.model import BUDGETS, Claim, Hypothesis

_AIMS: Final = MappingProxyType(
    {
        "N06": {"direction": "in"},
        "N10": {"shape": "one"},
        "N11": {"shape": "majority"},
        "N12": {"shape": "leader"},
    }
)
"""Number of a fault -> options, of a nemesis that has them with these values among its choices."""

KIND_OF: Final = MappingProxyType(
    {
        "safety": "correctness",
        "durability": "durability",
        "idempotency": "idempotency/replay",
        "isolation": "correctness",
        "ordering": "correctness",
        "membership": "configuration",
        "boundary": "configuration",
        "liveness": "liveness",
        "fairness": "performance/fairness",
        "performance-SLO": "performance/fairness",
        "operational": "upgrade/rollback",
    }
)
"""Category of claims -> the kind of a hypothesis that comes from no pitfall."""

FILL: Final = "<fill: {}>"
"""What only a person can write."""

_RATE: Final = 300.0
_TRIES: Final = 3

Key = tuple[str, str, str]
"""Workload, nemesis and options of an experiment."""


def aim(number: str, nemesis: Any) -> dict[str, str] | None:
    """The options by which a nemesis brings a fault about, None where it has no such options."""
    wanted = _AIMS.get(number, {})
    for key, value in wanted.items():
        if key not in nemesis.options or value not in nemesis.options[key].choices:
            return None
    return dict(wanted)


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario to be: which `claims` and `hypotheses` it is about, judged as `row` says, under
    fault `number`, and how it is run."""

    row: Choice
    claims: tuple[str, ...]
    hypotheses: tuple[str, ...]
    number: str
    run: Run
    budgets: dict[str, Budget]


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan can say by itself. `walk` is for each pitfall by number: `y`, `n` or `maybe`
    and the hypotheses or the reason. `untested` are claims that nothing tests, with the reason."""

    claims: tuple[Claim, ...]
    hypotheses: tuple[Hypothesis, ...]
    experiments: tuple[Experiment, ...]
    walk: dict[int, tuple[str, str]]
    untested: dict[str, str]


def material(box: Toolbox, found: Sequence[Candidate] | None, *, each: int = 1) -> Material:
    """What the registry gives for these candidates; for one claim of each kind that can be tested
    where `found` is None, since nobody has looked. `each` is under how many of its faults a pitfall
    is tested at most."""
    rows = {(tool.category, tool.model): tool for tool in box.tools if tool.usable}
    usable = [row for row in PICKER if (row.category, row.model) in rows]
    claims, picked = _claims(usable, found)
    return _Drafter(box, rows, claims, picked, each).material()


def _claims(
    usable: list[Choice], found: Sequence[Candidate] | None
) -> tuple[list[Claim], dict[str, list[Choice]]]:
    """Claims, and for each the rows of the picker that may judge it."""
    claims: list[Claim] = []
    picked: dict[str, list[Choice]] = {}
    if found is None:
        for number, row in enumerate(usable, 1):
            source = FILL.format("where the system's documents promise it")
            claims.append(
                Claim(
                    line=0,
                    id=f"C{number}",
                    text=row.promise,
                    category=row.category,
                    source=source,
                    inferred=True,
                )
            )
            picked[f"C{number}"] = [row]
    for number, one in enumerate(found or (), 1):
        id = f"C{number}"
        claims.append(
            Claim(
                line=0,
                id=id,
                text=one.text,
                category=one.category,
                source=one.source,
                inferred=one.inferred,
            )
        )
        picked[id] = [row for row in usable if row.category == one.category][:1]
    return claims, picked


class _Drafter:
    def __init__(
        self,
        box: Toolbox,
        rows: dict[tuple[str, str], Tool],
        claims: list[Claim],
        picked: dict[str, list[Choice]],
        each: int,
    ) -> None:
        self._each = each
        self._box, self._rows, self._claims, self._picked = box, rows, claims, picked
        self._nemeses, _ = fitting_nemeses(registry.load("systems", box.system))
        self._hypotheses: list[Hypothesis] = []
        self._made: dict[Key, Experiment] = {}
        self._walk: dict[int, tuple[str, str]] = {}

    def material(self) -> Material:
        for pattern in PITFALLS:
            self._walk[pattern.number] = self._one(pattern)
        tested = {id for one in self._made.values() for id in one.claims}
        untested = {}
        for claim in self._claims:
            if claim.id not in tested and not self._plain(claim):
                why = "no checker with a workload for such claims fits the system"
                untested[claim.id] = (
                    why if not self._picked[claim.id] else "no fault could be planned"
                )
        return Material(
            claims=tuple(self._claims),
            hypotheses=tuple(self._hypotheses),
            experiments=tuple(one for one in self._made.values() if one.claims),
            walk=self._walk,
            untested=untested,
        )

    def _one(self, pattern: Pattern) -> tuple[str, str]:
        """A hypothesis from a pitfall, with its experiment; or why there is none."""
        mine = [claim for claim in self._claims if claim.category in pattern.categories]
        if not mine:
            return "n", "no claim of its category is made"
        by_row: dict[str, tuple[Choice, list[Claim]]] = {}
        for claim in mine:
            for row in self._picked[claim.id]:
                if row.judged_by & {*pattern.models}:
                    by_row.setdefault(f"{row.category}/{row.model}", (row, []))[1].append(claim)
        known = {model: place for place, model in enumerate(pattern.models)}
        best = sorted(
            by_row.values(), key=lambda one: min(known.get(m, 99) for m in one[0].judged_by)
        )
        for row, claims in best:
            made = [key for number in pattern.faults if (key := self._experiment(row, [number]))]
            if made:
                id = self._hypothesis(pattern.kind, pattern.statement, claims, pattern.because, row)
                for key in [*dict.fromkeys(made)][: self._each]:
                    self._closes(key, claims, id)
                return "y", id
        asked = ", ".join(claim.id for claim in mine[:5])
        return "maybe", f"of {asked}; no workload, checker and fault for it fit together"

    def _plain(self, claim: Claim) -> bool:
        """A hypothesis of its own for a claim that no pitfall is about; False where none fits."""
        for row in self._picked[claim.id]:
            tool = self._rows[row.category, row.model]
            numbers = [
                number
                for name in [*tool.nemeses, *self._nemeses]
                for number in self._nemeses[name].faults
            ]
            key = self._experiment(row, dict.fromkeys(numbers))
            if key is not None:
                fault = self._made[key].run.nemesis
                statement = f"under {fault} it does not hold that {_lower(claim.text)}"
                because = "what holds on a whole cluster is often not what holds on half of one"
                id = self._hypothesis(KIND_OF[claim.category], statement, [claim], because, row)
                self._closes(key, [claim], id)
                return True
        return False

    def _hypothesis(
        self, kind: str, statement: str, claims: list[Claim], because: str, row: Choice
    ) -> str:
        id = f"H{len(self._hypotheses) + 1}"
        self._hypotheses.append(
            Hypothesis(
                line=0,
                id=id,
                category=kind,
                statement=statement,
                claims=tuple(claim.id for claim in claims),
                because=because,
                subsystem=row.model if row.model != "any" else "the whole",
            )
        )
        return id

    def _experiment(self, row: Choice, numbers: Iterable[str]) -> Key | None:
        """The key of an experiment under the first of these faults that can be planned; it is made
        where there is none yet."""
        tool = self._rows[row.category, row.model]
        for number in numbers:
            for name, nemesis in self._nemeses.items():
                options = aim(number, nemesis) if number in nemesis.faults else None
                if options is None:
                    continue
                for workload in tool.workloads[:3]:
                    key = (workload, name, repr(sorted(options.items())))
                    if key in self._made:
                        if self._made[key].row == row:
                            return key
                        continue
                    run = self._run(row, tool, workload, name, options)
                    budgets = _budgets(run)
                    if budgets:
                        self._made[key] = Experiment(
                            row=row, claims=(), hypotheses=(), number=number, run=run,
                            budgets=budgets,
                        )  # fmt: skip
                        return key
        return None

    def _run(
        self, row: Choice, tool: Tool, workload: str, nemesis: str, options: dict[str, Any]
    ) -> Run:
        besides = tuple(tool.checkers[:1]) if tool.besides else ()
        paced = tool.besides or row.category == "fairness"
        return Run(
            system=self._box.system,
            workload=workload,
            nemesis=nemesis,
            checkers=(*registry.load("workloads", workload).checkers, *besides),
            checker=besides,
            plugin=tuple(map(_from_here, registry.files_in_use())),
            concurrency=20,
            rate=_RATE if paced else None,
            options={**options, **row.options},
            arms=_arms(row, workload),
        )

    def _closes(self, key: Key, claims: list[Claim], id: str) -> None:
        one = self._made[key]
        self._made[key] = msgspec.structs.replace(
            one,
            claims=tuple(dict.fromkeys([*one.claims, *(claim.id for claim in claims)])),
            hypotheses=(*one.hypotheses, id),
        )


def _arms(row: Choice, workload: str) -> tuple[Arm, ...]:
    """An arm for each surface, where an option of the workload chooses between them."""
    option = registry.load("workloads", workload).options.get(row.arms_by)
    return tuple(
        Arm(
            name=f"by-{choice}".replace("_", "-"),
            surface=f"groups by {choice}",
            options={row.arms_by: choice},
        )
        for choice in (option.choices if option is not None else ())
    )


def _from_here(path: Path) -> str:
    """As it is named on the command line."""
    here = Path.cwd()
    return f"./{path.relative_to(here).as_posix()}" if path.is_relative_to(here) else str(path)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def _budgets(run: Run) -> dict[str, Budget]:
    """The budgets of all tiers, with two thirds of the faults that are planned in the time; empty
    where one cannot be planned, or never has faults enough."""
    found: dict[str, Budget] = {}
    for tier in BUDGETS:
        shape = next(one for name, one in SHAPES.items() if name == tier)
        need = int(next(numbers for name, numbers in TIER_NEEDS.items() if name == tier)["faults"])
        sizes = ((3,), shape.sizes[:1]) if tier == BUDGETS[0] else (shape.sizes,)
        budget = next(filter(None, (_budget(run, s, shape, need) for s in sizes)), None)
        if budget is None:
            return {}
        found[tier] = budget
    return found


def _budget(run: Run, sizes: tuple[int, ...], shape: Any, need: int) -> Budget | None:
    seconds = shape.time_limit_s
    for _ in range(_TRIES):
        budget = Budget(nodes=sizes, duration_s=seconds, faults=0, seeds=shape.seeds)
        try:
            counts = [planned_faults(run, Arm(name=""), budget, size) for size in sizes]
        except ConfigError:
            return None
        if min(counts) >= need:
            return msgspec.structs.replace(budget, faults=max(need, min(counts) * 2 // 3))
        seconds = float(round(seconds * max(1.5, need / max(1, min(counts))) + 10))
    return None
