"""Which evidence is about what was asked, and why the rest is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dstest import __version__
from dstest.core import registry
from dstest.core.run_meta import Host, RunMeta
from dstest.gate.gather import JudgedRun, Unit
from dstest.gate.honest import age_days
from dstest.gate.policy import Asked, Claim, EvidenceRules, Policy
from dstest.gate.rules import Finding

__all__ = ["about", "misfits", "of_test", "of_version"]


def about(unit: Unit, asked: Asked) -> bool:
    """Is it of this system, workload and kind of fault, whatever else it is?"""
    return any(_same_parts(run.meta, asked) for run in unit.runs)


def _same_parts(meta: RunMeta, asked: Asked) -> bool:
    spec = meta.spec
    same = (spec.get("system"), spec.get("workload")) == (asked.system, asked.workload)
    return same and _kinds(str(spec.get("nemesis"))) == _kinds(asked.nemesis)


def _kinds(nemesis: str) -> list[str]:
    return [part.strip() for part in nemesis.split(",")]


def of_version(meta: RunMeta, asked: Asked) -> bool:
    """Is it of the version and the builds that are released?"""
    return meta.system_version == asked.system_version and _builds(meta) == sorted(asked.builds)


def _builds(meta: RunMeta) -> list[str]:
    return sorted(meta.spec.get("builds") or ())


def _version(system: str, version: str | None, builds: Sequence[str]) -> str:
    return f"{system} {version}" + (f" with {', '.join(builds)}" if builds else "")


def of_test(meta: RunMeta, asked: Asked) -> bool:
    """Is it a run of the test that is asked for, of the version that is released?"""
    return (
        _same_parts(meta, asked)
        and sorted(meta.options_given or ()) == sorted(asked.options)
        and of_version(meta, asked)
    )


def misfits(unit: Unit, asked: Asked, policy: Policy, now_ns: int) -> list[Finding]:
    """Why a unit cannot count for this claim or control; each rule once."""
    found: dict[str, Finding] = {}
    for run in unit.runs:
        for rule, what in _of_run(run, asked, policy.evidence, now_ns):
            if rule not in found:
                found[rule] = Finding(rule=rule, what=what, of=asked.id, where=str(run.path))
    return list(found.values())


def _of_run(
    run: JudgedRun, asked: Asked, rules: EvidenceRules, now_ns: int
) -> Iterator[tuple[str, str]]:
    meta, host = run.meta, run.meta.host or Host()
    if not run.by_us:
        yield "G12", f"dstest {host.dstest} made it, and this is {__version__}"
    if not of_version(meta, asked):
        found = _version(asked.system, meta.system_version, _builds(meta))
        wanted = _version(asked.system, asked.system_version, asked.builds)
        yield "G13", f"it is of {found}, and {wanted} is released"
    yield from (("G14", what) for what in _of_host(run, host, asked, rules))
    strange = sorted({*(meta.plugin_files or {}).values()} - {*rules.plugins})
    if strange:
        yield "G15", f"it was made with a plug-in file of sha256 {strange[0]}"
    age = age_days(run, now_ns)
    if age is None or age > rules.age_days_max:
        told = "unknown" if age is None else f"{age:.1f} days"
        yield "G16", f"its age is {told}, {rules.age_days_max:g} days are allowed"
    given = sorted(meta.options_given or ())
    if given != sorted(asked.options):
        told = " ".join(given) or "none"
        yield "G17", f"its options are {told}; asked for: {' '.join(asked.options) or 'none'}"
    if meta.spec.get("schedule") is not None:
        yield "G18", f"its faults are those of {meta.spec['schedule']}"
    if asked.model is not None and not _strong_enough(run, asked.model):
        yield "G19", f"it was judged by {meta.model}, and {asked.model} is claimed"
    if isinstance(asked, Claim):
        evidence = run.evidence.checker
        absent = [n for n in asked.checkers if n not in {*evidence.ran} & {*evidence.declared}]
        if absent:
            yield "G20", f"it was not judged by {', '.join(absent)}"


def _of_host(run: JudgedRun, host: Host, asked: Asked, rules: EvidenceRules) -> Iterator[str]:
    wanted = {"python": rules.host.python, "kernel": rules.host.kernel, "cpus": rules.host.cpus}
    for name, value in wanted.items():
        if value is not None and getattr(host, name) != value:
            yield f"{name} of its host is {getattr(host, name)}, the policy names {value}"
    if asked.lab is not None and run.meta.lab != asked.lab:
        yield f"its lab is {run.meta.lab}, the policy names {asked.lab}"


def _strong_enough(run: JudgedRun, model: str) -> bool:
    """Is the model that it was judged by this one, or one that implies it?"""
    by = run.meta.model
    checkers = [registry.load("checkers", name) for name in run.evidence.checker.ran if _is(name)]
    return by == model or any(model in _below(checker, by) for checker in checkers)


def _is(name: str) -> bool:
    return name in registry.names("checkers")


def _below(checker: Any, model: str) -> set[str]:
    """The models that rule out less than this one, as a checker that knows an order of them says;
    none of one that knows no order."""
    weaker = getattr(checker, "weaker", None)
    if weaker is None or model not in checker.models:
        return set()
    found: set[str] = set()
    left: Sequence[str] = [model]
    while left:
        left = [below for one in left for below in weaker(one) if below not in found]
        found |= {*left}
    return found
