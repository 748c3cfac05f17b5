"""Whether a class has a capability, asked without an object of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.patroni import PatroniDeployment
from dstest.core import protocols
from dstest.core.implements import (
    broken_claims,
    implements,
    members_of,
    missing,
    protocols_of,
    unfit,
)
from dstest.core.protocols import (
    Authenticated,
    ChangesSchema,
    DependsOnStore,
    Kill,
    Members,
    Replication,
    Supervised,
    Unit,
)

CAPABILITIES = protocols_of(protocols.capabilities)


def test_what_a_capability_asks_for() -> None:
    assert members_of(Kill) == ("kill", "restart")
    assert members_of(Replication) == ("progress", "replication_unit")
    assert members_of(Supervised) == ("kill", "processes", "restart", "restart_command")


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda kind: kind.__name__)
def test_etcd_has_all_but_what_patroni_has(capability: type) -> None:
    of_patroni = capability in (DependsOnStore, ChangesSchema)
    deployment = PatroniDeployment if of_patroni else EtcdDeployment
    assert unfit(deployment, capability) == []
    assert broken_claims(deployment) == {}


class Whole:
    async def kill(self, names: Sequence[str], service: str = "") -> None: ...

    async def restart(self, names: Sequence[str]) -> None: ...


class Half(Kill):
    """Says that it can be killed and started; what it inherits does nothing."""

    async def kill(self, names: Sequence[str], service: str = "") -> None: ...


class Heir(Half):
    pass


class Given(Whole, Kill):
    pass


class Refusing(Whole):
    restart = None  # type: ignore[assignment]


def test_bases_give_nothing() -> None:
    assert implements(Whole, Kill)
    assert implements(Given, Kill)
    kinds: list[Any] = [Half, Heir]
    half, heir = (kind() for kind in kinds)
    assert isinstance(half, Kill), "which is why isinstance is not what is asked"
    for kind in (Half, Heir, half, heir, Refusing):
        assert missing(kind, Kill) == ["restart"]
    assert broken_claims(Half) == broken_claims(Heir) == {Kill: ["restart"]}
    assert broken_claims(Given) == broken_claims(Whole) == {}


def test_attributes_need_a_value() -> None:
    class Said:
        replication_unit: Unit

        async def progress(self) -> dict[str, dict[str, int] | None]:
            return {}

    assert missing(Said, Replication) == ["replication_unit"]
    made = SimpleNamespace(replication_unit=Unit("bytes", 1), progress=Said().progress)
    assert missing(made, Replication) == []

    class Asked:
        @property
        def asks_for_tokens(self) -> bool:
            return True

    assert "asks_for_tokens" not in missing(Asked, Authenticated)


async def _plain(self: Any) -> None: ...
async def _names(self: Any, names: Any, service: Any = "") -> None: ...
async def _more(self: Any, names: Any, service: Any, wait_s: float) -> None: ...
async def _optional(
    self: Any, names: Any, service: Any = "", wait_s: float = 1.0, **rest: Any
) -> None: ...
async def _anything(self: Any, *given: Any, **named: Any) -> None: ...


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (_plain, "kill (must take (names:"),
        (_names, ""),
        (_more, "kill (must take"),
        (_optional, ""),
        (_anything, ""),
        (staticmethod(lambda names, service="": None), ""),
        (staticmethod(lambda: None), "kill (must take"),
        (classmethod(_names), ""),
        (7, "kill (no method)"),
    ],
)
def test_methods_that_cannot_be_called_so(method: Any, said: str) -> None:
    found = unfit(type("Made", (Whole,), {"kill": method}), Kill)
    assert "".join(found).startswith(said)
    assert bool(found) == bool(said)


def test_keywords_and_coroutines() -> None:
    class Odd:
        async def rejoin(self, name: str, learner: bool) -> None: ...

        async def rejoin_command(self, learner: bool) -> list[str]:
            return []

    found = unfit(Odd, Members)
    assert "rejoin" not in found
    assert "rejoin_command (must not be async)" in found

    class Positional(Odd):
        async def rejoin(self, name: str, learner: bool, /) -> None: ...

    assert any(row.startswith("rejoin (must take") for row in unfit(Positional, Members))


def test_default_arguments_may_be_left_out() -> None:
    class Strict:
        async def refused_tokens(self, secret: str) -> dict[str, str]:
            return {}

    assert any(row.startswith("refused_tokens (must") for row in unfit(Strict, Authenticated))


def test_capabilities_share_no_member() -> None:
    """Else having the one would look like having half of the other."""
    seen: dict[str, type] = {}
    for kind in CAPABILITIES:
        if kind is Supervised:
            continue
        for name in members_of(kind):
            assert seen.setdefault(name, kind) is kind
    assert issubclass(Supervised, Kill)
    assert Protocol in Supervised.__mro__
