"""What systems, workloads, nemeses and checkers implement.

Data flows as frozen structs; behaviour is asked for by `Protocol`, so that a plug-in needs to
import nothing of ours. Capability protocols (`Kill`, `Pause`, `Primary`, `LogFiles`) are checked
when a run is planned.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from dstest.core.capabilities import (
    CountsCalls,
    DataDir,
    Kill,
    Leads,
    LogFiles,
    Membership,
    Pause,
    Primary,
    PrimaryView,
    Replicas,
    RequestCounter,
    SyncStats,
    Tapped,
)
from dstest.core.check import Budget, CheckResult
from dstest.core.claims import Fields
from dstest.core.clock import RunClock
from dstest.core.evidence import LandingRecord
from dstest.core.history import History
from dstest.core.node import LabInfo, Node
from dstest.core.op import Key

__all__ = [
    "Answer",
    "Checker",
    "Client",
    "CountsCalls",
    "DataDir",
    "Definite",
    "Deployment",
    "Epochs",
    "FaultPlan",
    "Finishing",
    "Generator",
    "Indefinite",
    "Kill",
    "Leads",
    "LogFiles",
    "Membership",
    "Nemesis",
    "NemesisContext",
    "OpDraft",
    "Option",
    "Pause",
    "Prepares",
    "Primary",
    "PrimaryView",
    "Reactive",
    "Replicas",
    "Reply",
    "RequestCounter",
    "SyncStats",
    "System",
    "Tapped",
    "Traffic",
    "Workload",
]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One `-o key=value`: its type, default, allowed values and one line of help.

    A number is finite and from `least` to `most`. `names_nodes`: the value is a list of nodes with
    commas between, and each of them must be in the cluster.
    """

    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    names_nodes: bool = False


class OpDraft(msgspec.Struct, frozen=True):
    """An operation that a generator asks for, before it has a process or a time."""

    op_type: str
    key: Key
    input: Any = None


class Reply(msgspec.Struct, frozen=True):
    """A client's answer: the output and who answered."""

    output: Any
    node_seen: str | None = None


class Definite(Exception):
    """The operation provably had no effect. The argument is the system's error code."""


class Indefinite(Exception):
    """Whether the operation took effect is unknown. The argument is kept for diagnosis only."""


class Client(Protocol):
    """One logical process's connection to one node."""

    async def open(self) -> None: ...

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """Do the operation. Raises `Definite` or `Indefinite`; anything else counts as unknown."""
        ...

    async def close(self) -> None: ...


class Deployment(Protocol):
    """A system on the nodes of one lab."""

    async def install(self) -> None: ...

    async def start(self) -> None:
        """Start all members with empty data and return when every one of them serves."""
        ...

    async def stop(self) -> None: ...

    async def wipe(self) -> None: ...

    async def version(self) -> str: ...

    async def healthy(self) -> dict[str, bool]:
        """Per node: does it serve a linearizable request right now?"""
        ...


class System(Protocol):
    """A database, queue or lock service: how it is deployed and which clients it offers.

    Optional: `residues` (what it may leave on a node, `dstest.core.residue`); `log_harmless`, texts
    of healthy lines that look like alarms; `log_start`, what each start writes into the log once.
    """

    name: str
    doc: str
    packages: tuple[str, ...]
    capabilities: frozenset[str]
    options: Mapping[str, Option]
    definite_errors: Mapping[str, str]
    log_alarms: tuple[str, ...]

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment: ...

    def client(
        self, capability: str, node: str, address: str, options: Mapping[str, Any]
    ) -> Client: ...


class Answer(msgspec.Struct, frozen=True):
    """How a process's last operation ended: `kind` is `ok`, `fail` or `unknown`."""

    draft: OpDraft
    kind: str
    output: Any = None


class Generator(Protocol):
    """A worker's seeded stream of operations; the same seed gives the same stream."""

    def next(self) -> OpDraft: ...


@runtime_checkable
class Reactive(Protocol):
    """A generator whose next operation depends on how the process's last one ended.

    `slot` stays with a logical client through its changes of process id; `last` is None for its
    first operation. A lock is released by who holds it, a stream goes on where it stopped.
    """

    def next_for(self, slot: int, last: Answer | None) -> OpDraft: ...


@runtime_checkable
class Finishing(Protocol):
    """A generator that reads the final state once the cluster has recovered and the load is over.

    `final(node, last)` gives the next operation for the node with this index, None when it is done
    there. `last` is how the one before ended at this node, None at first.
    """

    def final(self, node: int, last: Answer | None) -> OpDraft | None: ...


class Workload(Protocol):
    """What clients do, which capability they need, and which checkers judge it.

    `claims` are categories of `dstest.core.claims`. `fields` says what the lints ask of its
    operations. `minimum` is how many good operations of a type prove anything.
    """

    name: str
    doc: str
    capability: str
    model: str
    op_types: frozenset[str]
    checkers: tuple[str, ...]
    claims: frozenset[str]
    fields: Fields
    minimum: Mapping[str, int]
    options: Mapping[str, Option]

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Generator: ...


class Traffic(Protocol):
    """Live counts of the load, cumulative: `{node: {"invoked", "ok", "fail", "unknown": n}}`."""

    def by_node(self) -> dict[str, dict[str, int]]: ...


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One planned fault. `start_ns` and `duration_ns` are run time; `facts` are its parameters.

    Faults that are due at the same time stand together: they are injected in the order of the
    schedule, each once the one before has landed, and healed by `heal_rank`, lowest first.
    """

    fault_id: str
    nemesis: str
    start_ns: int
    duration_ns: int
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    heal_rank: int = 0


class Epochs(Protocol):
    """Opens and closes fault epochs; clients stamp their operations with them."""

    async def open(self, record: LandingRecord) -> LandingRecord:
        """Begin an epoch: the record with `epoch` and `injected_at`. Inject right afterwards."""
        ...

    async def close(self, record: LandingRecord) -> LandingRecord:
        """End the record's epoch: the record with `healed_at`."""
        ...


class NemesisContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a nemesis may touch. Nodes have been verified to carry the lab's marker.

    `deployment` is a `Deployment`, `traffic` a `Traffic`, `epochs` an `Epochs`.
    """

    nodes: dict[str, Any]
    lab: LabInfo
    deployment: Any
    clock: RunClock
    traffic: Any
    epochs: Any
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    def node(self, name: str) -> Node:
        """The node called `name`; KeyError where it is not in the cluster."""
        found: Node = self.nodes[name]
        return found


class Nemesis(Protocol):
    """A family of faults. The runner calls `setup`, then per fault `inject`, `heal`; `audit` last.

    `inject` returns a record whose `landed` is already decided, or whose evidence `heal` completes;
    `heal` returns the record with its heal proof. Both return instead of raising when a fault did
    not land; they raise only where the lab is lost.

    Optional: `residues` (what it may leave on a node, `dstest.core.residue`) and `explains`, the
    kinds of alarms (`dstest.judge.alarm_kinds`; `exit` for ends of processes) that the targets of
    its faults may give while they stand.
    """

    name: str
    doc: str
    faults: tuple[str, ...]
    options: Mapping[str, Option]

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]: ...

    async def setup(self, ctx: NemesisContext) -> None: ...

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord: ...

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Look again in mid-window and at its end: is the fault still there?"""
        ...

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord: ...

    async def teardown(self, ctx: NemesisContext) -> None: ...

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Leaks per node after teardown; empty lists mean clean."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A nemesis with something to lay under the system before it first starts."""

    async def prepare(self, ctx: NemesisContext) -> None:
        """Before the system starts; may be called again where it has been done."""
        ...

    async def withdraw(self, ctx: NemesisContext) -> None:
        """After the system has stopped for good."""
        ...


class Checker(Protocol):
    """A pure function from a history to a result.

    Optional: `mutants` names the broken copies of a history that it must reject
    (`dstest.judge.canary_family`); without it the copies are those of registers, and it may accept
    some. A checker of transactions also has `forbids(model)`, the anomalies that a model rules
    out, and `weaker(model)`, the models next below that rule out less.
    """

    name: str
    kind: str
    models: tuple[str, ...]

    def check(self, history: History, model: str, budget: Budget) -> CheckResult: ...
