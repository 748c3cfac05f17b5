"""Whether a class has a capability, asked without an object of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import msgspec
import pytest

from clusters.sql.deployment import ChangingSchema
from clusters.supervise import SupervisedDeployment
from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.patroni import PatroniDeployment
from clusters.systems.toykv.deployment import ToykvDeployment
from dstest.core import protocols
from dstest.core.implements import (
    broken_claims,
    fits,
    implements,
    is_protocol,
    members_of,
    misfit,
    missing,
    named,
)
from dstest.core.protocols import (
    Kill,
    Replication,
    Supervised,
    Unit,
)
from nemeses.clock.clock import MonotonicTimer
from nemeses.disk.slow_disk import SyncStats
from nemeses.member import asked
from nemeses.member.asked import Authenticated
from nemeses.member.schema_change import ChangesSchema
from nemeses.network.store_outage import DependsOnStore
from nemeses.process.memory import ControlGroups
from nemeses.process.pause import Freezes
from nemeses.process.stop import Terminate

CAPABILITIES = [
    kind
    for module in (protocols.capabilities, asked)
    for kind in vars(module).values()
    if is_protocol(kind) and kind.__module__ == module.__name__
]


def test_what_a_capability_asks_for() -> None:
    assert members_of(Kill) == ("kill", "restart")
    assert members_of(Replication) == ("progress", "replication_unit")
    assert members_of(Supervised) == ("kill", "processes", "restart", "restart_command")


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda kind: kind.__name__)
def test_etcd_has_all(capability: type) -> None:
    assert missing(EtcdDeployment, capability) == []
    assert broken_claims(EtcdDeployment) == {}


def held_by_mypy(
    etcd: EtcdDeployment,
    toykv: ToykvDeployment,
    sql: ChangingSchema,
    patroni: PatroniDeployment,
    any_: SupervisedDeployment,
) -> None:
    """Their methods can be called as nemeses call them."""
    etcd_is: tuple[
        asked.Authenticated, asked.Builds, asked.Compacts, asked.Damageable, asked.Digests,
        asked.Divergent, asked.Members, asked.Overrides, asked.Revisions, asked.Snapshots,
        asked.Truncatable, MonotonicTimer, SyncStats,
    ] = (etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd, etcd)  # fmt: skip
    others: tuple[asked.Members, ChangesSchema, DependsOnStore] = (toykv, sql, patroni)
    each: tuple[ControlGroups, Freezes, Terminate] = (any_, any_, any_)
    del etcd_is, others, each


@pytest.mark.parametrize(
    ("deployment", "capability"),
    [
        (EtcdDeployment, MonotonicTimer),
        (EtcdDeployment, SyncStats),
        (ToykvDeployment, asked.Members),
        (ChangingSchema, ChangesSchema),
        (PatroniDeployment, DependsOnStore),
        (SupervisedDeployment, ControlGroups),
        (SupervisedDeployment, Freezes),
        (SupervisedDeployment, Terminate),
    ],
)
def test_what_single_nemeses_ask_for_is_there(deployment: type, capability: type) -> None:
    assert missing(deployment, capability) == []


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


@pytest.mark.parametrize(
    ("value", "kind", "well"),
    [
        ("a", str, True),
        (1, str, False),
        (1, int, True),
        (1, float, True),
        (True, int, False),
        (None, int | None, True),
        ("1", int | None, False),
        (("a", "b"), tuple[str, ...], True),
        (["a"], tuple[str, ...], True),
        ("ab", tuple[str, ...], False),
        (("a", 1), tuple[str, ...], False),
        ({"a"}, frozenset[str], True),
        (["a"], frozenset[str], False),
        ({"a": 1}, Mapping[str, int], True),
        ({1: 1}, Mapping[str, int], False),
        ({"a": "1"}, Mapping[str, int], False),
        ("any", Literal["any", "seed"], True),
        ("two", Literal["any", "seed"], False),
        (Whole(), Kill, True),
        (Whole, Kill, False),
        (object(), Kill, False),
    ],
)
def test_values_of_a_type(value: object, kind: Any, well: bool) -> None:
    assert fits(value, kind) is well


def test_types_are_told_as_they_are_written() -> None:
    assert named(str) == "str"
    assert named(float | None) == "float | None"
    assert named(tuple[Unit, ...]) == "tuple[Unit, ...]"
    assert named(Mapping[str, Unit]) == "Mapping[str, Unit]"


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


class Row(msgspec.Struct):
    texts: tuple[str, ...] = ()


class Own(Row):
    """Of an author: what it has besides is no business of ours."""

    more: "NotThere" = None  # type: ignore[name-defined]  # noqa: F821, UP037


class Sayer:
    row: Row = Row()
    other: int = 1


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (Row(("a",)), None),
        (Own(("a",)), None),
        (Own("a"), ("row.texts", "a")),  # type: ignore[arg-type]
        (5, ("row", 5)),
    ],
)
def test_fields_within_structs_are_looked_at(row: Any, found: tuple[str, Any] | None) -> None:
    said = Sayer()
    said.row = row
    odd = misfit(said, Sayer)
    assert (odd and odd[:2]) == found
    said.other = "b"  # type: ignore[assignment]
    assert misfit(said, Sayer, {"row"}) == ("other", "b", int)
