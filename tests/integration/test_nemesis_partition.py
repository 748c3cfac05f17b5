"""partition in its shapes on a real etcd: each one lands, is proven on both sides and healed."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_passed
from runs import SHORT, faults_of, landed_and_healed, run_here

from dstest.core import registry
from dstest.core.node import LabInfo

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("shape", "direction"),
    [("halves", "both"), ("one", "in"), ("one", "both"), ("majority", "both"), ("leader", "both")],
)
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, shape: str, direction: str) -> None:
    options = (*SHORT, f"shape={shape}", f"direction={direction}")
    done = run_here(lab, tmp_path, options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert (fault["landed"], fault["heal_verified"]) == ("yes", True)
    assert all(fault["injector"]["during"].values())
    assert not any(n for pair in fault["victim"]["during"].values() for n in pair)


@pytest.mark.parametrize("name", ["partition", "latency"])
def test_paths_by_name(lab: LabInfo, tmp_path: Path, name: str) -> None:
    nemesis = registry.load("nemeses", name)
    options = (*SHORT, "paths=n1:n2,n4:n5,n5:n4")
    fault = landed_and_healed(run_here(lab, tmp_path, nemesis=nemesis, options=options))
    wanted = {"n1->n2", "n4->n5", "n5->n4"}
    assert set(fault["facts"]["cuts"]) == set(fault["injector"]["during"]) == wanted
    assert set(fault["victim"]["during"]) == wanted
    # A round trip over n2->n1 comes back over n1->n2: nobody expects it to be what it was.
    others = 20 - len(wanted) - (name == "latency")
    assert len(fault["control"]["during"]) == others


@pytest.mark.parametrize(
    "options",
    [
        ("shape=one", "direction=in", "action=reject"),
        ("shape=halves", "direction=out", "action=drop"),
        ("shape=leader", "direction=both", "action=drop"),
        ("shape=bridge", "direction=both", "action=drop", "clients=true"),
    ],
    ids=lambda options: "-".join(o.split("=")[1] for o in options),
)
def test_each_kind_of_cut_is_proven(lab: LabInfo, tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run_here(lab, tmp_path, options=(*SHORT, *options))
    assert done.exit_code == 0, (done.verdict.reason, faults_of(done.path))
    (fault,) = faults_of(done.path)
    wanted = dict(option.split("=") for option in options)
    assert fault["facts"]["shape"] == wanted["shape"]
    assert fault["landed"] == "yes"
    if wanted["shape"] == "leader":
        assert fault["facts"]["new_term"] > fault["facts"]["term_before"]
        assert fault["targets"] == [fault["facts"]["leader_before"]]
    if wanted["direction"] == "in":
        back = {"->".join(reversed(path.split("->"))) for path in fault["facts"]["cuts"]}
        assert back <= set(fault["control"]["during"]), "the other direction stays alive"
    if "clients" in wanted:
        assert any(rule.startswith("clients->") for rule in fault["injector"]["during"])
