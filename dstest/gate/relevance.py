"""Which evidence is about what was asked, and why the rest is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dstest import __version__
from dstest.core import registry
from dstest.core.run_record import Host, RunMeta
from dstest.gate.gather import JudgedRun, Unit
from dstest.gate.policy import Claim, Finding, Policy, RequiredTest, Rule
from dstest.gate.provenance import age_days
from dstest.store.compare.measured import hashes_of


def about(unit: Unit, asked: RequiredTest) -> bool:
    """Is it of this system, workload and kind of fault, whatever else it is?"""
    return any(_same_parts(run.meta, asked) for run in unit.runs)


def _same_parts(meta: RunMeta, asked: RequiredTest) -> bool:
    spec = meta.spec
    same = (spec.get("system"), spec.get("workload")) == (asked.system, asked.workload)
    return same and _kinds(str(spec.get("nemesis"))) == _kinds(asked.nemesis)


def _kinds(nemesis: str) -> list[str]:
    """In no order: `kill,partition` is `partition,kill`."""
    return sorted({part.strip() for part in nemesis.split(",")})


def same_words(meta: RunMeta, asked: RequiredTest) -> bool:
    """Is it of this system, workload, kind of fault, and of these options and no others?"""
    given = sorted(meta.options_given or ())
    return _same_parts(meta, asked) and given == sorted(asked.options)


def of_version(meta: RunMeta, asked: RequiredTest) -> bool:
    """Is it of the version and the builds that are released? One that never said its version is of
    no other."""
    same = meta.system_version in (None, asked.system_version)
    return same and hashes_of(_builds(meta)) == hashes_of(asked.builds)


def _builds(meta: RunMeta) -> list[str]:
    return sorted(meta.spec.get("builds") or ())


def _version(system: str, version: str | None, builds: Sequence[str]) -> str:
    return f"{system} {version}" + (f" with {', '.join(builds)}" if builds else "")


def of_test(meta: RunMeta, asked: RequiredTest) -> bool:
    """Is it a run of the test that is asked for, of the version that is released?"""
    return same_words(meta, asked) and of_version(meta, asked)


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a unit cannot count, each rule once: it is another (`wrong`), or its runs never came to
    say whether they are (`untold`), as one whose servers did not start has no version. What each
    says follows `it is`."""

    wrong: tuple[Finding, ...]
    untold: tuple[Finding, ...]


class _Run(NamedTuple):
    """A run that may count for a claim or control, or, where none is `asked`, for a plan: its words
    are those of the plan, which its report is held to."""

    run: JudgedRun
    policy: Policy
    now_ns: int
    asked: RequiredTest | None = None

    @property
    def meta(self) -> RunMeta:
        return self.run.meta

    @property
    def host(self) -> Host:
        return self.meta.host or Host()


class _Misfit(NamedTuple):
    """`what` follows `it is`."""

    what: str
    untold: bool = False


def fit_of(unit: Unit, asked: RequiredTest, policy: Policy, now_ns: int) -> Fit:
    """Whether a unit can count for this claim or control."""
    found = _findings((_Run(run, policy, now_ns, asked) for run in unit.runs), asked.id, RULES)
    return Fit(wrong=tuple(found[False].values()), untold=tuple(found[True].values()))


def misfits_of_plan(units: Sequence[Unit], id_: str, policy: Policy, now_ns: int) -> list[Finding]:
    """Why the runs of an executed plan cannot count; each rule once."""
    seen = [_Run(run, policy, now_ns) for unit in units for run in unit.runs]
    found = _findings(seen, id_, (*_OF_EVIDENCE, _HOST, _VERSION))
    told = {**found[False], **found[True]}
    return [msgspec.structs.replace(f, what=f"it is {f.what}") for f in told.values()]


def _findings(
    seen: Iterable[_Run], id_: str, rules: Sequence[Rule]
) -> Mapping[bool, dict[str, Finding]]:
    """By whether it is untold the first finding of each rule."""
    found: dict[bool, dict[str, Finding]] = {False: {}, True: {}}
    for one in seen:
        for by in rules:
            for what, untold in by.find(one):
                finding = Finding(rule=by.id, what=what, of=id_, where=str(one.run.path))
                found[untold].setdefault(by.id, finding)
    return found


def _other_dstest(r: _Run) -> Iterator[_Misfit]:
    if not r.run.by_us:
        what = f"made by dstest {r.host.dstest}, and this is {__version__}"
        yield _Misfit(what, untold=r.host.dstest is None)


def _strange_plugins(r: _Run) -> Iterator[_Misfit]:
    known = r.policy.evidence.plugins
    if strange := sorted({*(r.meta.plugin_files or {}).values()} - {*known}):
        yield _Misfit(f"made with a plug-in file of sha256 {strange[0]}")


def _old(r: _Run) -> Iterator[_Misfit]:
    age, most = age_days(r.run, r.now_ns), r.policy.evidence.age_days_max
    if age is None or age > most:
        told = "of unknown age" if age is None else f"{age:.1f} days old"
        yield _Misfit(f"{told}, {most:g} days are allowed", untold=age is None)


def _scheduled(r: _Run) -> Iterator[_Misfit]:
    if r.meta.spec.get("schedule") is not None:
        yield _Misfit(f"one with the faults of {r.meta.spec['schedule']}")


def _other_version(r: _Run) -> Iterator[_Misfit]:
    """Of a plan's run: is it of a version that is released? What no claim is about is of one that a
    control names, as a system whose bugs are known is."""
    meta, asked = r.meta, r.asked
    if asked is None:
        system = str(meta.spec.get("system"))
        rows: list[RequiredTest] = [row for row in r.policy.claim if row.system == system]
        rows = rows or [row for row in r.policy.control if row.system == system]
    else:
        system, rows = asked.system, [asked]
    if meta.system_version is not None and any(of_version(meta, row) for row in rows):
        return
    found = _version(system, meta.system_version, _builds(meta))
    named = sorted({_version(system, row.system_version, row.builds) for row in rows})
    if asked is None:
        yield _Misfit(f"of {found}, and the policy names {' and '.join(named) or 'none of it'}")
    else:
        yield _Misfit(f"of {found}, asked for is {named[0]}", untold=of_version(meta, asked))


def _other_host(r: _Run) -> Iterator[_Misfit]:
    for name, value in msgspec.structs.asdict(r.policy.evidence.host).items():
        found = getattr(r.host, name)
        if value is not None and found != value:
            what = f"of a host whose {name} is {found}, the policy names {value}"
            yield _Misfit(what, untold=found is None)
    if r.asked is None:
        return
    lab = r.meta.lab
    if r.asked.lab is None and r.run.evidence.transport != "network":
        yield _Misfit(f"of lab {lab}, all in one process, which counts where the policy names it")
    if r.asked.lab is not None and lab != r.asked.lab:
        yield _Misfit(f"of lab {lab}, the policy names {r.asked.lab}", untold=lab is None)


def _other_options(r: _Run) -> Iterator[_Misfit]:
    assert r.asked is not None
    given = sorted(r.meta.options_given or ())
    if given != sorted(r.asked.options):
        told = " ".join(given) or "none"
        yield _Misfit(f"with options {told}; asked for: {' '.join(r.asked.options) or 'none'}")


def _meant(r: _Run) -> set[str]:
    return {*r.meta.checkers, *r.run.evidence.checker.declared}


def _other_model(r: _Run) -> Iterator[_Misfit]:
    assert r.asked is not None
    ran, model = r.run.evidence.checker.ran, r.asked.model
    if model is not None and not _strong_enough(r.run, ran, model):
        what = f"judged by {r.meta.model}, and {model} is claimed"
        yield _Misfit(what, untold=_strong_enough(r.run, _meant(r), model))


def _other_checkers(r: _Run) -> Iterator[_Misfit]:
    evidence = r.run.evidence.checker
    asked = r.asked.checkers if isinstance(r.asked, Claim) else ()
    if absent := [n for n in asked if n not in {*evidence.ran} & {*evidence.declared}]:
        what = f"not judged by {', '.join(absent)}"
        yield _Misfit(what, untold=_meant(r).issuperset(absent))


_OF_EVIDENCE: Final = (
    Rule("G12", "This version of dstest made and judged it", _other_dstest),
    Rule("G15", "Plug-in files of one's own are those that the policy knows", _strange_plugins),
    Rule("G16", "It is not too old", _old),
    Rule(
        "G18",
        "Its faults were planned by its seed, not taken from a file or another run",
        _scheduled,
    ),
)
"""What any evidence has to be, whatever it is about."""

_VERSION: Final = Rule(
    "G13", "It is of the version and build of the system that is released", _other_version
)
_HOST: Final = Rule(
    "G14", "It is of the host and lab that are named, one for all runs of a claim", _other_host
)
RULES: Final = (
    *(*_OF_EVIDENCE, _VERSION, _HOST),
    Rule(
        "G17",
        "It is a run of the test that is asked for, with its options and no others",
        _other_options,
    ),
    Rule("G19", "It was judged by the model that is claimed, or by a stronger one", _other_model),
    Rule("G20", "The checkers that are named judged it", _other_checkers),
)


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
