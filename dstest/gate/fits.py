"""Which evidence is about what was asked, and why the rest is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dstest import __version__
from dstest.compare.fair import hashes_of
from dstest.core import registry
from dstest.core.run_meta import Host, RunMeta
from dstest.gate.honest import age_days
from dstest.gate.judged import JudgedRun, Unit
from dstest.gate.policy import Asked, Claim, EvidenceRules, Policy
from dstest.gate.rules import Finding


def about(unit: Unit, asked: Asked) -> bool:
    """Is it of this system, workload and kind of fault, whatever else it is?"""
    return any(_same_parts(run.meta, asked) for run in unit.runs)


def _same_parts(meta: RunMeta, asked: Asked) -> bool:
    spec = meta.spec
    same = (spec.get("system"), spec.get("workload")) == (asked.system, asked.workload)
    return same and _kinds(str(spec.get("nemesis"))) == _kinds(asked.nemesis)


def _kinds(nemesis: str) -> list[str]:
    """In no order: `kill,partition` is `partition,kill`."""
    return sorted({part.strip() for part in nemesis.split(",")})


def same_words(meta: RunMeta, asked: Asked) -> bool:
    """Is it of this system, workload, kind of fault, and of these options and no others?"""
    given = sorted(meta.options_given or ())
    return _same_parts(meta, asked) and given == sorted(asked.options)


def of_version(meta: RunMeta, asked: Asked) -> bool:
    """Is it of the version and the builds that are released? One that never said its version is of
    no other."""
    same = meta.system_version in (None, asked.system_version)
    return same and hashes_of(_builds(meta)) == hashes_of(asked.builds)


def _builds(meta: RunMeta) -> list[str]:
    return sorted(meta.spec.get("builds") or ())


def _version(system: str, version: str | None, builds: Sequence[str]) -> str:
    return f"{system} {version}" + (f" with {', '.join(builds)}" if builds else "")


def of_test(meta: RunMeta, asked: Asked) -> bool:
    """Is it a run of the test that is asked for, of the version that is released?"""
    return same_words(meta, asked) and of_version(meta, asked)


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a unit cannot count, each rule once: it is another (`wrong`), or its runs never came to
    say whether they are (`untold`), as one whose servers did not start has no version. What each
    says follows `it is`."""

    wrong: tuple[Finding, ...]
    untold: tuple[Finding, ...]


class _Misfit(NamedTuple):
    """`what` follows `it is`."""

    rule: str
    what: str
    untold: bool = False


def fit_of(unit: Unit, asked: Asked, policy: Policy, now_ns: int) -> Fit:
    """Whether a unit can count for this claim or control."""
    rules = policy.evidence
    found = {
        run.path: [*_of_evidence(run, rules, now_ns), *_of_asked(run, asked, rules)]
        for run in unit.runs
    }
    return Fit(
        wrong=tuple(_findings(found, asked.id, untold=False)),
        untold=tuple(_findings(found, asked.id, untold=True)),
    )


def misfits_of_plan(units: Sequence[Unit], id_: str, policy: Policy, now_ns: int) -> list[Finding]:
    """Why the runs of an executed plan cannot count; each rule once. Their words are those of the
    plan, which its report is held to."""
    rules = policy.evidence
    found = {
        run.path: [
            *_of_evidence(run, rules, now_ns),
            *_of_host(run, rules),
            *_of_released(run.meta, policy),
        ]
        for unit in units
        for run in unit.runs
    }
    both = (_findings(found, id_, untold=untold) for untold in (False, True))
    told = list({f.rule: f for part in both for f in part}.values())
    return [msgspec.structs.replace(f, what=f"it is {f.what}") for f in told]


def _findings(
    found: Mapping[Path, Sequence[_Misfit]], id_: str, *, untold: bool
) -> Iterator[Finding]:
    seen: set[str] = set()
    for path, rows in found.items():
        for row in rows:
            if row.untold is untold and row.rule not in seen:
                seen.add(row.rule)
                yield Finding(rule=row.rule, what=row.what, of=id_, where=str(path))


def _of_evidence(run: JudgedRun, rules: EvidenceRules, now_ns: int) -> Iterator[_Misfit]:
    """What any evidence has to be, whatever it is about."""
    meta, host = run.meta, run.meta.host or Host()
    if not run.by_us:
        what = f"made by dstest {host.dstest}, and this is {__version__}"
        yield _Misfit("G12", what, untold=host.dstest is None)
    strange = sorted({*(meta.plugin_files or {}).values()} - {*rules.plugins})
    if strange:
        yield _Misfit("G15", f"made with a plug-in file of sha256 {strange[0]}")
    age = age_days(run, now_ns)
    if age is None or age > rules.age_days_max:
        told = "of unknown age" if age is None else f"{age:.1f} days old"
        what = f"{told}, {rules.age_days_max:g} days are allowed"
        yield _Misfit("G16", what, untold=age is None)
    if meta.spec.get("schedule") is not None:
        yield _Misfit("G18", f"one with the faults of {meta.spec['schedule']}")


def _of_asked(run: JudgedRun, asked: Asked, rules: EvidenceRules) -> Iterator[_Misfit]:
    """What a run of this claim or control has to be."""
    meta = run.meta
    if not of_version(meta, asked) or meta.system_version is None:
        found = _version(asked.system, meta.system_version, _builds(meta))
        wanted = _version(asked.system, asked.system_version, asked.builds)
        what = f"of {found}, asked for is {wanted}"
        yield _Misfit("G13", what, untold=of_version(meta, asked))
    yield from _of_host(run, rules)
    if asked.lab is None and run.evidence.transport != "network":
        what = f"of lab {meta.lab}, all in one process, which counts where the policy names it"
        yield _Misfit("G14", what)
    if asked.lab is not None and meta.lab != asked.lab:
        what = f"of lab {meta.lab}, the policy names {asked.lab}"
        yield _Misfit("G14", what, untold=meta.lab is None)
    given = sorted(meta.options_given or ())
    if given != sorted(asked.options):
        told = " ".join(given) or "none"
        what = f"with options {told}; asked for: {' '.join(asked.options) or 'none'}"
        yield _Misfit("G17", what)
    evidence = run.evidence.checker
    meant = {*meta.checkers, *evidence.declared}
    if asked.model is not None and not _strong_enough(run, evidence.ran, asked.model):
        what = f"judged by {meta.model}, and {asked.model} is claimed"
        yield _Misfit("G19", what, untold=_strong_enough(run, meant, asked.model))
    if isinstance(asked, Claim):
        absent = [n for n in asked.checkers if n not in {*evidence.ran} & {*evidence.declared}]
        if absent:
            what = f"not judged by {', '.join(absent)}"
            yield _Misfit("G20", what, untold=meant.issuperset(absent))


def _of_host(run: JudgedRun, rules: EvidenceRules) -> Iterator[_Misfit]:
    host = run.meta.host or Host()
    wanted = {"python": rules.host.python, "kernel": rules.host.kernel, "cpus": rules.host.cpus}
    for name, value in wanted.items():
        found = getattr(host, name)
        if value is not None and found != value:
            what = f"of a host whose {name} is {found}, the policy names {value}"
            yield _Misfit("G14", what, untold=found is None)


def _of_released(meta: RunMeta, policy: Policy) -> Iterator[_Misfit]:
    """Is it of a version that is released? What no claim is about is of one that a control names,
    as a system whose bugs are known is."""
    system = str(meta.spec.get("system"))
    rows: list[Asked] = [row for row in policy.claim if row.system == system]
    rows = rows or [row for row in policy.control if row.system == system]
    if meta.system_version is None or not any(of_version(meta, row) for row in rows):
        found = _version(system, meta.system_version, _builds(meta))
        named = sorted({_version(system, row.system_version, row.builds) for row in rows})
        what = f"of {found}, and the policy names {' and '.join(named) or 'none of it'}"
        yield _Misfit("G13", what)


def _strong_enough(run: JudgedRun, judges: Iterable[str], model: str) -> bool:
    """Is the model that these judge it by this one, or one that implies it?"""
    by = run.meta.model
    checkers = [registry.load("checkers", name) for name in judges if _is(name)]
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
