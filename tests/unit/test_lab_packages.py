"""Which packages a lab has: those of the system of the run, and one image for all built-in ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from clusters.labs.image import BASE_PACKAGES, absent, packages_for, shared_packages
from dstest.campaign.session import begin, plan_arms
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import LabError
from dstest.core.node import LabInfo, Made, NodeInfo
from dstest.core.protocols import Lab
from dstest.core.registry import FILES
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import require_packages, run_session

OWN = """
from clusters.systems.memcached import Memcached

class Own(Memcached):
    name = "own"
    packages = ("memcached", "own-server")

SYSTEM = Own()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a system that needs a package of its own; in use only once it is asked for."""
    monkeypatch.setenv(FILES, "")
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


class Labs(Lab):
    """A lab that is up, made with these packages."""

    name = "table"
    doc = "for tests"

    def __init__(self, packages: Sequence[str] | None = None) -> None:
        self.there = None if packages is None else Made(packages=list(packages))
        self.made: list[tuple[str, tuple[str, ...]]] = []

    def status(self, lab_id: str) -> LabInfo | None:
        if lab_id != "there":
            return None
        nodes = [NodeInfo(name=f"n{i}", address=f"192.0.2.{i}") for i in (1, 2, 3)]
        return LabInfo(lab_id=lab_id, kind="lxc", nodes=nodes, control="-", made=self.there)

    def missing(self) -> dict[str, str]:
        return {}

    def list(self) -> list[str]:
        return []

    def up(self, lab_id: str, nodes: int, *, packages: Any, **_: Any) -> LabInfo:
        self.made.append((lab_id, tuple(packages)))
        return LabInfo(lab_id=lab_id, kind="lxc", nodes=[], control="-")


def labs_are(made: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = registry.load
    monkeypatch.setattr(
        registry, "load", lambda group, name: made if group == "labs" else loaded(group, name)
    )


def test_built_in_systems_share_an_image(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = shared_packages()
    assert {"etcd-server", "memcached", "redis-server"} <= {*shared}
    for name in registry.names("systems"):
        system = registry.load("systems", name)
        own_image = system.own_image
        assert packages_for([system]) == (tuple(sorted(system.packages)) if own_image else shared)
    monkeypatch.setenv(FILES, str(own))
    assert shared_packages() == shared, "a file in use makes no other image"
    assert packages_for([SimpleNamespace(packages=())]) == shared
    assert packages_for([SimpleNamespace(packages=("python3", "memcached"))]) == shared


def test_a_system_with_packages_of_its_own_has_an_image_of_its_own() -> None:
    own = SimpleNamespace(packages=("own-server", "memcached"))
    assert packages_for([own]) == ("memcached", "own-server")
    etcd = registry.load("systems", "etcd")
    assert packages_for([own, etcd]) == ("etcd-server", "memcached", "own-server")


def test_what_every_node_has_is_never_absent() -> None:
    assert absent(["x", "y", *BASE_PACKAGES], ["y"]) == ["x"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), None),
        (("--system", "etcd", "--system", "memcached"), None),
        (("--system", "OWN"), ("memcached", "own-server")),
        (("--system", "etcd,OWN"), ("etcd-server", "memcached", "own-server")),
        (("--system", "OWN", "--packages", "tcpdump"), ("memcached", "own-server", "tcpdump")),
        (("--packages", "tcpdump,gdb"), ("gdb", "tcpdump")),
    ],
)
def test_lab_up_goes_by_its_systems(
    own: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    wanted: tuple[str, ...] | None,
) -> None:
    made = Labs()
    labs_are(made, monkeypatch)
    given = [word.replace("OWN", str(own)) for word in words]
    done = CliRunner().invoke(app, ["lab", "up", "--lab-id", "x", *given])
    assert done.exit_code == 0, done.stderr
    assert made.made == [("x", wanted or shared_packages())]


def test_a_lab_without_the_package_is_refused_before_a_run_begins(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FILES, str(own))
    labs_are(Labs(packages=["etcd-server", "memcached"]), monkeypatch)
    spec = RunSpec(system="own", nodes=3, nemesis="none", files=(str(own),))
    with pytest.raises(LabError, match="there is up without own-server, which own needs") as caught:
        run_session(resolve(spec, []), store=tmp_path / "store", lab_id="there", ui=Quiet())
    assert "dstest lab down --lab-id there" in str(caught.value.remedy)
    assert "--lab-id NAME" in str(caught.value.remedy)
    plan = plan_arms(
        tier="smoke", count=None, seeds=[1, 2], sizes=[3], time_limit_s=20.0, first_seed=1
    )
    with pytest.raises(LabError, match="without own-server"):
        begin(spec, [], plan, store=tmp_path / "store", lab_id="there", ui=Quiet())
    assert not (tmp_path / "store").exists()


def test_a_lab_that_does_not_tell_its_packages_is_taken(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A lab of the user's own: the deployment looks for its programs itself."""
    monkeypatch.setenv(FILES, str(own))
    info = Labs().status("there")
    assert info is not None
    spec = RunSpec(system="own", nodes=3, nemesis="none", files=(str(own),))
    require_packages(info, resolve(spec, []))
