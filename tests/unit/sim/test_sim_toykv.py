"""toykv's own servers and clients in a simulation: its bugs are found, and it has no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.sim.files import SimFiles
from dstest.sim.simulate import SimResult, sim_spec_of, simulate
from dstest.sim.sweep import Swept, seed_result, sweep
from dstest.sim.world import Fault, Profile, World, kinds_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]

FOUND = {
    "acknowledged-before-replicated": ("set", "lost", ("partition", "kill", "pause")),
    "stale-follower-read": ("register", "nonlinearizable", ("partition",)),
    "lost-update-on-heal": ("set", "lost", ("partition", "kill", "pause")),
    "duplicate-on-retry-after-restart": ("ledger", "duplicated", ("kill",)),
    "sequence-reuse": ("unique-ids", "duplicated", ("kill",)),
    "dirty-read": ("bank", "wrong-total", ()),
    "replica-divergence": ("bank-replicas", "divergence", ("kill", "partition")),
    "unsynced-loss": ("set", "lost", ("power",)),
    "reorder-in-queue": ("queue", "reordered", ("kill",)),
    "membership-double-entry": ("set", "lost", ("partition", "kill")),
    "tenants-joined": ("boundary", "leak", ()),
    "count-of-neighbours": ("boundary", "count-off", ()),
}
"""Bug -> workload, what it shows, which faults."""

SEEDS = 30


@pytest.mark.parametrize("bug", FOUND)
@pytest.mark.sampled(4)
def test_a_planted_bug_is_found(bug: str) -> None:
    workload, anomaly, kinds = FOUND[bug]
    wanted = sim_spec_of(
        "toykv",
        workload,
        [f"bug={bug}"],
        profile=Profile(kinds=kinds_of(",".join(kinds) or "none")),
    )
    for seen in sweep(wanted, range(1, SEEDS + 1)):
        if seen.violated:
            assert anomaly in seen.anomalies
            assert seen.failures == []
            return
    pytest.fail(f"not in {SEEDS} seeds")


@pytest.mark.parametrize("workload", ["register", "set", "queue", "ledger", "unique-ids"])
@pytest.mark.sampled(2)
def test_what_has_no_bug_shows_none(workload: str) -> None:
    wanted = sim_spec_of(
        "toykv", workload, [], profile=Profile(kinds=("partition", "kill", "pause", "power"))
    )
    swept = Swept()
    for seen in sweep(wanted, range(1, 4)):
        assert (seen.seed, seen.anomalies, seen.failures) == (seen.seed, [], [])
        assert seen.ok > 100
        swept.add(seen)
    assert set(swept.landed) == {"partition", "kill", "pause", "power"}
    assert not swept.vacuous


def kept(self: SimFiles, least: int = 0) -> None:
    """In place of `lose_power`: all that was written turns out to be on the disk."""
    self.stall(lambda: False)
    for file in self._files.values():
        file.synced = bytes(file.data)


def one(seed: int = 3, **more: object) -> SimResult:
    return simulate(sim_spec_of("toykv", "register", [], time_s=5.0, **more), seed)


def test_the_same_seed_is_the_same_in_this_process() -> None:
    first = one()
    for _ in range(5):
        again = one()
        assert again.digest == first.digest
        assert again.history == first.history
    assert one(4).digest != first.digest


OWN = (
    "from dstest.sim.simulate import simulate, sim_spec_of\n"
    "print(simulate(sim_spec_of('toykv', 'register', [], time_s=5.0), 3).digest)\n"
)


def test_and_in_others_whatever_their_hashes() -> None:
    digests = set()
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", OWN], env=env, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert digests == {one().digest}


def test_a_fault_that_nobody_feels_has_not_landed() -> None:
    """A cut that is mended at once holds up nothing."""
    done = one(plan=(Fault(kind="partition", at_s=1.0, stands_s=0.0, hosts=("n1",)),))
    assert [struck.landed for struck in done.faults] == [None]
    assert seed_result(done).vacuous == "no fault landed"


def cut_power(*hosts: str, time_s: float = 5.0) -> Fault:
    return Fault(kind="power", at_s=time_s - 4.0, stands_s=1.0, hosts=hosts)


@pytest.mark.parametrize("hosts", [("n1",), ("n2", "n3"), ("n1", "n2", "n3")])
def test_a_power_cut_takes_something_of_each_victim(hosts: tuple[str, ...]) -> None:
    done = one(plan=(cut_power(*hosts),))
    (told,) = [struck.landed for struck in done.faults]
    assert told is not None
    lost = dict(part.split(" lost ") for part in told.split(" bytes")[0].split(", "))
    assert set(lost) == set(hosts)
    assert all(int(count) > 0 for count in lost.values()), told


def test_a_power_cut_that_took_nothing_has_not_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs return, so that nothing is left to be lost."""
    monkeypatch.setattr(World, "stall", lambda self, name: None)
    done = one(plan=(cut_power("n1", "n2"),))
    assert [struck.landed for struck in done.faults] == [None]
    assert seed_result(done).vacuous == "no fault landed"


def test_a_power_cut_that_one_victim_did_not_feel_has_not_landed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_power = World.lose_power

    def spared(self: World, name: str, least: int = 0) -> None:
        self.kill(name) if name == "n2" else lose_power(self, name, least)

    monkeypatch.setattr(World, "lose_power", spared)
    done = one(plan=(cut_power("n1", "n2"),))
    assert [struck.landed for struck in done.faults] == [None]


def test_a_disk_that_keeps_what_it_says_it_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFiles, "lose_power", kept)
    done = one(plan=(cut_power("n1", "n2"),))
    assert [struck.landed for struck in done.faults] == [None]


def test_a_window_stands_in_the_history() -> None:
    done = one(plan=(Fault(kind="pause", at_s=1.0, stands_s=2.0, hosts=("n1", "n2")),))
    (window,) = done.history.header.windows
    assert window.nemesis == "pause"
    assert window.healed_ns is not None
    assert window.healed_ns - window.start_ns == pytest.approx(2e9, abs=1e3)


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(ConfigError, match="etcd cannot be simulated") as error:
        sim_spec_of("etcd", "register", [])
    assert "toykv" in (error.value.remedy or "")
    with pytest.raises(ConfigError, match="has no clients for watch"):
        sim_spec_of("toykv", "watch", [])
    with pytest.raises(ConfigError, match="no simulated fault 'kil'"):
        kinds_of("partition,kil")


def test_the_command(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dstest", "sim", "--seeds", "4", "--workers", "1"]
    words += ["-o", "bug=dirty-read", "--workload", "bank", "--faults", "none", "--time-limit", "3"]
    words += ["--history", "h.jsonl", "--log", "log.txt", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["violated"]
    assert (tmp_path / "log.txt").read_text().count("\n") > 1000
    check = [sys.executable, "-m", "dstest", "check", "h.jsonl"]
    judged = subprocess.run(
        check, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 1
    assert "wrong-total" in judged.stdout


def swept_to(where: Path, *more: str) -> str:
    words = [sys.executable, "-m", "dstest", "sim", "--workers", "1", "--faults", "none"]
    words += ["--time-limit", "1", "--log", "z.log", "--history", "h.jsonl", *more]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        words, cwd=where, env=env, capture_output=True, text=True, check=True
    ).stdout


def test_a_single_seed_is_written_though_nothing_failed(tmp_path: Path) -> None:
    told = swept_to(tmp_path, "--seeds", "1", "--seed", "7")
    assert "nothing was written" not in told
    assert (tmp_path / "z.log").read_text().count("\n") > 100
    assert (tmp_path / "h.jsonl").read_text().count("\n") > 10


def test_a_clean_sweep_says_that_nothing_is_written(tmp_path: Path) -> None:
    told = swept_to(tmp_path, "--seeds", "2")
    assert told.splitlines()[-1].startswith("nothing was written to h.jsonl and z.log: no seed")
    assert not any(tmp_path.iterdir())
