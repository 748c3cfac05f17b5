"""What a run was told by `-o`, what it was held to, what its system documents of that, and with
which settings it would promise more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dstest.core import registry
from dstest.core.protocols.systems import Caution, Relaxation
from dstest.core.run_words import pair_of, value_text
from dstest.report.model import RunReport
from dstest.report.remedies import Step, with_options

_PARTS: Final = (("systems", "system"), ("workloads", "workload"), ("nemeses", "nemesis"))
"""Whose options come first: those of the system say what was tested."""


def _sorted(given: list[str], spec: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(those of the system, all others by whose they are), each as it was given."""
    left, groups = list(dict.fromkeys(given)), list[list[str]]()
    for kind, part in _PARTS:
        declared = registry.known(kind, spec.get(part)).options
        groups.append([pair for pair in left if pair.partition("=")[0] in declared])
        left = [pair for pair in left if pair not in groups[-1]]
    return groups[0], [*groups[1], *groups[2], *left]


class Setting(NamedTuple):
    """What the system documents of the settings of a run, in a sentence, and the `ways` to have it
    promise more, options each, the defaults first. `model` is what it promises instead, empty where
    that is none that has a name."""

    says: str
    ways: Sequence[Mapping[str, Any]]
    model: str = ""


def relaxations(report: RunReport) -> list[Relaxation]:
    """What the system documents for the options that were in force instead of what was asked, as
    far as that may explain the violation."""
    symptom = report.evidence.symptom
    if symptom is None:
        return []
    options = report.meta.spec.get("options", {})
    rows = registry.known("systems", report.meta.spec.get("system")).relaxations
    return [row for row in rows if row.model in symptom.documented and row.holds(options)]


def promised(report: RunReport) -> str:
    """`; with reads=serializable it promises sequential only`, to follow what a system did wrong;
    empty where it promises what the run was held to, or nobody knows of less."""
    for row in relaxations(report):
        of = f"with {row.option}={value_text(row.value)} " if row.option else ""
        return f"; {of}it promises {row.model} only"
    return ""


def _in_force(row: Caution, spec: Mapping[str, Any], given: set[str]) -> str:
    """`sync_wait=0 as it comes`: the settings that a caution is about; empty where it is about
    none."""
    said = []
    for name in (*row.when, *row.unless):
        value = value_text(spec.get("options", {}).get(name, "?"))
        said.append(f"{name}={value}{'' if name in given else ' as it comes'}")
    return ", ".join(said)


def _loses_power(spec: Mapping[str, Any]) -> bool:
    """Does a fault of the run take what was not synced?"""
    names = str(spec.get("nemesis") or "").split(",")
    nemeses = [registry.known("nemeses", name.strip()) for name in names]
    return any(one.page_cache == "lost" for one in nemeses)


def _stronger(
    row: Caution | Relaxation, system: Any, names: Sequence[str], options: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Options with which this does not hold: a default, and those that it names. Of what always
    holds those that it names make it less."""
    defaults = {name: system.options[name].default for name in names if name in system.options}
    ways: list[Mapping[str, Any]] = [
        {name: value}
        for name, value in defaults.items()
        if options.get(name) != value and not row.holds({**options, name: value})
    ]
    own = row.instead if isinstance(row, Caution) else {}
    if own and any(options.get(name) != value for name, value in own.items()):
        ways += [own] if own not in ways else []
    return ways


def _of_relaxation(row: Relaxation, system: Any, spec: Mapping[str, Any]) -> Setting:
    of = f" for {row.option}={value_text(row.value)}" if row.option else ""
    says = f"{spec['system']} documents that it promises {row.model}{of} ({row.source})."
    names = [row.option] if row.option else []
    return Setting(says, _stronger(row, system, names, spec.get("options", {})), row.model)


def _of_caution(row: Caution, system: Any, spec: Mapping[str, Any], given: set[str]) -> Setting:
    of = _in_force(row, spec, given)
    about = f" ({of})" if of else ""
    says = f"{spec['system']}{about} documents that {row.says} ({row.source})."
    return Setting(says, _stronger(row, system, [*row.when], spec.get("options", {})))


def documented(report: RunReport) -> list[Setting]:
    """What the documentation of the system says against these settings: that it promises less than
    the run was held to, before what it warns of."""
    spec = report.meta.spec
    system = registry.known("systems", spec.get("system"))
    options, power = spec.get("options", {}), _loses_power(spec)
    given = {pair.partition("=")[0] for pair in report.meta.options_given or []}
    found = [_of_relaxation(row, system, spec) for row in relaxations(report)]
    return found + [
        _of_caution(row, system, spec, given)
        for row in system.cautions
        if row.holds(options) and (power or not row.power)
    ]


def ways_out(report: RunReport) -> list[Step]:
    """What to do about a failure that the system documents: ask for more, or hold the run to what
    it promises, where a checker of the run can judge that."""
    spec, given = report.meta.spec, report.meta.options_given
    ours = {*report.evidence.checker.ran} & {*registry.names("checkers")}
    models = {model for name in ours for model in registry.load("checkers", name).models}
    found: list[Step] = []
    for setting in documented(report):
        for way in setting.ways:
            pairs = ", ".join(pair_of(*pair) for pair in way.items())
            asks = f"Is it gone, or less, where the system promises more: with {pairs}?"
            found.append(Step(asks, with_options(spec, given, way)))
        if setting.model in models:
            asks = f"Does it keep {setting.model}, which is what it promises with these settings?"
            found.append(Step(asks, with_options({**spec, "model": setting.model}, given, {})))
    return list({step.command: step for step in reversed(found)}.values())[::-1]


def settings(report: RunReport) -> str:
    """In a sentence or more; empty for a history that no run has made."""
    spec, given = report.meta.spec, report.meta.options_given
    model = report.history.header.model or report.meta.model
    if not spec:
        return ""
    own, others = _sorted(given or [], spec)
    if given is None:
        said = "Ran with options that were not written down as given"
    elif own:
        said = f"Ran with {', '.join([*own, *others])}"
    else:
        besides = f", and {', '.join(others)}" if others else ""
        said = f"Ran with the system's settings as they come{besides}"
    said += f"; held to {model}." if model else "."
    return said
