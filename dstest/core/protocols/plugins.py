"""The bases of systems, workloads, nemeses and checkers: what each has to say, and what it may say.

An attribute without a value has to be given one, and a method that is `required` has to be written;
all else is optional, and what holds without it stands beside it. The base of
labs is `dstest.core.node.Lab`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from dstest.core.check import Budget, CheckResult, Fields
from dstest.core.evidence import LandingRecord, PageCache, TaxDC, Transport
from dstest.core.history import History
from dstest.core.implements import required
from dstest.core.node import Node
from dstest.core.protocols.faults import (
    FaultPlan,
    NemesisContext,
    Simulable,
    SimulatedFaults,
    When,
)
from dstest.core.protocols.systems import (
    Asks,
    Caution,
    Deployment,
    Endpoint,
    EndpointKind,
    Journals,
    Relaxation,
    SystemLogs,
)
from dstest.core.protocols.workloads import Client, Generator, Option, SecondJudge
from dstest.core.residue import Residue

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class System:
    """A database, queue or lock service: how it is deployed and which clients it offers."""

    name: str
    doc: str
    """One line for `dstest list`."""

    services: tuple[str, ...]
    """Names of the services that each member has."""

    deployment: type[Deployment]
    """The class of what `deploy` returns. Whether a nemesis fits is asked of it when the run is
    planned, without nodes."""

    capabilities: frozenset[str]
    """Those of its clients."""

    packages: tuple[str, ...] = ()
    """Debian packages for its nodes."""

    options: Mapping[str, Option] = _NONE
    """By the word that follows `-o`."""

    definite_errors: Mapping[str, str] = _NONE
    """Codes of errors after which an operation had no effect, each with where that is written."""

    conflict_errors: frozenset[str] = frozenset()
    """Those of `definite_errors` with which a healthy server refuses an operation that raced with
    another one: they say nothing against its recovery."""

    malformed_errors: frozenset[str] = frozenset()
    """Those with which it refuses what makes no sense to it."""

    clients: Mapping[str, Any] = _NONE
    """What makes a client, by capability; a class that `NamesOperations` is asked whether it can do
    those of a workload."""

    raw_clients: Mapping[str, Any] = _NONE
    """By capability, a second client that is made without the libraries of the first; called as
    `client` without the capability."""

    client_packages: tuple[str, ...] = ()
    """The distributions that its clients are made with, whose versions a run records."""

    endpoint_kind: EndpointKind = "any"
    """What all its endpoints are, or, where some do not speak for their node, what those are."""

    transport: Transport = "network"
    """How its clients reach it; of one that runs in the process of its clients no run is better
    than smoke."""

    members_most: int | None = None
    """It never has more members than this, on however many nodes, and no tier asks for more."""

    residues: tuple[Residue, ...] = ()
    """What it may leave on a node."""

    homes: tuple[str, ...] = ()
    """Directories of a node in which all that it writes is, each `/opt/NAME`; a release of adopted
    machines removes those that runs have made."""

    own_image: bool = False
    """Nodes of other systems do without its packages, which are large."""

    logs: SystemLogs = SystemLogs()
    """How the logs of its servers are read."""

    asks: tuple[Asks, ...] = ()
    """What its servers are asked about themselves once a second while a run goes on
    (docs/reference/explain.md)."""

    relaxations: tuple[Relaxation, ...] = ()
    """Models weaker than what workloads demand that it promises instead."""

    cautions: tuple[Caution, ...] = ()
    """What else its documentation warns of."""

    journals: Journals = Journals()
    """Files that are kept with its logs and are none."""

    simulable: Simulable | None = None
    """Its servers and clients on simulated hosts, where it has them."""

    attached: System | None = None
    """The same system where it runs already (`Attached`), by the same name."""

    @required
    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """Which of the lab's nodes carry a member; asked when a run is planned."""
        raise NotImplementedError

    @required
    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment:
        """On these nodes, each of which carries a member."""
        raise NotImplementedError

    @required
    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        """One logical process's client at an endpoint; `every` is for those that go elsewhere."""
        raise NotImplementedError


class Workload:
    """What clients do, which capability they need, and which checkers judge it."""

    name: str
    doc: str
    """One line for `dstest list`."""

    capability: str
    """Of the clients that it needs."""

    model: str
    """What its checkers judge by, unless a user says otherwise."""

    op_types: frozenset[str]
    """All types of operation that it asks for; each must be asked for at least once."""

    checkers: tuple[str, ...]
    """Names of those that judge it."""

    claims: frozenset[str]
    """What a pass says: categories of `dstest.core.check`."""

    fields: Fields = Fields()
    """What the lints ask of its operations."""

    minimum: Mapping[str, int] = _NONE
    """How many good operations of a type prove anything."""

    options: Mapping[str, Option] = _NONE
    """By the word that follows `-o`."""

    final_s: float = 20.0
    """How long its final phase may take, over all nodes, before it is cut short."""

    @required
    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Generator:
        """The operations of one load worker: a function of seed and worker alone."""
        raise NotImplementedError


class Checker:
    """A pure function from a history to a result.

    A checker of transactions also has `forbids(model)`, the anomalies that a model rules out, and
    `weaker(model)`, the models next below that rule out less.
    """

    name: str
    kind: str
    """What it looks at, as `history`, `final-state` or `metric`."""

    models: tuple[str, ...]
    """Those that it can judge by, its own first."""

    mutants: str = ""
    """The family of broken copies that it must reject (`dstest.judge.mutants`); without one they
    are those of registers, and it may accept some."""

    keyed: bool = False
    """Operations of different keys have nothing to do with each other."""

    prefix_closed: bool = False
    """A violation in the part of a history up to some instant is a violation of the whole."""

    op_types: Mapping[str, frozenset[str]] = _NONE
    """By model, the operations that it knows; a model that is not there knows all."""

    options: Mapping[str, Option] = _NONE
    """What `dstest check -o` may tell of a history that does not say it; None where it is not."""

    initial: Mapping[str, str] = _NONE
    """By model, what the initial state of an object is given as (`dstest check --initial`); a model
    that is not there takes none."""

    tables: bool = False
    """It makes use of operations that are an `OpTable` (checkers/ops/table.py); others are given a
    list."""

    claims: frozenset[str] = frozenset()
    """What a run claims besides where it asks this with `--checker` (`dstest.core.check`)."""

    breaks: Mapping[str, str] = _NONE
    """Which claim a type of anomaly breaks, where it is not simply those of the workload."""

    means: Mapping[str, str] = _NONE
    """What a type of anomaly means, as a paragraph for somebody who has never heard of it, where
    the report does not know it."""

    did: Mapping[str, str] = _NONE
    """What the system did then, as it follows the system's name in a sentence."""

    second: SecondJudge | None = None
    """Another judge of what it finds that has none of its code."""

    def forbidden_by(self, kind: str) -> int:
        """How many models forbid a type of anomaly; what most of them forbid is told first."""
        return 0

    @required
    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """What it makes of the history; `unknown` with a reason where it cannot tell."""
        raise NotImplementedError


class Nemesis:
    """A family of faults. The runner calls `setup`, then per fault `inject`, `heal`; `audit` last.

    A run works with a copy of its own: what it keeps between its calls is that run's. Records are
    never changed, but replaced.

    `inject` returns a record whose `landed` is already decided, or whose evidence `heal` completes;
    `heal` returns the record with its heal proof. Both return instead of raising when a fault did
    not land; they raise only where the lab is lost.
    """

    name: str
    doc: str
    """One line for `dstest list`."""

    requires: tuple[type, ...]
    """Capabilities that every fault of it asks of the system, as protocols; a run whose system
    lacks one of them is refused when it is planned."""

    faults: tuple[str, ...] = ()
    """What it does, in words that reports use."""

    options: Mapping[str, Option] = _NONE
    """By the word that follows `-o`."""

    requires_when: tuple[When, ...] = ()
    """What only some of its faults ask of the system."""

    requires_lab: tuple[type, ...] = ()
    """Protocols of `dstest.core.node` that it asks of the lab."""

    needs: tuple[str, ...] = ()
    """Features of nodes (`dstest.core.node`) without which none of its faults can be injected; of
    `one|another` either is enough."""

    members_least: int = 1
    """With fewer members it cannot be proven."""

    residues: tuple[Residue, ...] = ()
    """What it may leave on a node."""

    explains: frozenset[str] = frozenset()
    """The kinds of alarms (`dstest.judge.audit_rows`; `exit` for ends of processes) that the
    targets of its faults may give while they stand."""

    disturbs_host: frozenset[str] = frozenset()
    """Kinds of events of the control host (`dstest.judge.host_events`) that its own faults cause
    where nodes share its kernel."""

    page_cache: PageCache = ""
    """What becomes of unsynced writes where its faults end servers, so that they are `kept` or
    `lost`; empty for any other fault."""

    shows_at_clients: bool = False
    """It is proven by what clients of its targets see, so that it is refused where clients go where
    the system sends them (`EndpointKind`)."""

    restarts_nodes: bool = False
    """What other nemeses have laid on a node does not survive its faults."""

    injects: bool = True
    """It plans at least one fault."""

    taxdc: TaxDC = ""
    """The type of bug that a violation under its faults shows."""

    taxdc_tags: frozenset[str] = frozenset()
    """What such a bug is about besides."""

    simulated: SimulatedFaults | None = None
    """How its faults are made in a simulation, where they can be."""

    spares_servers: bool = False
    """Its heal leaves servers and their files as they were, and it needs nothing of ours in them:
    it may be injected into a cluster that others run."""

    @required
    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """The faults of a run, in order of time. `options` are `PlanOptions`."""
        raise NotImplementedError

    async def setup(self, ctx: NemesisContext) -> None:
        """Before the load begins."""
        return

    @required
    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """Make one fault."""
        raise NotImplementedError

    @required
    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Look again in mid-window and at its end: is the fault still there?"""
        raise NotImplementedError

    @required
    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Take it back, and prove that it is gone."""
        raise NotImplementedError

    async def teardown(self, ctx: NemesisContext) -> None:
        """After the load, whatever happened."""
        return

    @required
    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Leaks per node after teardown; empty lists mean clean."""
        raise NotImplementedError
