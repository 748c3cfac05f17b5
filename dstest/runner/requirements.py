"""Does a system have what a nemesis requires? Asked of classes, when a run is planned.

A nemesis says what it requires, a system says of which class its deployments are: so whoever asks
needs no node. What is lacking then is lacking for the whole run.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.implements import broken_claims, members_of, missing
from dstest.core.node import Lab, Node
from dstest.core.protocols import (
    PINNED_KINDS,
    Attached,
    Composite,
    Deployment,
    Endpoint,
    FaultPlan,
    LogFiles,
    NamesOperations,
    Nemesis,
    PlanOptions,
    Processes,
    System,
    When,
    Workload,
)
from nemeses.base.driver import Driver
from nemeses.base.moment import LOG, spec_in

PINNED_CLIENTS: Final = "clients of one node"
"""What a system lacks whose clients go elsewhere, for a nemesis that shows at clients."""

MORE_MEMBERS: Final = "more members"
"""What a system lacks that never has as many as the nemesis needs."""


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """A capability that a system does not have, and what of it is `missing`; `means` says what a
    system with it is like.

    `when` is the fact of a fault that asks for it, as `scope=primaries`; empty: all of them do.
    """

    nemesis: str
    capability: str
    missing: tuple[str, ...]
    when: str = ""
    means: str = ""

    @property
    def text(self) -> str:
        """`Kill (restart)`."""
        return f"{self.capability} ({', '.join(self.missing)})"


def deployment_of(system: System) -> type[Deployment]:
    """The class of the system's deployments.

    Raises ConfigError where the system does not say it, or where the class lacks a method that
    every deployment has or that a capability among its bases has.
    """
    kind = getattr(system, "deployment", None)
    if not isinstance(kind, type):
        raise ConfigError(
            f"system {system.name} does not say of which class its deployments are",
            remedy=f"`deployment = ...` in the class of {system.name}: the class of what its"
            " deploy() returns",
        )
    if lacking := missing(kind, Deployment):
        raise ConfigError(
            f"system {system.name}: {kind.__name__} lacks {', '.join(lacking)}, which every"
            " deployment has",
            remedy=f"write what is missing in {kind.__name__}",
        )
    for capability, methods in broken_claims(kind).items():
        name = capability.__name__
        raise ConfigError(
            f"system {system.name}: {kind.__name__} claims {name} and lacks {', '.join(methods)}",
            remedy=f"write what is missing in {kind.__name__}, or take {name} from its bases",
        )
    return kind


def check_client(system: System, work: Workload) -> None:
    """Raises ConfigError where the system offers no client for the workload, or one that lacks some
    of its operations."""
    if work.capability not in system.capabilities:
        offered = ", ".join(sorted(system.capabilities))
        fitting = sorted(
            name
            for name in registry.names("workloads")
            if registry.load("workloads", name).capability in system.capabilities
        )
        remedy = f"--workload {' or '.join(fitting)}" if fitting else "a workload of its own"
        raise ConfigError(
            f"workload {work.name} needs a {work.capability} client, {system.name} offers"
            f" {offered or 'nothing'}",
            remedy=f"{remedy}; or give {system.name} such a client",
        )
    made = system.clients.get(work.capability)
    if not isinstance(made, NamesOperations):
        return
    if lacking := made.unsupported(work.op_types):
        name = getattr(made, "__name__", repr(made))
        raise ConfigError(
            f"workload {work.name} asks for {', '.join(lacking)}, which {name} of {system.name}"
            " cannot do",
            remedy=f"write {', '.join(f'do_{kind}' for kind in lacking)} in {name}",
        )


def deployed(system: System, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment:
    """The system on these nodes. ConfigError where it is not of the class that was asked."""
    made, kind = system.deploy(nodes, options), deployment_of(system)
    if not isinstance(made, kind):
        raise ConfigError(
            f"system {system.name} deploys a {type(made).__name__}, not a {kind.__name__} as it"
            " says",
            remedy=f"`deployment = {type(made).__name__}` in the class of {system.name}",
        )
    return made


def check_endpoints(system: System, endpoints: Sequence[Endpoint]) -> None:
    """Raises ConfigError where the endpoints are not what the system has said of them.

    Faults that show at clients are planned by what the system says.
    """
    said = system.endpoint_kind
    elsewhere = sorted({one.kind for one in endpoints if not one.pinned})
    if bool(elsewhere) == (said not in PINNED_KINDS) or not endpoints:
        return
    found = elsewhere or sorted({one.kind for one in endpoints})
    raise ConfigError(
        f"system {system.name} says endpoint_kind {said}, and has endpoints of kind"
        f" {', '.join(found)}",
        remedy=f'`endpoint_kind = "{found[0]}"`, so that its faults are planned by what clients'
        " see of a node",
    )


def parts_of(nemesis: Nemesis) -> Sequence[Nemesis]:
    """Each kind of fault by itself."""
    return list(nemesis.parts.values()) if isinstance(nemesis, Composite) else [nemesis]


def _requires(nemesis: Nemesis) -> tuple[type, ...]:
    found = getattr(nemesis, "requires", None)
    if not isinstance(found, tuple):
        raise ConfigError(
            f"nemesis {nemesis.name} does not say what it requires of a system",
            remedy="`requires = (...)`, the capabilities that it asks for, in its class; () for"
            " none",
        )
    return _classes_of(nemesis, "requires", found)


def _when(nemesis: Nemesis) -> tuple[When, ...]:
    found = nemesis.requires_when
    for when in found:
        _classes_of(nemesis, "requires_when", when.requires)
    return found


def _of_lab(nemesis: Nemesis) -> tuple[type, ...]:
    return _classes_of(nemesis, "requires_lab", nemesis.requires_lab)


def _classes_of(nemesis: Nemesis, word: str, found: tuple[type, ...]) -> tuple[type, ...]:
    """Raises ConfigError for what is no tuple of capabilities."""
    many = found if isinstance(found, tuple) else (found,)
    others = [one for one in many if not (isinstance(one, type) and members_of(one))]
    if others or many is not found:
        raise ConfigError(
            f"nemesis {nemesis.name}: its {word} is {found!r}",
            remedy="a tuple of protocols of dstest/core/protocols, or of dstest/core/node.py",
        )
    return found


def _meaning(capability: type) -> str:
    """What a capability is for, as its own first sentence says it."""
    first = (inspect.getdoc(capability) or "").partition("\n\n")[0].replace("\n", " ")
    first = first.partition(". ")[0].rstrip(".")
    return f": {first[:1].lower()}{first[1:]}" if first else ""


def _lacks(kind: type, nemesis: Nemesis, asked_for: Iterable[type], when: str = "") -> list[Lack]:
    return [
        Lack(
            nemesis=nemesis.name,
            capability=asked.__name__,
            missing=tuple(methods),
            when=when,
            means=_meaning(asked),
        )
        for asked in asked_for
        if (methods := missing(kind, asked))
    ]


def _always(system: System, kind: type, nemesis: Nemesis) -> list[Lack]:
    """What each fault of the nemesis asks for in vain."""
    _of_lab(nemesis)
    lacks = _lacks(kind, nemesis, _requires(nemesis))
    where = system.endpoint_kind
    if nemesis.shows_at_clients and where not in PINNED_KINDS:
        why = f"its clients go where they are sent: endpoint_kind {where}"
        lacks.append(Lack(nemesis=nemesis.name, capability=PINNED_CLIENTS, missing=(why,)))
    most, least = system.members_most, nemesis.members_least
    if most is not None and most < least:
        why = f"it has {most} at most, {least} are needed"
        lacks.append(Lack(nemesis=nemesis.name, capability=MORE_MEMBERS, missing=(why,)))
    return lacks


def lacking(system: System, nemesis: Nemesis) -> list[Lack]:
    """All that the system lacks of what the nemesis requires, always or with some options."""
    kind, found = deployment_of(system), []
    for part in parts_of(nemesis):
        found += _always(system, kind, part)
        for when in _when(part):
            if when.among(part.options):
                found += _lacks(kind, part, when.requires, str(when))
    return found


def check_requires(system: System, nemesis: Nemesis) -> None:
    """Raises ConfigError where no fault of the nemesis is possible on the system."""
    kind = deployment_of(system)
    for part in parts_of(nemesis):
        lacks = _always(system, kind, part)
        if lacks:
            raise _refused(system, kind, lacks, "another --nemesis; `dstest list` says which fit")


def check_spares(system: System, nemesis: Nemesis, builds: Sequence[str] = ()) -> None:
    """Of servers that run already: raises ConfigError for what would change them, or could not be
    taken back."""
    if builds:
        raise ConfigError(
            "--attach: what runs there is not replaced by another build",
            remedy="leave --system-version out; the servers are asked for their version",
        )
    for part in parts_of(nemesis):
        if part.injects and not part.spares_servers:
            fit = [
                name
                for name in registry.names("nemeses")
                if registry.load("nemeses", name).spares_servers
            ]
            raise ConfigError(
                f"--attach: --nemesis {part.name} needs servers that dstest has started: it changes"
                " their files, settings, memory or limits, and nobody could promise that they are"
                " afterwards as they were",
                remedy=f"--nemesis {', '.join(fit)} or none",
            )


def why_lacking(
    deployment: Attached, nemesis: Nemesis, plans: Sequence[FaultPlan]
) -> Iterator[str]:
    """What planned faults ask for in vain of the servers that were found: a sentence each."""
    lacks = deployment.lacks()
    parts = {part.name: part for part in parts_of(nemesis)}
    for name in dict.fromkeys(plan.nemesis for plan in plans):
        part = parts.get(name, nemesis)
        facts = [plan.facts for plan in plans if plan.nemesis == name]
        asked = [*_requires(part)]
        for when in _when(part):
            if any(fact.get(when.fact) == when.value for fact in facts):
                asked += when.requires
        bases = {base.__name__ for capability in asked for base in capability.__mro__}
        for why in dict.fromkeys(why for lack, why in lacks.items() if lack in bases):
            yield f"--nemesis {name}: {why}"


def check_moments(
    system: System, nemesis: Nemesis, plans: Sequence[FaultPlan], *, simulated: bool
) -> None:
    """Raises ConfigError where a fault is to wait for a moment and cannot: by its nemesis, whose
    own `inject` would not wait, by what the system lacks, or since its servers are simulated or
    others'."""
    kind = deployment_of(system)
    parts = {part.name: part for part in parts_of(nemesis)}
    aiming = [name for name, part in parts.items() if "at" in part.options]
    for plan in plans:
        if (wanted := spec_in(plan)) is None:
            continue
        if aiming and not wanted.at.startswith(LOG):
            raise ConfigError(
                f"-o {plan.nemesis}.at={wanted.at}: {aiming[0]} traces the same servers, and a"
                " thread has one tracer",
                remedy=f"log:REGEX, or --nemesis without {aiming[0]}",
            )
        part, at = parts[plan.nemesis], f"-o {plan.nemesis}.at={wanted.at}"
        asked = LogFiles if wanted.at.startswith(LOG) else Processes
        why = ""
        if simulated:
            why = "simulated servers have no points that could be met"
        elif not missing(kind, Attached):
            why = "--attach: servers that others have started are not traced, nor their logs read"
        elif not isinstance(part, Driver) or type(part).inject is not Driver.inject:
            why = f"{part.name} has an inject() of its own, which waits for nothing"
        elif missing(kind, asked):
            why = f"{system.name} lacks {asked.__name__} ({', '.join(missing(kind, asked))})"
        if why:
            raise ConfigError(f"{at}: {why}", remedy="without it the fault begins when it is due")


def check_lab(lab: Lab, nemesis: Nemesis) -> None:
    """Raises ConfigError where the lab cannot do to its nodes what the nemesis asks of it."""
    for part in parts_of(nemesis):
        for asked in _of_lab(part):
            if methods := missing(type(lab), asked):
                raise ConfigError(
                    f"lab {lab.name} cannot have --nemesis {part.name}: it lacks"
                    f" {asked.__name__} ({', '.join(methods)})",
                    remedy="another --lab or --nemesis",
                )


def for_planning(system: System, nemesis: Nemesis, options: Mapping[str, Any]) -> PlanOptions:
    """The options, and what a fault that is drawn at random may not ask for."""
    kind = deployment_of(system)
    asked = {c for part in parts_of(nemesis) for when in _when(part) for c in when.requires}
    return PlanOptions(options, frozenset(c for c in asked if missing(kind, c)))


def check_plans(system: System, nemesis: Nemesis, plans: Sequence[FaultPlan]) -> None:
    """Raises ConfigError where one of the planned faults asks for what the system lacks.

    A schedule may plan what no option of this run asks for.
    """
    kind = deployment_of(system)
    parts = {part.name: part for part in parts_of(nemesis)}
    for plan in plans:
        part = parts.get(plan.nemesis, nemesis)
        for when in _when(part):
            if plan.facts.get(when.fact) == when.value:
                lacks = _lacks(kind, part, when.requires, str(when))
                if lacks:
                    raise _refused(system, kind, lacks, f"another -o {when.fact}")


def _refused(system: System, kind: type, lacks: Sequence[Lack], instead: str) -> ConfigError:
    first = lacks[0]
    fault = f"--nemesis {first.nemesis}" + (f" with {first.when}" if first.when else "")
    names = ", ".join(f"{lack.text}{lack.means}" for lack in lacks)
    methods = [lack for lack in lacks if lack.capability not in (PINNED_CLIENTS, MORE_MEMBERS)]
    give = f"; or give {kind.__name__} these methods, as the nemesis asks for them"
    return ConfigError(
        f"system {system.name} cannot have {fault}: it lacks {names}",
        remedy=instead + (give if methods else ""),
    )
