"""Which path clients and servers had between them: what lab and system declare, and a run kept."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dstest.core import registry
from dstest.core.evidence import Transport
from dstest.core.protocols import Lab, System
from dstest.core.run_record import RunMeta, RunSpec
from dstest.history.segment import Folded

_IN_PROCESS: Final[Transport] = "in-process"
_NETWORK: Final[Transport] = "network"


class DeclaredPath(NamedTuple):
    """The `transport`, whether the nodes were simulated, and where the record disagrees with itself
    about that, a sentence each."""

    transport: Transport
    simulated: bool
    wrong: list[str]


def simulates(lab: Lab) -> bool:
    """Are the nodes of this lab in the process of the run?"""
    return lab.transport == _IN_PROCESS


def declared(lab: Lab, system: System) -> Transport:
    """By the plug-ins: the lesser of what the two say."""
    both = {lab.transport, system.transport}
    return _IN_PROCESS if _IN_PROCESS in both else _NETWORK


def path_of(spec: RunSpec, meta: RunMeta, folded: Folded) -> DeclaredPath:
    """By the record of a run and by its plug-ins. Of a lab that is not there any more, as the
    record says.

    A run says it twice, in run.json and in the journal of its control process. Where any of them
    says that all was in one process, the run is no better than smoke, whatever the others say; and
    where they differ, its record contradicts itself.
    """
    known = spec.lab in registry.names("labs")
    lab: Any = registry.load("labs", spec.lab) if known else None
    by_plugins = declared(lab, registry.load("systems", spec.system)) if known else meta.transport
    notes = [note["transport"] for note in folded.notes if "transport" in note]
    said = {
        "run.json": meta.transport,
        "its journal": notes[-1] if notes else _NETWORK,
        f"lab {spec.lab} with {spec.system}": by_plugins,
    }
    wrong = []
    if len({*said.values()}) > 1 and not (meta.ended_by and not folded.ops):
        wrong = ["the path is told in two ways: " + ", ".join(f"{k} {v}" for k, v in said.items())]
    transport = _IN_PROCESS if _IN_PROCESS in said.values() else _NETWORK
    return DeclaredPath(transport, known and simulates(lab), wrong)
