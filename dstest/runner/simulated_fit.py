"""What can be asked of a run whose nodes are simulated: refused here, before there are any.

System, nemesis and each planned fault must have a simulation; what a user asks for besides must
mean there what it means on nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import TIERS, Tier
from dstest.core.implements import missing
from dstest.core.protocols import (
    Administers,
    Composite,
    FaultPlan,
    LeavesOut,
    Nemesis,
    PlanOptions,
    Simulable,
    SimulatedFaults,
    System,
)
from dstest.core.run_record import RunSpec
from dstest.runner.requirements import parts_of
from dstest.sim.simulate import simulable_of
from nemeses.mix import Mix

_OF_WORKERS: Final = frozenset({"workers", "client"})
"""Options of every run: there is one process, and one client for each capability."""

_LEAVE_OUT: Final = "leave it out, or take a lab with nodes"


def _faults_of(nemesis: Nemesis) -> SimulatedFaults | None:
    """How its faults are simulated. What a class takes over from another one does not count: its
    own faults may be others."""
    own = {*vars(type(nemesis)), *vars(nemesis)}
    return nemesis.simulated if "simulated" in own else None


def _simulable_nemeses() -> list[str]:
    every = [registry.load("nemeses", name) for name in registry.names("nemeses")]
    return [n.name for n in every if _faults_of(n) is not None or not n.injects]


def _required(nemesis: Nemesis) -> SimulatedFaults | None:
    """None for one that injects nothing. Raises ConfigError where it cannot be simulated."""
    faults = _faults_of(nemesis)
    if faults is None and nemesis.injects:
        can = ", ".join(_simulable_nemeses())
        raise ConfigError(
            f"--nemesis {nemesis.name} cannot be simulated", remedy=f"those that can: {can}"
        )
    return faults


def check_lab(lab_id: str | None, *, keep_lab: bool) -> None:
    """Raises ConfigError for what is said of a lab that stands by itself."""
    for flag, given in (("--lab-id", lab_id is not None), ("--keep-lab", keep_lab)):
        if given:
            raise ConfigError(
                f"{flag}: simulated nodes come and go with their run", remedy="leave it out"
            )


def check_tier(tier: Tier) -> None:
    """Raises ConfigError for a tier that no run in one process can meet."""
    if TIERS.index(tier) > TIERS.index("smoke"):
        raise ConfigError(
            f"--tier {tier}: servers and clients of a simulation are in one process, which is"
            " smoke at most",
            remedy="a lab with nodes, or no --tier",
        )


def _administration(simulable: Simulable) -> type:
    """The class of what can be asked of the simulated system besides; one without anything where it
    offers none."""
    return simulable.administration if isinstance(simulable, Administers) else object


def _lacking(simulable: Simulable, asked_for: Sequence[type]) -> str:
    """Which capabilities its simulation lacks; empty: none."""
    kind = _administration(simulable)
    lacks = {asked.__name__: missing(kind, asked) for asked in asked_for}
    return ", ".join(f"{name} ({', '.join(what)})" for name, what in lacks.items() if what)


def check_fit(spec: RunSpec, system: System, nemesis: Nemesis, pairs: Sequence[str]) -> None:
    """Raises ConfigError for what has no simulation, and for an option that has no meaning in
    one."""
    simulable = simulable_of(system.name)
    for part in parts_of(nemesis):
        faults = _required(part)
        if lacks := "" if faults is None else _lacking(simulable, faults.requires):
            raise ConfigError(
                f"--nemesis {part.name} cannot be simulated: the simulation of {system.name} lacks"
                f" {lacks}",
                remedy="another --nemesis, or a lab with nodes",
            )
    if spec.builds:
        raise ConfigError(
            "--system-version: a simulation runs the system as it is installed here",
            remedy=_LEAVE_OUT,
        )
    if spec.stop_on_violation:
        raise ConfigError(
            "--stop-on-violation: nobody looks at a simulation before its end", remedy=_LEAVE_OUT
        )
    given = {pair.partition("=")[0].strip() for pair in pairs}
    wrong = sorted(given & only_on_nodes(system, nemesis))
    if wrong:
        raise ConfigError(f"-o {wrong[0]} has no meaning in a simulation", remedy=_LEAVE_OUT)


def only_on_nodes(system: System, nemesis: Nemesis) -> set[str]:
    """Options that mean nothing in a simulation."""
    simulable = simulable_of(system.name)
    found = {*_OF_WORKERS, *(simulable.left_out if isinstance(simulable, LeavesOut) else ())}
    for part in parts_of(nemesis):
        faults = _required(part)
        lost = part.options.keys() - (faults.options if faults is not None else frozenset())
        found |= {*lost, *(f"{part.name}.{key}" for key in lost)}
    return found


def for_planning(nemesis: Nemesis, options: Mapping[str, Any]) -> PlanOptions:
    """The options for a plan. What only some simulations can be asked, such as who leads, is not
    drawn: whoever wants it says so. So a seed plans the same in all of them."""
    planned, asked = dict(options), set[type]()
    for part in parts_of(nemesis):
        faults = _required(part)
        for key, value in ({} if faults is None else faults.fixed).items():
            planned[key if key in options else f"{part.name}.{key}"] = value
        for when in part.requires_when:
            asked |= {*when.requires}
    return PlanOptions(planned, frozenset(asked))


def check_plans(system: System, nemesis: Nemesis, plans: Sequence[FaultPlan]) -> None:
    """Raises ConfigError where a planned fault has no simulation, or asks for what that of the
    system lacks."""
    simulable = simulable_of(system.name)
    parts = {part.name: part for part in parts_of(nemesis)}
    for plan in plans:
        part = parts.get(plan.nemesis, nemesis)
        faults = _required(part)
        problem, why = None if faults is None else faults.problem(plan.facts), ""
        for when in () if faults is None else faults.requires_when:
            if problem is None and plan.facts.get(when.fact) == when.value:
                why = _lacking(simulable, when.requires)
                problem = str(when) if why else None
        if problem is not None:
            key, _, value = problem.partition("=")
            told = f": the simulation of {system.name} lacks {why}" if why else ""
            raise ConfigError(
                f"--nemesis {part.name} with {problem} cannot be simulated{told}",
                remedy=f"another {key} than {value}, or a lab with nodes",
            )


def simulated_nemesis(nemesis: Nemesis, world: Any) -> Nemesis:
    """What makes the faults of this nemesis, or of each of its parts, in a world."""

    def made(part: Nemesis) -> Nemesis:
        faults = _required(part)
        return part if faults is None else faults.made(part, world)

    parts = [made(part) for part in parts_of(nemesis)]
    return Mix(parts) if isinstance(nemesis, Composite) else parts[0]
