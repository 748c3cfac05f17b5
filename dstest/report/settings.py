"""What a run was told by `-o`, what it was held to, and what its system documents of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import SystemTraits
from dstest.core.protocols.systems import Caution, Relaxation
from dstest.core.run_words import value_text
from dstest.report.model import RunReport

_PARTS: Final = (("systems", "system"), ("workloads", "workload"), ("nemeses", "nemesis"))
"""Whose options come first: those of the system say what was tested."""


def _plugin(kind: str, name: object) -> Any:
    """A plug-in, None where it is not there any more."""
    try:
        return registry.load(kind, name) if isinstance(name, str) else None
    except ConfigError:
        return None


def _sorted(given: list[str], spec: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(those of the system, all others by whose they are), each as it was given."""
    left, groups = list(dict.fromkeys(given)), list[list[str]]()
    for kind, part in _PARTS:
        plugin = _plugin(kind, spec.get(part))
        declared: Mapping[str, Any] = {} if plugin is None else plugin.options
        groups.append([pair for pair in left if pair.partition("=")[0] in declared])
        left = [pair for pair in left if pair not in groups[-1]]
    return groups[0], [*groups[1], *groups[2], *left]


def _relaxed(spec: Mapping[str, Any], model: str | None) -> list[Relaxation]:
    """What the system documents for the options that were in force, other than what was asked."""
    system = _plugin("systems", spec.get("system"))
    rows = () if system is None else SystemTraits.of(system).relaxations
    options = spec.get("options", {})
    return [row for row in rows if row.model != model and row.holds(options)]


def _in_force(row: Caution, spec: Mapping[str, Any], given: set[str]) -> str:
    """`sync_wait=0 as it comes`: the settings that a caution is about; empty where it is about
    none."""
    said = []
    for name in (*row.when, *row.unless):
        value = value_text(spec["options"][name])
        said.append(f"{name}={value}{'' if name in given else ' as it comes'}")
    return ", ".join(said)


def documented(report: RunReport) -> list[str]:
    """What the documentation of the system says against these settings, in a sentence each."""
    spec = report.meta.spec
    system = _plugin("systems", spec.get("system"))
    if system is None:
        return []
    options = spec.get("options", {})
    given = {pair.partition("=")[0] for pair in report.meta.options_given or []}
    found = []
    for row in SystemTraits.of(system).cautions:
        if row.holds(options):
            of = _in_force(row, spec, given)
            about = f" ({of})" if of else ""
            found.append(f"{spec['system']}{about} documents that {row.says} ({row.source}).")
    return found


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
    for row in _relaxed(spec, model):
        of = f"Of {row.option}={row.value} {spec['system']}" if row.option else spec["system"]
        said += f" {of} documents {row.model} ({row.source})."
    return said
