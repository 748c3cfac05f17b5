"""PostgreSQL on one node, with standbys and with Patroni: whose programs run, and which server of
several a client asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems import patroni, postgresql, postgresql_standby

SYSTEMS = [postgresql.SYSTEM, postgresql_standby.SYSTEM, patroni.SYSTEM]


def told_to_nodes(system: Any, **options: Any) -> str:
    """All that the services of three nodes are given."""
    nodes: list[Any] = [
        SimpleNamespace(name=f"n{i}", info=SimpleNamespace(address=f"10.0.0.{i}"))
        for i in (1, 2, 3)
    ]
    usual = {name: option.default for name, option in system.options.items()}
    services = [
        service
        for member in system.deploy(nodes, {**usual, **options}).members.values()
        for service in member.services
    ]
    return " ".join(
        str([service.argv, service.prepare, *service.files.values()]) for service in services
    )


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_programs_are_of_the_major_version_that_is_asked_for(system: Any) -> None:
    assert "postgresql/15/bin" in told_to_nodes(system)
    told = told_to_nodes(system, major=17)
    assert "postgresql/17/bin" in told
    assert "postgresql/15" not in told
    option = system.options["major"]
    assert (option.default, option.least, option.most) == (15, 10, 99)
