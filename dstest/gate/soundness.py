"""Is a policy one that something could fail by? What asks for nothing lets everything through."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import LEVELS
from dstest.core.run_record import RunSpec
from dstest.core.run_words import simulates
from dstest.gate.policy import RISK_DAYS_MAX, Control, Policy, ReadPolicy, RequiredTest
from dstest.gate.table import RULES
from dstest.report.meanings import mistyped
from dstest.runner.plugins import resolve
from dstest.store.compare.measured import hashes_of


class Unsound(NamedTuple):
    """What is wrong with the table of this id, and what to do about it."""

    id: str
    what: str
    remedy: str


def require_sound(read: ReadPolicy, metrics: tuple[str, ...], factors: tuple[str, ...]) -> None:
    """Raises ConfigError for the first thing that is wrong, with its line. `metrics` and `factors`
    are what a comparison knows."""
    found = next(unsound(read.policy), None) or next(_baseline(read.policy, metrics, factors), None)
    if found is not None:
        where = f"{read.path}:{read.line_of(found.id)}: "
        named = f"{found.id}: " if found.id else ""
        raise ConfigError(where + named + found.what, remedy=found.remedy)


def unsound(policy: Policy) -> Iterator[Unsound]:
    """What is wrong with a policy in itself."""
    if not policy.claim:
        yield Unsound("", "it asks for nothing: there is no claim", "add a [[claim]]")
    ids = [*_tables(policy), *(risk.id for risk in policy.risk)]
    for id_, count in Counter(ids).items():
        if count > 1:
            yield Unsound(id_, "this id stands twice", "give each table an id of its own")
    for row in (*policy.claim, *policy.control):
        yield from _known(row)
    if policy.claim and not any(claim.faults for claim in policy.claim):
        yield Unsound(
            policy.claim[0].id,
            "it asks for nothing that could go wrong: no claim asks for a fault that landed",
            "add [claim.faults] with kinds and numbers, as in partition = 10",
        )
    if not any(control.expect == "red" for control in policy.control):
        yield Unsound(
            "",
            "nothing shows that a bug would be found: there is no red control",
            'add a [[control]] with expect = "red": `dstest findings` has known bugs',
        )
    for claim in policy.claim:
        yield from _of_faults(claim.id, claim.nemesis, claim.faults)
    for control in policy.control:
        yield from _of_control(policy, control)
    yield from _risks(policy)


def _tables(policy: Policy) -> list[str]:
    """The ids of what is asked for."""
    tests: list[RequiredTest] = [*policy.claim, *policy.control]
    return [*(row.id for row in tests), *(plan.id for plan in policy.plan)]


def _known(row: RequiredTest) -> Iterator[Unsound]:
    """Is there such a system, workload, nemesis, lab and model?"""
    parts = [part.strip() for part in row.nemesis.split(",")]
    asked = [("systems", row.system), ("workloads", row.workload)]
    asked += [("nemeses", part) for part in parts]
    asked += [("labs", row.lab)] if row.lab else []
    asked += [("checkers", name) for name in getattr(row, "checkers", ())]
    strange = [(group, name) for group, name in asked if name not in registry.names(group)]
    for group, name in strange:
        remedy = _meant(name, registry.names(group), "`dstest list` has all of them")
        yield Unsound(row.id, f"there is no {name!r} among the {group}", remedy)
    if any("=" not in option for option in row.options):
        yield Unsound(row.id, "an option has no value", 'as on the command line: "shape=leader"')
    if len({option.partition("=")[0] for option in row.options}) < len(row.options):
        yield Unsound(row.id, "an option stands twice", "give each once")
    elif not strange:
        yield from _refused(row)
    tier = getattr(row, "tier", LEVELS[0])
    if row.lab and simulates(row.lab) and tier != LEVELS[0]:
        yield Unsound(
            row.id,
            f"tier = {tier!r} with lab = {row.lab!r}: no run of a simulation is better than"
            f" {LEVELS[0]}, so that nothing could meet it",
            f'tier = "{LEVELS[0]}", or a lab with nodes',
        )


def _refused(row: RequiredTest) -> Iterator[Unsound]:
    """Is its model one that its judges know, and would a command take its options?"""
    judges = getattr(row, "checkers", ()) or registry.load("workloads", row.workload).checkers
    models = sorted({model for name in judges for model in registry.load("checkers", name).models})
    if row.model is not None and row.model not in models:
        remedy = _meant(row.model, models, f"{', '.join(judges)}: {', '.join(models)}")
        yield Unsound(row.id, f"none of its checkers knows the model {row.model!r}", remedy)
    usual = registry.load("workloads", row.workload).checkers
    spec = RunSpec(
        system=row.system,
        workload=row.workload,
        nemesis=row.nemesis,
        time_limit_s=3600.0,
        checkers=tuple(name for name in getattr(row, "checkers", ()) if name not in usual),
    )
    if row.lab is not None:
        spec = msgspec.structs.replace(spec, lab=row.lab)
    try:
        resolve(spec, list(row.options))
    except ConfigError as error:
        if error.message.startswith("-o ") and not _of_a_checker(error.message):
            yield Unsound(row.id, error.message, error.remedy or "see `dstest list`")


def _of_a_checker(message: str) -> bool:
    """Is it an option of a checker that a run was asked for besides? A control names none."""
    key = message.removeprefix("-o ").partition(":")[0].partition("=")[0]
    judges = (registry.load("checkers", name) for name in registry.names("checkers"))
    return any(key in judge.options for judge in judges)


def _meant(name: str, known: Sequence[str], otherwise: str) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}? {otherwise}" if near else otherwise


def _of_faults(id_: str, nemesis: str, faults: dict[str, int]) -> Iterator[Unsound]:
    kinds = {part.strip() for part in nemesis.split(",")}
    for kind in faults:
        if kind not in kinds:
            yield Unsound(
                id_,
                f"it asks for landed faults of {kind!r}, which its nemesis {nemesis!r} never makes",
                f"kinds of this claim: {', '.join(sorted(kinds))}",
            )


def _words(row: RequiredTest) -> tuple[Any, ...]:
    kinds = tuple(sorted({part.strip() for part in row.nemesis.split(",")}))
    builds = tuple(hashes_of(row.builds))
    return (row.system, row.workload, kinds, tuple(sorted(row.options)), builds)


def _of_control(policy: Policy, control: Control) -> Iterator[Unsound]:
    if control.expect == "red" and not control.anomalies:
        yield Unsound(
            control.id,
            "it does not say by what the bug shows, so any violation would do",
            'name its anomalies, as in anomalies = ["lost"]',
        )
    for name in (*control.anomalies, *control.beside) if not policy.evidence.plugins else ():
        if near := mistyped(name):  # a plug-in's checker may have names of its own
            what = f"no checker finds {name!r}"
            yield Unsound(control.id, what, f"did you mean {' or '.join(near)}?")
    if control.expect == "green" and (control.anomalies or control.beside):
        what = "a green control shows no anomaly"
        yield Unsound(control.id, what, "leave anomalies and beside out")
    if control.expect == "green" and not control.by_fault:
        what = "a green control has no bug, so none that shows without a fault"
        yield Unsound(control.id, what, "leave by-fault out")
    if control.expect == "green" and control.found_share is not None:
        what = "a green control has to pass in every run, and finds nothing in a share of them"
        yield Unsound(control.id, what, "leave found-share out")
    others = [*policy.claim, *(c for c in policy.control if c.expect == "green")]
    clash = next((row for row in others if _words(row) == _words(control)), None)
    if control.expect == "red" and clash is not None:
        yield Unsound(
            control.id,
            f"it has to fail, and {clash.id} asks that the same test passes",
            "give the control the option that switches its bug on",
        )


def _risks(policy: Policy) -> Iterator[Unsound]:
    known = {*_tables(policy)}
    known |= {"baseline"} if policy.baseline is not None else set()
    for risk in policy.risk:
        rule = RULES.get(risk.rule)
        if rule is None or not rule.acceptable:
            may = ", ".join(r.id for r in RULES.values() if r.acceptable)
            what = f"{risk.rule} is nothing that anybody may accept"
            yield Unsound(risk.id, what, f"these may be: {may}")
        if risk.of not in known:
            yield Unsound(risk.id, f"there is no {risk.of!r}", f"one of {', '.join(sorted(known))}")
    pairs = Counter((risk.of, risk.rule) for risk in policy.risk)
    for risk in policy.risk:
        if pairs[risk.of, risk.rule] > 1:
            yield Unsound(risk.id, "another risk accepts the same", "leave one of them")


def too_far(policy: Policy, today: datetime.date) -> Iterator[Unsound]:
    """Risks that nobody would look at again in time."""
    last = today + datetime.timedelta(days=RISK_DAYS_MAX)
    for risk in policy.risk:
        if risk.expires > last:
            yield Unsound(
                risk.id, f"it expires on {risk.expires}, too far away", f"{last} at the latest"
            )


def _baseline(
    policy: Policy, metrics: tuple[str, ...], factors: tuple[str, ...]
) -> Iterator[Unsound]:
    if policy.baseline is None:
        return
    claims = [claim.id for claim in policy.claim]
    for named, known in (
        (policy.baseline.claims, claims),
        (policy.baseline.metrics, metrics),
        (policy.baseline.differing, factors),
    ):
        for name in named:
            if name not in known:
                yield Unsound("baseline", f"there is no {name!r}", f"one of {', '.join(known)}")
