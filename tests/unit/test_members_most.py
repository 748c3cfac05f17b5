"""What a system never has more of: declared, held to, and all that a tier asks of it."""

from __future__ import annotations

import pytest

from clusters.systems.postgresql import SYSTEM as POSTGRESQL
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve


def test_it_is_declared() -> None:
    declared = {
        name: registry.load("systems", name).members_most for name in registry.names("systems")
    }
    assert {name for name, most in declared.items() if most is not None} == {
        "mariadb",
        "postgresql",
    }
    assert declared["etcd"] is None, "-o members=1 must not make one member enough"


def test_more_members_than_it_ever_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec(system="postgresql", workload="register", nemesis="none")
    assert resolve(spec, []).members == ["n1"]
    monkeypatch.setattr(type(POSTGRESQL), "members", lambda self, nodes, options: [*nodes])
    with pytest.raises(ConfigError, match="returns 5, its members_most is 1"):
        resolve(spec, [])
