"""What shows that a fault of `dstest sim` has landed, and sabotage that it sees."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

import pytest

from dstest.sim import loop
from dstest.sim.network import Network
from dstest.sim.simulate import sim_spec_of, simulate
from dstest.sim.world import Fault, FaultResult, Profile, World

pytestmark = pytest.mark.slow


def struck(kind: str, *hosts: str, direction: str = "both") -> FaultResult:
    fault = Fault(kind=kind, at_s=1.5, stands_s=2.0, hosts=hosts, direction=direction)  # type: ignore[arg-type]
    (found,) = simulate(sim_spec_of("toykv", "register", [], time_s=6.0, plan=(fault,)), 1).faults
    return found


@pytest.mark.parametrize("direction", ["both", "in", "out"])
@pytest.mark.parametrize("hosts", [("n1",), ("n2",), ("n3",), ("n1", "n2")])
def test_a_cut_is_shown_by_its_links(hosts: tuple[str, ...], direction: str) -> None:
    links = len(hosts) * (3 - len(hosts)) * (2 if direction == "both" else 1)
    landed = struck("partition", *hosts, direction=direction).landed
    assert landed is not None and landed.endswith(f"messages held up on {links} links")


@pytest.mark.parametrize("spared", range(4))
def test_a_cut_that_spares_a_link_has_not_landed(
    spared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = World.cut

    def others(self: World, links: Iterable[tuple[str, str]]) -> None:
        every = list(links)
        cut(self, every[:spared] + every[spared + 1 :])

    monkeypatch.setattr(World, "cut", others)
    assert struck("partition", "n1").landed is None


def test_a_cut_of_one_link_alone_has_not_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = World.cut
    monkeypatch.setattr(World, "cut", lambda self, links: cut(self, list(links)[:1]))
    assert struck("partition", "n1").landed is None


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("hosts", [("n1",), ("n2", "n3"), ("n1", "n2", "n3")])
def test_who_is_gone_is_missed_by_others(kind: str, hosts: tuple[str, ...]) -> None:
    landed = struck(kind, *hosts).landed
    assert landed is not None and landed.endswith(f"{len(hosts)} processes are gone")


def test_a_kill_that_spares_a_victim_has_not_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = World.kill
    monkeypatch.setattr(World, "kill", lambda self, name: name == "n2" or kill(self, name))
    assert struck("kill", "n1", "n2").landed is None


@pytest.mark.parametrize("hosts", [("n1",), ("n2",), ("n3",), ("n1", "n2")])
def test_a_process_that_is_called_dead_and_goes_on_has_not_been_killed(
    hosts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flag says so, and it sends as before."""
    monkeypatch.setattr(loop, "PROCESS", ContextVar("nobody", default=None))
    monkeypatch.setattr(Network, "died", lambda self, process: None)
    assert struck("kill", *hosts).landed is None


def test_a_process_that_is_called_dead_and_is_served_has_not_been_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The world says that it is dead, to nobody else."""
    monkeypatch.setattr(World, "kill", lambda self, name: self.log.say(f"{name} is dead: killed"))
    assert struck("kill", "n1").landed is None


def test_drawn_faults_land_mostly() -> None:
    """Those of the default profile, of which few strike what nobody uses at the time."""
    wanted = sim_spec_of("toykv", "register", [], time_s=40.0, profile=Profile())
    found = [one for seed in (1, 2, 3) for one in simulate(wanted, seed).faults]
    missed = [one.fault for one in found if one.landed is None]
    assert len(found) > 12 and len(missed) <= len(found) // 10, missed
