"""`SupervisedSystem`: what a system says of itself, as attributes; a file has one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from clusters.remote.agent_start import STARTED
from clusters.supervise.deployment import SupervisedDeployment
from clusters.supervise.ops import NOT_CONNECTED
from clusters.supervise.residues import residues
from clusters.supervise.some_nodes import MEMBERS, first_members
from dstest.core.node import Node
from dstest.core.protocols import (
    Client,
    Deployment,
    Endpoint,
    EndpointKind,
    LogReader,
    Option,
)
from dstest.core.residue import Residue

UNSENT: Final = "ours: there was no connection, so nothing was sent"
MakesClient = Callable[[Endpoint, Sequence[Endpoint], Mapping[str, Any]], Client]


class SupervisedSystem:
    """Base of systems on `SupervisedDeployment`. `clients` are by the capability that they offer;
    `definite_errors` are the codes after which an operation had no effect, with their sources; what
    `not-connected` means need not be among them."""

    name: ClassVar[str]
    doc: ClassVar[str]
    packages: tuple[str, ...] = ()
    services: tuple[str, ...]
    deployment: type[SupervisedDeployment]
    clients: Mapping[str, MakesClient] = {}
    options: Mapping[str, Option] = {}
    definite_errors: Mapping[str, str] = {NOT_CONNECTED: UNSENT}
    client_packages: tuple[str, ...] = ()
    log_alarms: tuple[str, ...] = ()
    log_harmless: tuple[str, ...] = ()
    no_log_alarms: str = ""
    """Why it names no `log_alarms`, where it names none."""

    log_start = STARTED
    log_reader: LogReader | None = None
    ports: tuple[int, ...] = ()
    """All that its services listen at; whoever else does is found before a run."""

    members_most: int | None = None
    """It never has more members than this; one on each node without."""

    home: str = ""
    """All of its files are below this directory, if it has any."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.definite_errors = {NOT_CONNECTED: UNSENT, **cls.definite_errors}

    @property
    def residues(self) -> tuple[Residue, ...]:
        """What it may leave on a node."""
        return residues(self.ports, self.home) if self.ports else ()

    @property
    def homes(self) -> tuple[str, ...]:
        """As `SystemTraits.homes`."""
        return (self.home,) if self.home else ()

    @property
    def endpoint_kind(self) -> EndpointKind:
        """Of the deployment's endpoints."""
        return self.deployment.endpoint_kind

    @property
    def capabilities(self) -> frozenset[str]:
        """Of the clients."""
        return frozenset(self.clients)

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """The first ones, as many as `members_most` and `-o members` say."""
        few = nodes[: self.members_most]
        takes = self.options.get("members") is MEMBERS["members"]
        return first_members(few, options) if takes else list(few)

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment:
        return self.deployment(nodes, options)

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        return self.clients[capability](at, every, options)
