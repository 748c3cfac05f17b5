"""A new plan as Markdown: sections 0 to 9, scenarios with their fields, run block, sections 7.M and
7.M.S and skeleton, and `<fill: ...>` where only a person knows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.campaign.launch import Arm, Budget, Red, Run, argv_of
from dstest.core import registry
from dstest.core.check import GATED, SURFACE_GATED
from dstest.core.node import remedy_of, what_of
from dstest.plans.choice import CONFUSABLES, COUNTS, KINDS, PITFALLS, TECHNIQUES
from dstest.plans.draft.material import FILL, Experiment, Material
from dstest.plans.draft.sources import Change
from dstest.plans.lint.runs import MARK, needed
from dstest.plans.lint.scope import MODES
from dstest.plans.model import NO_MISSING, NOT_GATED, MissingClaim
from dstest.plans.reader import columns_of
from nemeses.catalogue import CATALOGUE, Fault

_CRASHES: Final = frozenset({"N01", "N02", "N04", "N17", "N20", "N25", "N28", "N29"})

_CLAIMS_APART: Final = 50
"""So many claims have a matrix for each category."""

_SUBJECTS: Final = (
    *("Tenancy", "Persistence", "Replication and consensus", "Ordering", "Network boundaries"),
    *("Retries and idempotency", "Observability"),
)

_FINE: Final = "a pass of this plan says nothing of it (7d)"
_LATER: Final = "before more is said than 7d does"
_FAULTS_SHOWN: Final = 6


def field(name: str, text: str) -> str:
    """`- **Name:** text`"""
    return f"- **{name}:** {text}"


def name_of(one: Experiment) -> str:
    """What the scenario is called: the claim, the load, the fault."""
    how = "_".join(str(value) for value in one.run.options.values() if str(value).isalpha())
    words = (one.row.word, one.run.workload, "under", how, one.run.nemesis)
    return "_".join(filter(None, words)).replace("-", "_").replace(",", "_and_")


def techniques_of(one: Experiment) -> list[str]:
    """Those of section 6 that the scenario uses."""
    found = ["history checking", "fault injection"]
    if one.number in _CRASHES:
        found.append("crash recovery and upgrade")
    if one.row.category in ("fairness", "performance-SLO", "liveness"):
        found.append("performance tests")
    return found


def run_block(run: Run) -> str:
    """The fence `toml run`. A red side in it is that of broken copies: which bugs are known of a
    system nobody but its people can tell."""
    import tomli_w

    facts: dict[str, Any] = {
        key: value
        for key, value in (
            ("system", run.system),
            ("workload", run.workload),
            ("nemesis", run.nemesis),
            ("checkers", list(run.checkers)),
            ("checker", list(run.checker)),
            ("plugin", list(run.plugin)),
            ("concurrency", run.concurrency),
            ("rate", run.rate),
            ("options", run.options),
        )
        if value not in (None, [], {})
    }
    text = re.sub(
        r"\[\n\s+(.+?),\n\]",
        lambda m: f"[{' '.join(m[1].split())}]",
        tomli_w.dumps(facts),
        flags=re.S,
    )
    red = "" if run.red is None else "\n[red]\ncanary = true\n"
    return f"```toml run\n{text}{red}{''.join(map(_arm, run.arms))}```"


def _arm(arm: Arm) -> str:
    """Strings, numbers and truths are in TOML as they are in JSON."""
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arm.options.items())
    lines = ("[[arms]]", f"name = {json.dumps(arm.name)}", f"surface = {json.dumps(arm.surface)}")
    return "\n" + "\n".join([*lines, f"options = {{ {options} }}"]) + "\n"


def _fault(number: str) -> Fault:
    return next(fault for fault in CATALOGUE if fault.number == number)


def _budget(budget: Budget) -> str:
    sizes = ", ".join(map(str, budget.nodes))
    return (
        f"nodes {sizes}; duration {budget.duration_s:g} s; faults {budget.faults}; "
        f"seeds {budget.seeds}"
    )


def scenario_lines(
    id: str, one: Experiment, *, slug: str, path: str, categories: Iterable[str]
) -> Iterator[str]:
    """A scenario of section 7."""
    run, fault, judges = one.run, _fault(one.number), _judges(one)
    asked = [f"-o {key}={value}" for key, value in run.options.items()]
    pace = "closed loop" if run.rate is None else f"{run.rate:g} operations per second"
    work = registry.load("workloads", run.workload)
    yield from (f"### {id}: {name_of(one)}", "")
    yield field("Falsifies", ", ".join(one.claims))
    yield field("Closes", ", ".join(one.hypotheses))
    yield field("Technique", ", ".join(techniques_of(one)))
    yield field(
        "Workload",
        f"`{run.workload}` ({work.doc}), {pace}, {run.concurrency} clients, for as long as the "
        "budget says; keys and shares as its options have them",
    )
    yield field(
        "Faults",
        f"{fault.name} ({one.number}) by `{run.nemesis}`"
        + (f", {', '.join(asked)}" if asked else "")
        + ": windows one after another, planned from the seed, each healed before the next",
    )
    yield field(
        "Oracle",
        f"{' and '.join(f'`{name}`' for name in judges)} on the whole history: 0 violations, and "
        "operations consumed > 0",
    )
    yield field(
        "Observability required",
        "what clients saw of each operation, the landing record of each fault, each server's log",
    )
    yield field(
        "Exit criteria",
        "pass: exit 0, the tier of the budget is met and all its seeds agree; fail: exit 1, a "
        "violation on any seed; inconclusive: exit 3, a fault that has not landed, an oracle that "
        "could not decide, or fewer operations than the workload asks for",
    )
    for tier, budget in one.budgets.items():
        yield field(f"{tier.title()} budget", _budget(budget))
    yield field("Target test file", f"`tests/auto/test_{slug.replace('-', '_')}_{id.lower()}.py`")
    yield field("Skeleton language", "python")
    red = Red(canary=True) if {*categories} & GATED else None
    yield from ("", run_block(msgspec.structs.replace(run, red=red)), "")
    yield from _gated(one, fault, judges, {*categories})
    if {*categories} & SURFACE_GATED:
        yield from _surfaces(one, {*categories})
    yield from _skeleton(id, one, path)


def _judges(one: Experiment) -> list[str]:
    work = registry.load("workloads", one.run.workload)
    return [*work.checkers, *one.run.checker]


def _gated(one: Experiment, fault: Fault, judges: list[str], categories: set[str]) -> Iterator[str]:
    if not categories & GATED:
        yield from (NOT_GATED, "")
        return
    injector, _, victim = fault.proof.partition(";")
    yield from ("#### 7.M", "")
    yield field("Model", one.row.model)
    yield field("Operation history", "default schema, in-process; server logs beside it")
    yield field("Checker", ", ".join(f"`{name}`" for name in judges))
    yield field("Nemesis + landing evidence", f"{one.number}, `{one.run.nemesis}`")
    yield f"  - injector: {injector.strip()}; count > 0 in `faults.jsonl`"
    yield f"  - victim: {victim.strip() or injector.strip()}; `landed` matches `^yes$`"
    yield field(
        "Ambiguous outcomes",
        "a time-out, and each error that the system's table does not list as definite, stays open: "
        "it may have taken effect at any time, or never",
    )
    yield field(
        "Reduction plan",
        "the seed that failed, again with `dstest replay`; then 3 nodes, one window of faults, "
        "fewer keys and clients, for as long as it still fails",
    )
    yield ""


def _surfaces(one: Experiment, categories: set[str]) -> Iterator[str]:
    fields = registry.load("workloads", one.run.workload).fields
    refused = ", ".join(sorted(fields.negative_controls))
    asked = sorted(set().union(*fields.surfaces.values()) - fields.negative_controls)
    controls = (
        ", ".join(asked) or FILL.format("what has to succeed at each surface"),
        refused or FILL.format("what has to fail"),
    )
    alike = f"identifiers of these classes: {', '.join(CONFUSABLES)}"
    alike = alike if refused else FILL.format(alike)
    yield from ("#### 7.M.S", "")
    arms = one.run.arms
    surfaces = "; ".join(arm.surface for arm in arms) or "; ".join(fields.surfaces)
    yield field("Surfaces", surfaces or FILL.format("three of them, or one, because ..."))
    yield field("Operations", ", ".join(_op_types(one)))
    yield field("Adversarial inputs", alike if "boundary" in categories else "none: groups differ "
                "in nothing but their names")  # fmt: skip
    yield field("Positive controls", controls[0])
    yield field("Negative controls", controls[1])
    yield field("Delayed/async paths", FILL.format("what happens after the answer"))
    yield field("Observability paths", FILL.format("metrics, logs, audits that could tell"))
    names = "; ".join(arm.name for arm in arms)
    yield field("Scenario arms", names or FILL.format("one for each surface, or: one arm, because"))
    yield ""


def _op_types(one: Experiment) -> list[str]:
    return sorted(registry.load("workloads", one.run.workload).op_types)


def _skeleton(id: str, one: Experiment, path: str) -> Iterator[str]:
    tier, budget = next(iter(one.budgets.items()))
    arm = next(iter(one.run.arms), Arm(name=""))
    words = ["dstest", *argv_of(one.run, arm, tier, budget)]
    yield "```python skeleton"
    yield f"# {MARK} from {path}, scenario {id}"
    yield "# sha256 of the plan: written here with the file"
    yield from ("import shlex", "import subprocess", "")
    yield f'COMMAND = """{_folded(words)}"""'
    yield from ("", "")
    yield f"def test_{id.lower()}_{name_of(one)}() -> None:"
    yield "    # TODO workload: what the claim needs and the command does not do"
    yield "    # TODO faults: their windows, where the seed's plan is not what is wanted"
    yield "    # TODO oracle: 0 is a pass, 1 a violation, 3 means that nothing is shown"
    yield "    assert subprocess.run(shlex.split(COMMAND), check=False).returncode == 0"
    yield from ("```", "")


def _folded(words: list[str]) -> str:
    """A command on several lines, which `shlex.split` puts together again."""
    lines, line = [], ""
    for word in map(shlex.quote, words):
        if len(line) + len(word) > 76:
            lines.append(line.rstrip())
            line = ""
        line += word + " "
    return "\n    ".join([*lines, line]).rstrip()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is written from. `path` is where it will lie, `change` None for a whole project;
    `tests` are files, `missing` behaviours that nobody has promised, `looked`: were claims looked
    for in a repository? `left_out` counts those of them that are no claim here."""

    slug: str
    date: str
    author: str
    path: str
    system: Any
    material: Material
    change: Change | None
    tests: tuple[str, ...]
    missing: tuple[MissingClaim, ...]
    looked: bool = False
    left_out: int = 0

    @property
    def mode(self) -> str:
        """Of the whole project, or of a change."""
        return MODES[self.change is None]

    def scenarios(self) -> list[tuple[str, Experiment]]:
        """By their ids."""
        return [(f"S{n}", one) for n, one in enumerate(self.material.experiments, 1)]

    def categories_of(self, one: Experiment) -> set[str]:
        return {claim.category for claim in self.material.claims if claim.id in one.claims}


def markdown(draft: Draft) -> str:
    """The file."""
    parts = (_front, _architecture, _scope, _claims, _model, _inventory, _hypotheses, _coverage)
    more = (_techniques, _environment, _scenarios, _adequacy, _ends)
    lines = [line for part in (*parts, *more) for line in part(draft)]
    return "\n".join(lines).rstrip() + "\n"


def _table(name: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    columns = columns_of(name)
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        cells = [cell.replace("|", r"\|").strip() or "-" for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _front(draft: Draft) -> Iterator[str]:
    change = "none" if draft.change is None else draft.change.name
    facts = {
        "slug": draft.slug,
        "date": draft.date,
        "mode": draft.mode,
        "sut": draft.system.doc,
        "system": draft.system.name,
        "change": change,
        "author": draft.author,
        "status": "draft",
    }
    yield "---"
    yield from (f"{key}: {_yaml(value)}" for key, value in facts.items())
    yield from ("---", "", f"# Test plan: {draft.slug}", "")


def _yaml(text: str) -> str:
    plain = text.replace("-", "").replace("_", "").replace(" ", "").isalnum()
    return text if plain else "'" + text.replace("'", "''") + "'"


def _architecture(draft: Draft) -> Iterator[str]:
    services = ", ".join(draft.system.services) or "one"
    yield from ("## 0. Architecture", "")
    yield field("Components", f"services of each member: {services}; {FILL.format('and else')}")
    yield field("Request flow", FILL.format("the way of a typical request, from client to disk"))
    yield field("Durable state", FILL.format("what survives a crash, and where it lies"))
    yield field("Consensus", FILL.format("which protocol agrees on what; or none"))
    yield field("Trust and tenants", FILL.format("who is kept apart from whom"))
    yield from ("", "```text", FILL.format("a picture"), "```", "")


def _scope(draft: Draft) -> Iterator[str]:
    yield from ("## 1. Scope", "")
    if draft.change is None:
        tested = dict.fromkeys(claim.category for claim in draft.material.claims)
        yield field("In scope", f"claims of {', '.join(tested) or FILL.format('categories')}")
        yield field("Out of scope", FILL.format("what this plan leaves alone"))
    else:
        subject = draft.change.subject or FILL.format("what the change does")
        yield field("Change", subject)
        files = [f"`{file.path}` (+{file.added} -{file.removed})" for file in draft.change.files]
        yield field("Files touched", ", ".join(files))
    yield ""


def _claims(draft: Draft) -> Iterator[str]:
    claims = draft.material.claims
    yield from ("## 1b. Claims", "")
    rows = [(c.id, c.text, c.category, c.source, "yes" if c.inferred else "no") for c in claims]
    one = FILL.format("what is promised")
    yield from _table("claims", rows or [("C1", one, "safety", FILL.format("where"), "yes")])
    yield from ("## 1c. Missing claims", "")
    if draft.missing:
        yield from _table(
            "missing", [(m.id, m.behaviour, m.source, m.action) for m in draft.missing]
        )
    else:
        yield from (NO_MISSING, "")


def _model(draft: Draft) -> Iterator[str]:
    yield from ("## 2. Model of the system", "")
    for subject in _SUBJECTS:
        yield from (f"### {subject}", "", FILL.format(f"a paragraph on {subject.lower()}"), "")


def _inventory(draft: Draft) -> Iterator[str]:
    if draft.change is not None:
        return
    yield from ("## 3. Existing tests", "")
    if not draft.tests:
        yield from (FILL.format("a row for each test; or: No existing tests."), "")
        return
    unknown = (
        FILL.format("which"),
        FILL.format("what it asserts"),
        FILL.format("under which faults"),
    )
    yield from _table("inventory", [(f"`{name}`", *unknown) for name in draft.tests])


def _hypotheses(draft: Draft) -> Iterator[str]:
    found = draft.material.hypotheses
    yield from ("## 4. Hypotheses", "")
    yield from _table(
        "hypotheses",
        [
            (h.id, h.category, h.statement, ", ".join(h.claims), h.because, h.subsystem)
            for h in found
        ],
    )
    rows = []
    for kind in KINDS:
        ids = [h.id for h in found if h.category == kind]
        reason = f"N/A because {FILL.format('why the claims leave nothing of this kind')}"
        rows.append((kind, ", ".join(ids) or reason))
    yield from _table("categories", rows)
    walk = draft.material.walk
    yield from _table("pitfalls", [(str(p.number), p.name, *walk[p.number]) for p in PITFALLS])


def _coverage(draft: Draft) -> Iterator[str]:
    if draft.change is not None:
        return
    yield from ("## 5. Coverage", "")
    rows = []
    for claim in draft.material.claims:
        against = [h.id for h in draft.material.hypotheses if claim.id in h.claims]
        for id in against or ["-"]:
            by = [
                s for s, one in draft.scenarios() if claim.id in one.claims and id in one.hypotheses
            ]
            rows.append((claim.id, id, "none known", "not covered", "no test", ", ".join(by)))
    # The serious first; large ones apart, so that a reader finds the gaps.
    kinds = {claim.id: claim.category for claim in draft.material.claims}
    rows.sort(key=lambda row: kinds[row[0]] not in GATED)
    if len(kinds) < _CLAIMS_APART:
        yield from _table("coverage", rows)
        return
    for category in dict.fromkeys(kinds[row[0]] for row in rows):
        yield from (f"Claims of {category}:", "")
        yield from _table("coverage", [row for row in rows if kinds[row[0]] == category])


def _techniques(draft: Draft) -> Iterator[str]:
    used: dict[str, dict[str, None]] = {}
    for _, one in draft.scenarios():
        for name in techniques_of(one):
            used.setdefault(name, {}).update(dict.fromkeys(one.hypotheses))
    rows = [
        (name, ", ".join(ids), TECHNIQUES[name].catches, TECHNIQUES[name].reference,
         TECHNIQUES[name].cost)
        for name, ids in used.items()
    ]  # fmt: skip
    yield from ("## 6. Techniques", "")
    least = COUNTS[draft.mode][0]
    yield from _table("techniques", rows)
    if len(rows) < least:
        others = ", ".join(name for name in TECHNIQUES if name not in used)
        yield from (FILL.format(f"{least - len(rows)} more rows, of {others}"), "")


def _environment(draft: Draft) -> Iterator[str]:
    users: dict[str, list[str]] = {}
    for id, one in draft.scenarios():
        for need in needed(one.run, [Arm(name="")]):
            users.setdefault(need, []).append(id)
    rows = [
        (need, _floor(need), ", ".join(ids), _install(need, draft.system))
        for need, ids in users.items()
    ]
    yield from ("## 6b. Environment", "")
    yield from _table("requirements", rows)


def _floor(need: str) -> str:
    return "as in Debian 12" if need.startswith("system ") else "this dstest"


def _install(need: str, system: Any) -> str:
    kind, _, name = need.partition(" ")
    if kind == "feature":
        return f"{what_of(name)}: {remedy_of(name)}"
    if kind == "system" and system.packages:
        return f"apt-get install -y {' '.join(system.packages)}, which the labs do"
    ours = name in registry.names(f"{kind}s" if kind != "nemesis" else "nemeses", ours=True)
    return "a part of dstest" if ours else f"the file or package that brings {name}"


def _scenarios(draft: Draft) -> Iterator[str]:
    yield from ("## 7. Scenarios", "")
    for id, one in draft.scenarios():
        yield from scenario_lines(
            id, one, slug=draft.slug, path=draft.path, categories=draft.categories_of(one)
        )


def _adequacy(draft: Draft) -> Iterator[str]:
    names = {fault.number: fault.name for fault in CATALOGUE}
    rows = []
    for claim in draft.material.claims:
        by: dict[str, list[str]] = {}
        for id, one in draft.scenarios():
            if claim.id in one.claims:
                by.setdefault(one.number, []).append(id)
        letters = [chr(ord("a") + place) for place in range(len(by))]
        threats = "; ".join(f"{a}: {names[n]} ({n})" for a, n in zip(letters, by, strict=True))
        tests = "; ".join(f"{a}: {', '.join(by[n])}" for a, n in zip(letters, by, strict=True))
        why = FILL.format("why these threats are enough") if by else "it is not tested: see 7c"
        rows.append((claim.id, threats, tests, why))
    yield from ("## 7b. Adequacy", "")
    yield from _table("adequacy", rows)


def _left_out(draft: Draft) -> Iterator[tuple[str, str]]:
    """What no scenario of this plan looks at, and why."""
    if not draft.looked:
        why = "claims are those that tools can test; no document of the system was read (--repo)"
        yield "what the system's own documents promise", why
    if draft.left_out:
        said = f"{draft.left_out} more sentences that may promise something"
        yield said, "more claims than one plan can hold; only the first were taken"
    used = {name for _, one in draft.scenarios() for name in techniques_of(one)}
    for name, about in TECHNIQUES.items():
        if name not in used:
            yield about.catches, f"{name}: not used in this plan"
    faults = {one.number for one in draft.material.experiments}
    rest = [fault.name for fault in CATALOGUE if fault.number not in faults]
    if rest:
        shown = ", ".join(rest[:_FAULTS_SHOWN])
        more = f" and {len(rest) - _FAULTS_SHOWN} more" if len(rest) > _FAULTS_SHOWN else ""
        yield f"{len(rest)} kinds of faults", f"no scenario injects {shown}{more}"
    yield "other labs, sizes and versions", "each scenario runs on one lab, with one build"


def _ends(draft: Draft) -> Iterator[str]:
    untested = draft.material.untested
    yield from ("## 7c. Residual uncertainty", "")
    later = FILL.format("when")
    fine = FILL.format("why that is acceptable")
    rows = [(f"{id} is not tested", why, fine, later) for id, why in untested.items()]
    rows += [(what, why, _FINE, _LATER) for what, why in _left_out(draft)]
    yield from _table("residuals", rows)
    tested = len(draft.material.claims) - len(untested)
    faults = {one.number for one in draft.material.experiments}
    yield from ("## 7d. Confidence", "")
    yield (
        "Nothing of this plan has been run yet, so that it is no evidence of anything. It tests "
        f"{tested} of {len(draft.material.claims)} claims under {len(faults)} kinds of faults. A "
        "pass will say that we have not observed a violation under these threats, on one lab and "
        "in the time of its budget. Faults that nobody injects, and loads that nobody offers, may "
        "still do harm."
    )
    yield from ("", "## 8. Not covered", "")
    yield FILL.format("subsystems and modes that no scenario touches")
    yield from ("", "## 9. Open questions", "")
    question = FILL.format("a question"), FILL.format("who"), FILL.format("when")
    yield from _table("questions", [question])
