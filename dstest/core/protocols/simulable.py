"""What a system, and a nemesis, offer to be simulated (`dstest.sim`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dstest.core.protocols.clients import Client
from dstest.core.protocols.services import Endpoint

if TYPE_CHECKING:
    from dstest.core.protocols.faults import Nemesis, When


@runtime_checkable
class Simulable(Protocol):
    """Its servers, to be run on simulated hosts. `port` is where the system's clients connect.
    `modules` are those of its servers: they are held to call nothing that cannot be simulated.

    A `world` has `hosts` by name, `loop`, `log`, `keep` and `die`; a `host` has `name`, `process`,
    `files` and `numbers`, from which all that is random is drawn; a server may set its `status`, a
    function without arguments that answers as a status request would, of which samples are made
    (`SystemTraits.asks`). `world.die(process, why)` is how
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
    """How a nemesis makes its faults on simulated hosts. It plans them itself, as for any run.

    `options` are those of its own that mean the same in a simulation; `fixed` has values of others,
    for its plan, so that nothing is drawn which cannot be simulated. `requires` are capabilities
    that all of its faults ask of the system's `administration`, `requires_when` those that some do.
    """

    options: frozenset[str]
    fixed: Mapping[str, Any]
    requires: tuple[type, ...]
    requires_when: tuple[When, ...]

    def problem(self, facts: Mapping[str, Any]) -> str | None:
        """Why a fault that is planned so cannot be simulated; None where it can."""
        ...

    def made(self, nemesis: Nemesis, world: Any) -> Nemesis:
        """The nemesis that makes them in this world (`dstest.sim.world.World`)."""
        ...
