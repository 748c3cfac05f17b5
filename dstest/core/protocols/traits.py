"""What a plug-in may say of itself beyond its protocol, and what holds where it does not.

A plug-in declares a trait as an attribute of the trait's name. `CheckerTraits.of(checker)` reads
what it has and takes the default for the rest, so that nobody else asks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

import msgspec

from dstest.core.evidence import PageCache, TaxDC, Transport
from dstest.core.protocols.faults import Simulable, SimulatedFaults, When
from dstest.core.protocols.systems import (
    Asks,
    Caution,
    EffectLog,
    EndpointKind,
    LogReader,
    Relaxation,
)
from dstest.core.protocols.workloads import Option, SecondJudge
from dstest.core.residue import Residue


class _Traits(msgspec.Struct, frozen=True, kw_only=True):
    @classmethod
    def of(cls, plugin: object) -> Self:
        """What this plug-in declares."""
        names = cls.__struct_fields__
        return cls(**{name: getattr(plugin, name) for name in names if hasattr(plugin, name)})


class CheckerTraits(_Traits, frozen=True, kw_only=True):
    """`mutants` is the family of broken copies that it must reject (`dstest.judge.mutants`);
    without one they are those of registers, and it may accept some. `keyed`: operations of
    different keys have nothing to do with each other. `prefix_closed`: a violation in the part of a
    history up to some instant is a violation of the whole. `op_types`: by model, the operations
    that it knows; a model that is not there knows all. `options`: what `dstest check -o` may tell
    of a history that does not say it. `initial`: by model, what the initial state of an object is
    given as (`dstest check --initial`); a model that is not there takes none. `tables`: it makes
    use of operations that are an `OpTable` (checkers/ops/table.py); others are given a list.
    `claims`: what a run claims besides where it asks this with `--checker`
    (`dstest.core.check`). `breaks`: which claim a type of anomaly breaks, where it is not simply
    those of the workload. `means`: what a type of anomaly means, as a paragraph for somebody who
    has never heard of it, where the report does not know it; `did`: what the system did then, as
    it follows the system's name in a sentence. `forbidden_by`: how many models forbid a type of
    anomaly; what most of them forbid is told first. `second`: another judge of what it finds that
    has none of its code."""

    mutants: str = ""
    keyed: bool = False
    prefix_closed: bool = False
    op_types: Mapping[str, frozenset[str]] = MappingProxyType({})
    options: Mapping[str, Option] = MappingProxyType({})
    initial: Mapping[str, str] = MappingProxyType({})
    tables: bool = False
    claims: frozenset[str] = frozenset()
    breaks: Mapping[str, str] = MappingProxyType({})
    means: Mapping[str, str] = MappingProxyType({})
    did: Mapping[str, str] = MappingProxyType({})
    forbidden_by: Callable[[str], int] = lambda kind: 0
    second: SecondJudge | None = None


class LabTraits(_Traits, frozen=True, kw_only=True):
    """`transport`: what is between its nodes. Those of a lab that is `in-process` are simulated:
    they come and go with the run. `rate`: operations per second that a run offers where its user
    says nothing; None: as many as are answered. `catch_up`: what is overdue after a pause is sent
    as fast as clients can, where its user says nothing."""

    transport: Transport = "network"
    rate: float | None = None
    catch_up: bool = False


class NemesisTraits(_Traits, frozen=True, kw_only=True):
    """`requires_when`: what only some of its faults ask of the system. `requires_lab`: protocols of
    `dstest.core.node` that it asks of the lab. `residues`: what it may leave on a node. `explains`:
    the kinds of alarms (`dstest.judge.audit_rows`; `exit` for ends of processes) that the targets
    of its faults may give while they stand. `page_cache`: what becomes of unsynced writes where its
    faults end servers, so that they are `kept` or `lost`; empty for any other fault.
    `shows_at_clients`: it is proven by what clients of its targets see, so that it is refused where
    clients go where the system sends them (`EndpointKind`). `restarts_nodes`: what other nemeses
    have laid on a node does not survive its faults. `injects`: it plans at least one fault.
    `members_least`: with fewer members it cannot be proven. `needs`: features of nodes
    (`dstest.core.node`) without which none of its faults can be injected; of `one|another`
    either is enough. `taxdc`: the type of bug that a violation under its faults shows, `taxdc_tags`
    what it is about besides. `disturbs_host`: kinds of events of the control host
    (`dstest.judge.host_events`) that its own faults cause where nodes share its kernel.
    `simulated`: how its faults are made in a simulation, where they can be. `spares_servers`: its
    heal leaves servers and their files as they were, and it needs nothing of ours in them: it may
    be injected into a cluster that others run."""

    requires_when: tuple[When, ...] = ()
    requires_lab: tuple[type, ...] = ()
    residues: tuple[Residue, ...] = ()
    explains: frozenset[str] = frozenset()
    page_cache: PageCache = ""
    shows_at_clients: bool = False
    restarts_nodes: bool = False
    injects: bool = True
    members_least: int = 1
    needs: tuple[str, ...] = ()
    taxdc: TaxDC = ""
    taxdc_tags: frozenset[str] = frozenset()
    disturbs_host: frozenset[str] = frozenset()
    simulated: SimulatedFaults | None = None
    spares_servers: bool = False


class SystemTraits(_Traits, frozen=True, kw_only=True):
    """`residues`: what it may leave on a node. `log_alarms`: texts of lines that tell of damage,
    besides those of any system. `log_harmless`: texts of healthy lines that look like alarms.
    `log_start`: what each start writes into the log once. `log_version`: a regular expression whose
    group is the version that a server's log names. `client_packages`: the distributions that
    its clients are made with, whose versions a run records. `clients`: what makes a client, by
    capability; a class that `NamesOperations` is asked whether it can do those of a workload.
    `conflict_errors`: those of `definite_errors` with which a healthy server refuses an operation
    that raced with another one: they say nothing against its recovery. `own_image`: nodes
    of other systems do without its packages, which are large. `endpoint_kind`: what all its
    endpoints are, or, where some of them do not speak for their node, what those are.
    `malformed_errors`: those of its errors with which it refuses what makes no sense to it.
    `relaxations`: models weaker than what workloads demand that it promises instead. `cautions`:
    what else its documentation warns of.
    `raw_clients`: by capability, a second client that is made without the libraries of the first;
    called as `System.client` without the capability.
    `members_most`: it never has more members than this, on however many nodes, and no tier asks for
    more of it. `homes`: directories of a node in which all that it writes is, each `/opt/NAME`; a
    release of adopted machines removes those that runs have made. `effects`: how what its
    servers write down of what they did is read, where they do. `records`: names of files that are
    kept with its logs and are none: no start is looked for in them. `simulable`: its servers and
    clients on simulated hosts, where it has them. `transport`: how its clients reach it; of one
    that runs in the process of its clients no run is better than smoke. `log_reader`: what a line
    of its logs says; without one they are read as any text is. `span_file`: the name of the file
    among a member's logs in which its spans are, where it writes any. `asks`: what its servers are
    asked about themselves once a second while a run goes on (both: docs/reference/explain.md).
    `attached`: the same system where it runs already (`dstest.core.protocols.Attached`), a `System`
    of the same name."""

    residues: tuple[Residue, ...] = ()
    log_alarms: tuple[str, ...] = ()
    log_harmless: tuple[str, ...] = ()
    log_start: str = ""
    log_version: str = ""
    client_packages: tuple[str, ...] = ()
    clients: Mapping[str, Any] = MappingProxyType({})
    conflict_errors: frozenset[str] = frozenset()
    own_image: bool = False
    endpoint_kind: EndpointKind = "any"
    malformed_errors: frozenset[str] = frozenset()
    relaxations: tuple[Relaxation, ...] = ()
    cautions: tuple[Caution, ...] = ()
    raw_clients: Mapping[str, Any] = MappingProxyType({})
    members_most: int | None = None
    homes: tuple[str, ...] = ()
    effects: EffectLog | None = None
    records: frozenset[str] = frozenset()
    simulable: Simulable | None = None
    transport: Transport = "network"
    log_reader: LogReader | None = None
    span_file: str = ""
    asks: tuple[Asks, ...] = ()
    attached: Any = None


class WorkloadTraits(_Traits, frozen=True, kw_only=True):
    """`final_s`: how long its final phase may take, over all nodes, before it is cut short."""

    final_s: float = 20.0
