"""Scenarios in Markdown: fields, run block, sections 7.M and 7.M.S, skeleton."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import tomli_w

from dstest.core import registry
from dstest.core.claims import GATED, SURFACE_GATED
from dstest.plans.confusables import CONFUSABLES
from dstest.plans.draft.material import FILL, Experiment
from dstest.plans.launch import Arm, Budget, Red, Run, argv_of
from dstest.plans.lint.skeletons import MARK
from dstest.plans.words import NOT_GATED
from nemeses.catalogue import CATALOGUE, Fault

_CRASHES: Final = frozenset({"N01", "N02", "N04", "N17", "N20", "N25", "N28", "N29"})


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
    controls = FILL.format("what has to succeed at each surface"), FILL.format("what has to fail")
    alike = FILL.format(f"identifiers of these classes: {', '.join(CONFUSABLES)}")
    yield from ("#### 7.M.S", "")
    arms = one.run.arms
    surfaces = "; ".join(arm.surface for arm in arms)
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
