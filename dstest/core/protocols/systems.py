"""Systems under test, and what every deployment of one can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from dstest.core.node import Node
from dstest.core.protocols.clients import Client
from dstest.core.protocols.options import Option
from dstest.core.protocols.services import Endpoint, Member, Timing


class Relaxation(msgspec.Struct, frozen=True, kw_only=True):
    """What a system promises instead of more: this `model`, and `source` is where it says so. Where
    `option` is not empty, only with this `value` of it."""

    model: str
    source: str
    option: str = ""
    value: Any = None

    def holds(self, options: Mapping[str, Any]) -> bool:
        """Does it count in a run with these options?"""
        return not self.option or options.get(self.option) == self.value


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """What the documentation of a system warns of, and a reader of its failure has to know: what it
    `says`, as the end of "NAME documents that ...", and `source` is where. Only in runs whose
    options have one of the values `when`, and none of those `unless`, given or by default."""

    says: str
    source: str
    when: Mapping[str, tuple[Any, ...]] = {}
    unless: Mapping[str, tuple[Any, ...]] = {}

    def holds(self, options: Mapping[str, Any]) -> bool:
        """Does it count in a run with these options?"""
        return all(options.get(name) in values for name, values in self.when.items()) and not any(
            name not in options or options[name] in values for name, values in self.unless.items()
        )


class Deployment(Protocol):
    """A system on the nodes of one lab.

    `members` are called as their nodes. What it can do besides are capabilities: it has the methods
    of those that it offers. A class that names a capability among its bases must have all of its
    methods.
    """

    timing: Timing

    @property
    def members(self) -> Mapping[str, Member]: ...

    def endpoints(self) -> list[Endpoint]:
        """Where clients connect."""
        ...

    async def install(self) -> None: ...

    async def start(self) -> None:
        """Start all members with empty data and return when every one of them serves."""
        ...

    async def stop(self) -> None: ...

    async def wipe(self) -> None: ...

    async def version(self) -> str: ...

    async def healthy(self) -> dict[str, bool]:
        """Per member: does it do, right now, what its role promises? Of one that serves clients
        that is a request which is answered by the cluster, not by a member that was left alone."""
        ...


class System(Protocol):
    """A database, queue or lock service: how it is deployed and which clients it offers.

    `deployment` is the class of what `deploy` returns: whether a nemesis fits is asked of it when
    the run is planned, without nodes. `capabilities` are those of its clients. `definite_errors`
    are the codes of errors after which an operation had no effect, each with where that is written.
    `services` are the names of the services that each member has.

    What it may say of itself besides is `SystemTraits`.
    """

    name: str
    doc: str
    packages: tuple[str, ...]
    services: tuple[str, ...]
    deployment: type[Deployment]
    capabilities: frozenset[str]
    options: Mapping[str, Option]
    definite_errors: Mapping[str, str]

    def members(self, nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """Which of the lab's nodes carry a member; asked when a run is planned."""
        ...

    def deploy(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> Deployment:
        """On these nodes, each of which carries a member."""
        ...

    def client(
        self,
        capability: str,
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> Client:
        """One logical process's client at an endpoint; `every` is for those that go elsewhere."""
        ...
