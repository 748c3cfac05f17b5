"""What a test plan holds, item by item, each with the line where it stands.

A plan is a Markdown file with front matter and the sections 0 to 9 of discipline 6.1 (`reader.py`).
Lines count from 1 in the file. Nothing here is checked but by type: that is what `lint/` does.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dstest.core.claims import GATED
from dstest.core.tiers import LEVELS, Level
from dstest.plans.launch import Arm, Budget, Red, Run, argv_of, red_side
from dstest.plans.words import ids

BudgetName = Level

BUDGETS: Final = LEVELS


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Anything of a plan that a finding can point at; `line` is where it begins."""

    line: int


class Front(Item, frozen=True, kw_only=True):
    """The front matter. `mode` is `change-scoped` or `project-wide`, `status` is `draft`,
    `reviewed` or `executed`; `change` is empty in a project-wide plan. `sut` is a description,
    `system` the plug-in that the scenarios run."""

    slug: str
    date: str = ""
    mode: str = ""
    sut: str = ""
    system: str = ""
    change: str = ""
    author: str = ""
    status: str = ""


class Part(Item, frozen=True, kw_only=True):
    """What stands below a heading of the third level: a paragraph of section 2, say."""

    title: str
    text: str


class Section(Item, frozen=True, kw_only=True):
    """A section by its id (`0`, `1b`, `7d`): its text without headings and tables, the Markdown of
    it as it stands (`source`), its parts, and its `- **Name:** text` lines by name in lower
    case."""

    id: str
    title: str
    text: str
    source: str
    parts: tuple[Part, ...] = ()
    fields: dict[str, str] = {}

    def field(self, name: str) -> str:
        """As `Gated.field`."""
        return self.fields.get(name.casefold(), "")


class Claim(Item, frozen=True, kw_only=True):
    """1b. `category` is one of `dstest.core.claims.CATEGORIES`; `inferred`: nobody wrote it down as
    a promise, we take it from a test, an error or the code."""

    id: str
    text: str
    category: str
    source: str
    inferred: bool


class Obligation(Item, frozen=True, kw_only=True):
    """1b. A requirement, in the words of its source, and the claims that stand for it."""

    id: str
    text: str
    source: str
    claims: tuple[str, ...]


class Invariant(Item, frozen=True, kw_only=True):
    """1b. What must hold for claims to be true. `by` says who executes it: `spec NAME ID`, or
    `checker NAME`."""

    id: str
    text: str
    by: str
    claims: tuple[str, ...]


class MissingClaim(Item, frozen=True, kw_only=True):
    """1c. A behaviour of which the project says nothing, with the evidence that there is one."""

    id: str
    behaviour: str
    source: str
    action: str


class Inventory(Item, frozen=True, kw_only=True):
    """3. A test that exists."""

    test: str
    subsystem: str
    invariant: str
    failure_modes: str


class Hypothesis(Item, frozen=True, kw_only=True):
    """4. How a claim could be false."""

    id: str
    category: str
    statement: str
    claims: tuple[str, ...]
    because: str
    subsystem: str


class CategoryRow(Item, frozen=True, kw_only=True):
    """4. One of the eight kinds of hypotheses: those of it, or why it does not apply."""

    name: str
    hypotheses: tuple[str, ...]
    reason: str


class Pitfall(Item, frozen=True, kw_only=True):
    """4. One of the sixteen pitfalls: `applies` is `y`, `n` or `maybe`."""

    number: str
    name: str
    applies: str
    notes: str


class Coverage(Item, frozen=True, kw_only=True):
    """5. A claim under a hypothesis. `verdict` is `covered`, `partial` or `not covered`; `gap` is
    what existing tests leave open, and the scenarios close it."""

    claim: str
    hypothesis: str
    tests: str
    verdict: str
    gap: str
    scenarios: tuple[str, ...]


class Technique(Item, frozen=True, kw_only=True):
    """6."""

    name: str
    hypotheses: tuple[str, ...]
    catches: str
    reference: str
    cost: str


class Requirement(Item, frozen=True, kw_only=True):
    """6b. What a scenario needs of the machines. `needs` is the word that dstest has for it: a
    plug-in as `nemesis partition` or `checker order`, a feature of nodes, or a package."""

    needs: str
    floor: str
    scenarios: tuple[str, ...]
    install: str


class Threat(msgspec.Struct, frozen=True, kw_only=True):
    """7b. `letter` names it in the row; `text` is what it is, best with the number of a fault."""

    letter: str
    text: str
    scenarios: tuple[str, ...]


class Adequacy(Item, frozen=True, kw_only=True):
    """7b. Which threats a claim is tested under, by which scenarios, and why that is enough."""

    claim: str
    threats: tuple[Threat, ...]
    why: str


class Residual(Item, frozen=True, kw_only=True):
    """7c. What stays uncertain."""

    uncertainty: str
    why: str
    acceptable: str
    revisit: str


class Question(Item, frozen=True, kw_only=True):
    """9."""

    question: str
    owner: str
    by: str


class Gated(Item, frozen=True, kw_only=True):
    """7.M: what a claim needs that only a history can falsify. `not_applicable` is the line that
    stands there where no such claim is; then all fields are empty."""

    fields: dict[str, str] = {}
    not_applicable: str = ""

    def field(self, name: str) -> str:
        """Its text, empty where it is not there. Names are without regard to case."""
        return self.fields.get(name.casefold(), "")


class Surfaces(Item, frozen=True, kw_only=True):
    """7.M.S: what a boundary or fairness claim needs. `arms` are the names in its field
    `Scenario arms`; those with `NOT-RUN` or `PARTIAL` behind them are in `untested` as well."""

    fields: dict[str, str] = {}
    surfaces: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()

    def field(self, name: str) -> str:
        """As `Gated.field`."""
        return self.fields.get(name.casefold(), "")


class Skeleton(Item, frozen=True, kw_only=True):
    """The beginning of a test file that a person fills."""

    language: str
    text: str


class Scenario(Item, frozen=True, kw_only=True):
    """7. One experiment. `fields` are all `- **Name:** text` lines by name in lower case, with the
    line of each in `lines`. `budgets` has those that are numbers; `reasons` what stands in the
    place of one that is not given. `run` is what dstest executes, None where it does not say."""

    id: str
    name: str
    falsifies: tuple[str, ...]
    closes: tuple[str, ...]
    fields: dict[str, str]
    lines: dict[str, int]
    budgets: dict[str, Budget]
    reasons: dict[str, str]
    run: Run | None = None
    gated: Gated | None = None
    surfaces: Surfaces | None = None
    skeleton: Skeleton | None = None

    def field(self, name: str) -> str:
        """As `Gated.field`."""
        return self.fields.get(name.casefold(), "")

    def place(self, name: str) -> int:
        """The line of a field; that of the scenario where it is not there."""
        return self.lines.get(name.casefold(), self.line)

    @property
    def invariants(self) -> tuple[str, ...]:
        """The ids of those that its runs execute."""
        return ids(self.field("invariants"))

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that are executed; one without a name where the plan gives none."""
        if self.run is None:
            return ()
        given = tuple(arm for arm in self.run.arms if arm.runs)
        return given if self.run.arms else (Arm(name=""),)

    def arm_id(self, arm: Arm) -> str:
        """`S5/api`; `S5` for the arm without a name."""
        return f"{self.id}/{arm.name}" if arm.name else self.id

    def arguments(self, budget: str, arm: Arm | None = None) -> list[str]:
        """The words behind `dstest` that execute the scenario (one arm of it) with this budget:
        `["run", "--system", ...]`.

        Raises KeyError where the scenario has no such budget as numbers, ValueError where it has no
        run block or has several arms and none is named.
        """
        if self.run is None:
            raise ValueError(f"{self.id} has no run block")
        if arm is None:
            if len(self.arms) != 1:
                raise ValueError(f"{self.id} has {len(self.arms)} arms: name one")
            arm = self.arms[0]
        return argv_of(self.run, arm, budget, self.budgets[budget])

    def red_of(self, arm: Arm) -> Red | None:
        """Under what this arm has to be red first; None where the plan does not say."""
        return arm.red or (None if self.run is None else self.run.red)

    def red_arguments(self, arm: Arm) -> list[str]:
        """As `arguments`, of the arm with the known bug: with the first of its budgets, since that
        it can be red at all is what is to be shown. Empty where there is no such build."""
        red = self.red_of(arm)
        if self.run is None or red is None or not red.builds or not self.budgets:
            return []
        tier, budget = next((one, self.budgets[one]) for one in BUDGETS if one in self.budgets)
        if red.seeds is not None:
            budget = msgspec.structs.replace(budget, seeds=red.seeds)
        return argv_of(*red_side(self.run, arm, red), tier, budget)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole plan. `path` is where it was read from, `sha256` that of the file's bytes, `sections`
    are by id. `empty` holds the ids of sections that say in a sentence that they are empty."""

    path: str
    sha256: str
    front: Front
    sections: dict[str, Section]
    claims: tuple[Claim, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    missing: tuple[MissingClaim, ...] = ()
    inventory: tuple[Inventory, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    categories: tuple[CategoryRow, ...] = ()
    pitfalls: tuple[Pitfall, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    techniques: tuple[Technique, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    scenarios: tuple[Scenario, ...] = ()
    adequacy: tuple[Adequacy, ...] = ()
    residuals: tuple[Residual, ...] = ()
    questions: tuple[Question, ...] = ()
    empty: frozenset[str] = frozenset()
    text: str = ""

    @property
    def slug(self) -> str:
        return self.front.slug

    def claim(self, id: str) -> Claim | None:
        """The claim of this id."""
        return next((claim for claim in self.claims if claim.id == id), None)

    def scenario(self, id: str) -> Scenario | None:
        """The scenario of this id."""
        return next((one for one in self.scenarios if one.id == id), None)

    def serious(self, scenario: Scenario) -> bool:
        """Does it falsify a claim that only a history can falsify?"""
        return bool(self.categories_of(scenario) & GATED)

    def categories_of(self, scenario: Scenario) -> frozenset[str]:
        """The categories of the claims that a scenario can falsify."""
        return frozenset(
            claim.category for id in scenario.falsifies if (claim := self.claim(id)) is not None
        )

    def line_of(self, section: str) -> int:
        """Where a section begins; 1 where there is none."""
        found = self.sections.get(section)
        return 1 if found is None else found.line
