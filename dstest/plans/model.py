"""What a test plan holds, item by item, each with its line, and Markdown as a plan uses it.

A plan is a Markdown file (CommonMark with tables) with front matter and the sections 0 to 9
(`reader.py`; docs/plans.md). Lines count from 1 in the file. Nothing is checked here but by type:
that is what `lint/` does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dstest.campaign.fit import fit_of
from dstest.campaign.launch import Arm, Budget, Red, Run, argv_of, red_side
from dstest.core.check import GATED
from dstest.core.errors import ConfigError
from dstest.core.evidence import LEVELS

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


_REMEDY: Final = (
    "`dstest plan new` writes a plan that can be read; docs/plans.md says what is where"
)
_FIELD: Final = re.compile(r"\*\*(?P<name>[^*]+?):\*\*\s*(?P<text>.*)", re.DOTALL)

NOT_GATED: Final = "§7.M: not applicable (no gated claim category falsified)"
"""Stands in a scenario whose claims need no history."""

NO_MISSING: Final = "No missing claims were found."
NO_RESIDUAL: Final = "No residual uncertainty is known."
_THREAT: Final = re.compile(r"\s*\(?(?P<letter>[a-z])\)?\s*[:.)]\s*(?P<text>.+)", re.DOTALL)
BUDGETS: Final = LEVELS


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is where it begins, counted from 1."""

    line: int


class Heading(Block, frozen=True, kw_only=True):
    level: int
    text: str


class TableRow(Block, frozen=True, kw_only=True):
    """Cells by the name of their column in lower case."""

    cells: dict[str, str]


class Table(Block, frozen=True, kw_only=True):
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


class Line(Block, frozen=True, kw_only=True):
    """An item of a list. `name` is in lower case; empty where it is no `**Name:** text`."""

    name: str
    text: str


class Fence(Block, frozen=True, kw_only=True):
    """`info` are the words behind its opening."""

    info: tuple[str, ...]
    text: str


class Prose(Block, frozen=True, kw_only=True):
    text: str


def front_of(text: str, name: str) -> tuple[dict[str, Any], int, str]:
    """The front matter (YAML between `---`, TOML between `+++`), its first line, and the whole text
    with blank lines in its place. Raises ConfigError where there is none, or it cannot be read."""
    lines = text.split("\n")
    mark = lines[0].strip() if lines else ""
    if mark not in ("---", "+++"):
        raise _unreadable(name, 1, "no front matter", "begin with --- or +++, slug and the rest")
    ends = [i for i, line in enumerate(lines[1:], 1) if line.strip() == mark]
    if not ends:
        raise _unreadable(name, 1, f"the front matter has no second {mark}")
    inside = "\n".join(lines[1 : ends[0]])
    body = "\n" * (ends[0] + 1) + "\n".join(lines[ends[0] + 1 :]) + "\n"
    found = _toml(inside, name) if mark == "+++" else _yaml(inside, name)
    if not isinstance(found, dict):
        raise _unreadable(name, 2, "the front matter is no list of `key: value`")
    return {str(key): value for key, value in found.items()}, 2, body


def _yaml(text: str, name: str) -> Any:
    import yaml

    try:
        # All scalars are texts: a date is one, and so is `no`.
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 2 if mark is None else mark.line + 2
        said = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise _unreadable(name, line, f"the front matter is no YAML: {said}") from None


def _toml(text: str, name: str) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unreadable(name, 2, f"the front matter is no TOML: {error}") from None


def _unreadable(name: str, line: int, what: str, remedy: str = _REMEDY) -> ConfigError:
    return ConfigError(f"{name}:{line}: {what}", remedy=remedy)


def blocks_of(body: str) -> list[Block]:
    """The blocks of a text in their order."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(body))
    found: list[Block] = []
    for node in root.children:
        line = 1 if node.map is None else node.map[0] + 1
        if node.type == "heading":
            found.append(Heading(line=line, level=int(node.tag[1:]), text=_inline(node)))
        elif node.type == "table":
            found.append(_table(node, line))
        elif node.type == "fence":
            info = tuple(node.info.split())
            found.append(Fence(line=line, info=info, text=node.content))
        elif node.type in ("bullet_list", "ordered_list"):
            found += [_item(item, line) for item in node.children]
        elif node.type == "paragraph":
            found.append(Prose(line=line, text=_inline(node)))
    return found


def fields_of(blocks: Iterable[Block], name: str) -> dict[str, Line]:
    """The `- **Name:** text` lines by name. Raises ConfigError where one name stands twice."""
    found: dict[str, Line] = {}
    for block in blocks:
        if isinstance(block, Line) and block.name:
            if block.name in found:
                raise _unreadable(
                    *(name, block.line, f"{block.name!r} stands in line {found[block.name].line}"),
                    "each field once; several things with ; between",
                )
            found[block.name] = block
    return found


def _inline(node: SyntaxTreeNode) -> str:
    """All text in a node, a line for each paragraph and each item of it."""
    parts = [
        one.content.strip() if one.type == "fence" else " ".join(one.content.split())
        for one in node.walk()
        if one.type in ("inline", "fence")
    ]
    return "\n".join(part for part in parts if part)


def _item(node: SyntaxTreeNode, line: int) -> Line:
    text = _inline(node)
    place = line if node.map is None else node.map[0] + 1
    field = _FIELD.fullmatch(text)
    if field is None:
        return Line(line=place, name="", text=text)
    return Line(line=place, name=field["name"].strip().casefold(), text=field["text"].strip())


def _table(node: SyntaxTreeNode, line: int) -> Table:
    rows = [one for one in node.walk() if one.type == "tr"]
    head, *others = [[_inline(cell) for cell in row.children] for row in rows]
    columns = tuple(name.casefold() for name in head)
    return Table(
        line=line,
        columns=columns,
        rows=tuple(
            TableRow(
                line=line + 2 + index if row.map is None else row.map[0] + 1,
                cells=dict(zip(columns, cells, strict=True)),
            )
            for index, (row, cells) in enumerate(zip(rows[1:], others, strict=True))
        ),
    )


_ID: Final = re.compile(r"\b[A-Z]\d+\b")


def ids(text: str) -> tuple[str, ...]:
    """`C1`, `H2` and the like in a text, in their order, each once."""
    return tuple(dict.fromkeys(_ID.findall(text)))


def plain(text: str) -> str:
    """Without marks of code and of emphasis at its ends, and as one line."""
    return " ".join(text.split()).strip("`*_ ")


def cut(text: str, at: str = ";") -> list[str]:
    """The parts of a list in a line, or of one with a line for each."""
    return [part for one in re.split(f"[{at}\n]", text) if (part := one.strip(" .-"))]


def entries(text: str) -> list[str]:
    """The parts of such a list, whole."""
    return cut(text, ";" if ";" in text else ",")


def split_names(text: str) -> tuple[str, ...]:
    """Names in a list with semicolons, or with commas where there are none; what stands behind a
    colon or in brackets is no part of a name."""
    parts = entries(re.sub(r"\([^()]*\)", "", text))
    return tuple(dict.fromkeys(name for part in parts if (name := plain(part.split(":")[0]))))


_PLACEHOLDER: Final = re.compile(
    r"<(?!https?:|mailto:|!--|/|br>|sub>|sup>)[A-Za-z\u2026.][^<>\n]*>"
)
_CODE: Final = re.compile(r"``.+?``|`[^`\n]+`")


def placeholders(text: str) -> list[tuple[int, str]]:
    """(line, text) of what nobody has filled in: `<fill: ...>` anywhere, and other words in pointed
    brackets outside of code."""
    found = []
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = line.strip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        said = "" if fence else _CODE.sub("", line)
        found += [
            (number, text)
            for text in _PLACEHOLDER.findall(line)
            if text.startswith("<fill") or text in said
        ]
    return found


def threats_of(threats: str, scenarios: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """(letter, text, scenarios) from `a: kill; b: pause` and `a: S1, S2; b: S1`."""
    found = [row for part in cut(threats) if (row := _THREAT.fullmatch(part))]
    by = {
        row["letter"]: ids(row["text"])
        for part in cut(scenarios)
        if (row := _THREAT.fullmatch(part))
    }
    return [(row["letter"], row["text"].strip(), by.get(row["letter"], ())) for row in found]


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
    """1b. `category` is one of `dstest.core.check.CATEGORIES`; `inferred`: nobody wrote it down as
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


def injects(scenario: Scenario) -> bool:
    """Is a fault injected in an arm of it? So it is where nobody can tell."""
    run = scenario.run
    fits = [] if run is None else [fit_of(run, arm) for arm in scenario.arms]
    return not fits or any(fit.problem or fit.nemeses for fit in fits)
