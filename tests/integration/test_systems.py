"""Every fault on other systems than etcd: it lands and heals there, or is refused and named.

What the run finds is not asked for: memcached forgets what it held when it is killed, and Redis
loses acknowledged writes in a failover.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import RATE, dstest, faults_of
from systems_table import TESTED, lacks

from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import run_session

PAIRS = [(s, n) for s in TESTED for n in registry.names("nemeses") if n != "none"]
FIT = [pair for pair in PAIRS if not lacks(*pair)]
UNFIT = [pair for pair in PAIRS if lacks(*pair)]

DAILY = {("redis-sentinel", "partition")}
"""`kill` is tried on a system of a user's own in `test_lab_packages`."""

WINDOW_S = {("nats", "fsync-error"): 70, ("nats", "slow-disk"): 70, ("rabbitmq", "io-error"): 15}
"""Longer windows: NATS syncs once a minute, whatever it is told, and RabbitMQ answers nobody until
each client's time is up."""

SYNCS_WHEN_TOLD = {
    ("tarantool", "fsync-error"): ["wal_mode=fsync"],
    ("tarantool", "slow-disk"): ["wal_mode=fsync"],
}
"""Options without which a server leaves syncs to the operating system."""

PREFERRED = ("register", "work-queue")
"""Of the workloads for which a system has clients; any other one where it has none for these."""


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("system", "nemesis"),
    [
        pytest.param(*p, id="-".join(p), marks=[pytest.mark.daily] if p in DAILY else [])
        for p in FIT
    ],
)
def test_a_fault_lands_and_heals(
    lab_for: Callable[[str], str], tmp_path: Path, system: str, nemesis: str
) -> None:
    fault_s = WINDOW_S.get((system, nemesis), 4)
    wanted = RunSpec(
        system=system,
        workload=_workload(system),
        nemesis=nemesis,
        time_limit_s=11.0 + fault_s,
        seed=11,
        rate=RATE,
    )
    more = SYNCS_WHEN_TOLD.get((system, nemesis), [])
    plugins = resolve(wanted, [f"fault_s={fault_s}", "quiet_s=8", *more])
    done = run_session(plugins, store=tmp_path, lab_id=lab_for(system), ui=Quiet())
    (fault,) = faults_of(done.path)
    told = (fault["notes"], fault["injector"], fault["victim"], fault["control"])
    assert fault["landed"] == "yes", told
    assert fault["heal_verified"], fault["notes"]
    left = json.loads((done.path / "run.json").read_text())["residue"]
    assert not fault["residue"]
    assert sorted(left) == [f"n{i + 1}" for i in range(5)]
    assert not any(left.values()), left


def _workload(system: str) -> str:
    offered = registry.load("systems", system).capabilities
    every = dict.fromkeys([*PREFERRED, *registry.names("workloads")])
    return next(name for name in every if registry.load("workloads", name).capability in offered)


@pytest.mark.parametrize(("system", "nemesis"), UNFIT, ids=["-".join(pair) for pair in UNFIT])
def test_what_does_not_fit_is_refused_before_there_is_a_lab(
    tmp_path: Path, system: str, nemesis: str
) -> None:
    """`wrong_usage`: no run, no directory."""
    words = ("--system", system, "--workload", _workload(system), "--nemesis", nemesis)
    more = ("-o", f"other_build={__file__}") if nemesis in ("mixed-versions", "upgrade") else ()
    done = dstest("run", *words, *more, "--store", tmp_path / "store")
    assert done.returncode == Exit.USAGE, done.stderr
    assert f"system {system} cannot have --nemesis {nemesis}: it lacks" in done.stderr
    for capability in lacks(system, nemesis):
        assert f"{capability} (" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "store").exists()
