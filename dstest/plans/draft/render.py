"""A new plan as Markdown: sections 0 to 9, with `<fill: ...>` where only a person knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.claims import GATED
from dstest.core.node_features import remedy_of, what_of
from dstest.plans.draft.diff import Change
from dstest.plans.draft.material import FILL, Experiment, Material
from dstest.plans.draft.parts import field, scenario_lines, techniques_of
from dstest.plans.launch import Arm
from dstest.plans.lint.scope import MODES
from dstest.plans.lint.tools import needed
from dstest.plans.model import MissingClaim
from dstest.plans.pitfalls import KINDS, PITFALLS
from dstest.plans.rows import columns_of
from dstest.plans.techniques import COUNTS, TECHNIQUES
from dstest.plans.words import NO_MISSING
from nemeses.catalogue import CATALOGUE

_CLAIMS_APART: Final = 50
"""So many claims have a matrix for each category."""

_SUBJECTS: Final = (
    *("Tenancy", "Persistence", "Replication and consensus", "Ordering", "Network boundaries"),
    *("Retries and idempotency", "Observability"),
)


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


_FINE: Final = "a pass of this plan says nothing of it (7d)"
_LATER: Final = "before more is said than 7d does"


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


_FAULTS_SHOWN: Final = 6


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
