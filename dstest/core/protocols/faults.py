"""Nemeses: planned faults, what a nemesis may touch, and what it asks of a system; and what both
offer to be simulated (`dstest.sim`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from dstest.core.clock import RunClock
from dstest.core.errors import FaultRefused
from dstest.core.evidence import LandingRecord
from dstest.core.implements import missing
from dstest.core.node import LabInfo, Node
from dstest.core.protocols.systems import Deployment, Endpoint
from dstest.core.protocols.workloads import Client, Option

if TYPE_CHECKING:
    from dstest.core.protocols.plugins import Nemesis

C = TypeVar("C")


class Traffic(Protocol):
    """Live counts of the load, cumulative, by the node to whose endpoint a client belongs.

    `{node: {"invoked", "ok", "fail", "unknown", "ok_elsewhere", ...: n}}`: how an operation ended,
    and, of those that went to another node than the client's, the three that end in `_elsewhere`.
    """

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


class When(msgspec.Struct, frozen=True):
    """A fault whose planned `fact` has this `value` asks for these capabilities besides, and for
    these features of nodes (`needs`, as `Nemesis.needs`)."""

    fact: str
    value: Any
    requires: tuple[type, ...]
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`scope=primaries`."""
        return f"{self.fact}={str(self.value).lower()}"

    def among(self, options: Mapping[str, Option]) -> bool:
        """Can such a fault be asked for by one of these options?"""
        option = options.get(self.fact)
        return option is not None and (not option.choices or self.value in option.choices)


class PlanOptions(dict[str, Any]):
    """The options that a plan is made with. `lacking` are the capabilities that the nemesis may ask
    for and the system does not offer: what is drawn at random must need none of them."""

    def __init__(self, values: Mapping[str, Any], lacking: frozenset[type]) -> None:
        super().__init__(values)
        self.lacking = lacking


def lacking_of(options: Mapping[str, Any]) -> frozenset[type]:
    """What a plan with these options has to do without; nothing where nobody asked the system."""
    return options.lacking if isinstance(options, PlanOptions) else frozenset()


class Epochs(Protocol):
    """Opens and closes fault epochs; clients stamp their operations with them. `opened` is the last
    record whose epoch began."""

    @property
    def opened(self) -> LandingRecord | None: ...

    async def open(self, record: LandingRecord) -> LandingRecord:
        """Begin an epoch: the record with `epoch` and `injected_at`. Inject right afterwards."""
        ...

    async def close(self, record: LandingRecord) -> LandingRecord:
        """End the record's epoch: the record with `healed_at`."""
        ...


class Trigger(Protocol):
    """What a fault waits for when all is ready for it (`nemeses/base/moment.py`)."""

    async def wait(self, record: LandingRecord) -> LandingRecord:
        """Wait for it: the record, with a note where it did not come and nothing is to be done."""
        ...

    async def let_go(self, record: LandingRecord) -> tuple[LandingRecord, str]:
        """The fault was applied: the record, and why that was too late, empty where it was not."""
        ...


class NemesisContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a nemesis may touch. Nodes have been verified to carry the lab's marker. `of_lab` is the
    plug-in that the lab is of (`lab_as`), `trigger` what the fault that is about to be injected
    waits for."""

    nodes: dict[str, Node]
    lab: LabInfo
    deployment: Deployment
    clock: RunClock
    traffic: Traffic
    epochs: Epochs
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    of_lab: Any = None
    trigger: Trigger | None = None

    def lab_as(self, protocol: type[C]) -> C | None:
        """The plug-in of the lab, where it does what this protocol of `dstest.core.node` says."""
        return None if missing(self.of_lab, protocol) else cast(C, self.of_lab)

    def node(self, name: str) -> Node:
        """The node called `name`; KeyError where it is not in the cluster."""
        return self.nodes[name]

    def need(self, capability: type[C]) -> C:
        """The deployment, as one that has `capability`.

        Raises FaultRefused where it lacks it. That is for a nemesis which does not declare what it
        requires: what is declared has been asked for before there was a node.
        """
        lacking = missing(self.deployment, capability)
        if lacking:
            raise FaultRefused(
                f"the system lacks {capability.__name__} ({', '.join(lacking)})",
                remedy=f"declare {capability.__name__} in `requires` of the nemesis",
            )
        return cast(C, self.deployment)

    def offered(self, capability: type[C]) -> C | None:
        """As `need`, but None where the system lacks it: for what a fault can do without."""
        return None if missing(self.deployment, capability) else cast(C, self.deployment)


@runtime_checkable
class Composite(Protocol):
    """A nemesis made of others; each plan is of one of them, by name."""

    parts: Mapping[str, Nemesis]


@runtime_checkable
class Prepares(Protocol):
    """A nemesis with something to lay under the system before it first starts."""

    async def prepare(self, ctx: NemesisContext) -> None:
        """Before the system starts; may be called again where it has been done."""
        ...


@runtime_checkable
class Withdraws(Protocol):
    """A nemesis that leaves something on the nodes for as long as the system runs."""

    async def withdraw(self, ctx: NemesisContext) -> None:
        """After the system has stopped for good."""
        ...


@runtime_checkable
class Foresees(Protocol):
    """A nemesis that sees under load what will keep its faults from being proven."""

    async def foresee(self, ctx: NemesisContext) -> str:
        """That, with what to do about it; empty where nothing will. Asked once, before the first
        fault; changes nothing."""
        ...


class Ticks(NamedTuple):
    """A counter of what injects a fault: what it counts, over all targets, and how far it is."""

    name: str
    now: int


@runtime_checkable
class Lasting(Protocol):
    """A nemesis that can tell at any moment whether its fault stands. It is asked every second:
    from that follows for which share of its window the fault stood."""

    async def in_force(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        """Where the fault has to stand -> a mark that stays the same as long as it stands without a
        break (a handle of the kernel, a counter that only moves while it does not), empty where it
        does not stand now. None for a fault of which nobody can tell. Ask the system nothing,
        change nothing."""
        ...


@runtime_checkable
class Ticking(Protocol):
    """A nemesis with a counter that can be read while its fault stands. People watch it; no
    evidence comes of it."""

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        """Read it, and do nothing else: ask the system nothing, change nothing. None for a fault
        that has none. Asked every two seconds at most; what it raises is not told."""
        ...


@runtime_checkable
class Simulable(Protocol):
    """Its servers, to be run on simulated hosts. `port` is where the system's clients connect.
    `modules` are those of its servers: they are held to call nothing that cannot be simulated.

    A `world` has `hosts` by name, `loop`, `log`, `keep` and `die`; a `host` has `name`, `process`,
    `files` and `numbers`, from which all that is random is drawn; a server may set its `status`, a
    function without arguments that answers as a status request would, of which samples are made
    (`System.asks`). `world.die(process, why)` is how
    a server ends itself: a failure of the simulation, as is any end that no fault has asked for.
    `world.keep(host, file, line)` is what a server writes into a file beside its log.
    """

    port: int
    modules: tuple[str, ...]

    def main(self, world: Any, host: Any, options: Mapping[str, Any]) -> Awaitable[None]:
        """What the process of a host does, until it ends."""
        ...

    async def serves(self, world: Any) -> bool:
        """Does each host answer by the word of the cluster?"""
        ...


@runtime_checkable
class MakesClients(Protocol):
    """A `Simulable` whose clients are others than the system's own, which a simulation has
    elsewhere: what is judged there says nothing of those."""

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
        name: str,
    ) -> Client:
        """One logical process's client; `name` is what it may call itself."""
        ...


@runtime_checkable
class Named(Protocol):
    """A client that calls itself something, which a simulation cannot leave to chance."""

    named: str | None


@runtime_checkable
class LeavesOut(Protocol):
    """A `Simulable` without some of what the system can do: `left_out` are options of the system
    that mean nothing in a simulation, so that `dstest run` refuses them there."""

    left_out: frozenset[str]


@runtime_checkable
class ServesByHost(Protocol):
    """A `Simulable` that can say which of its hosts serve, so that none is blamed for another."""

    async def serving(self, world: Any) -> Mapping[str, bool]:
        """Of each host by name: does it answer by the word of the cluster?"""
        ...


@runtime_checkable
class Administers(Protocol):
    """A `Simulable` of which more can be asked, and to which more can be done, than that it serves.

    `administration(world)` makes what stands for a deployment there: it has `members` by name, and
    such capabilities as `Leadership` and `ReplacesMembers`. It is a class, so that what is lacking
    is known when a run is planned.
    """

    administration: type


@runtime_checkable
class ReplacesMembers(Protocol):
    """Simulated members that can be listed, removed and added: what of `Members` is not there for
    the janitor of a node."""

    async def listed(self) -> dict[str, dict[int, tuple[str, bool]] | None]:
        """What each member lists: identity -> (name, is it a learner?)."""
        ...

    async def expel(self, name: str) -> None:
        """Remove a member, end its server, wipe its data. LabError where it stays."""
        ...

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """Join anew and empty; returns when it votes. LabError where it does not in time."""
        ...


@runtime_checkable
class SimulatedFaults(Protocol):
    """How a nemesis makes its faults on simulated hosts. It plans them itself, as for any run."""

    @property
    def options(self) -> frozenset[str]:
        """Those of its own that mean the same in a simulation."""
        ...

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Values of others, for its plan, so that nothing is drawn which cannot be simulated."""
        ...

    @property
    def requires(self) -> tuple[type, ...]:
        """Capabilities that all of its faults ask of the system's `administration`."""
        ...

    @property
    def requires_when(self) -> tuple[When, ...]:
        """Those that some of them do."""
        ...

    def problem(self, facts: Mapping[str, Any]) -> str | None:
        """Why a fault that is planned so cannot be simulated; None where it can."""
        ...

    def made(self, nemesis: Nemesis, world: Any) -> Nemesis:
        """The nemesis that makes them in this world (`dstest.sim.world.World`)."""
        ...
