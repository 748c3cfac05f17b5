"""kill -9 of ours at random moments, set-up and clean-up included, over all nemeses.

Each time the nodes are clean by themselves within 15 s, and a run of another nemesis on the same
lab finds nothing of the dead one. DSTEST_KILLS says how often (20), DSTEST_KILL_SEED which moments;
a line per round is printed, and kept in DSTEST_KILL_LOG where that is set.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runs import dstest, latest, on_nodes, start
from systems_table import faults_on

from dstest.core.errors import Exit, LabError
from dstest.core.node import LabInfo
from dstest.runner import adoption

ROUNDS = int(os.environ.get("DSTEST_KILLS", "20"))
SEED = int(os.environ.get("DSTEST_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
OTHER_BUILD = os.environ.get("DSTEST_OTHER_ETCD", "")

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(120 * ROUNDS + 300)]

CLEAN_S = 15.0
RUN_S = 24
"""Load of a run that is killed: one fault, and time to recover."""

ENDS_S = 34.0
"""About when such a run ends by itself, its set-up and its clean-up included."""

WINDOWS = ("-o", "fault_s=4", "-o", "quiet_s=6")
OPTIONS = {
    "credentials": ("-o", "auth=true"),
    "mixed-versions": ("-o", f"other_build={OTHER_BUILD}"),
    "upgrade": ("-o", f"other_build={OTHER_BUILD}"),
}


def nemeses() -> list[str]:
    return [n for n in faults_on("etcd") if OTHER_BUILD or n not in ("mixed-versions", "upgrade")]


def command_of(nemesis: str, lab: LabInfo, store: Path, seed: int) -> tuple[str | Path, ...]:
    return (
        *("run", "--rate", "200", "--nemesis", nemesis, "--time-limit", str(RUN_S)),
        *("--seed", str(seed), *WINDOWS, *OPTIONS.get(nemesis, ())),
        *("--lab-id", lab.lab_id, "--store", store),
    )


def moment(rng: random.Random) -> float:
    """Anywhere; the set-up and the clean-up, which are short, more often than by their length."""
    low, high = rng.choices([(0.3, ENDS_S), (0.5, 7.0), (RUN_S, ENDS_S)], [5, 3, 2])[0]
    return rng.uniform(low, high)


def left(lab: LabInfo) -> list[str]:
    """What a look at the nodes finds, servers that go on apart."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        found = await adoption.look(nodes, adoption.residues())
        return [f"{n}: {f.what}" for n, row in found.items() for f in row if not f.kept]

    try:
        seen: list[str] = on_nodes(lab, ask)
    except LabError as error:  # a node that is down
        return [error.message]
    return seen


def killed_at(process: subprocess.Popen[bytes], after_s: float) -> bool:
    """False where the run was over before."""
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
        return True
    return False


def phase_of(log: Path) -> str:
    """What the run said last."""
    lines = [line.strip() for line in log.read_text().splitlines() if line.strip()]
    return lines[-1][:60] if lines else "nothing yet"


def one_round(lab: LabInfo, folder: Path, rng: random.Random, nemesis: str, other: str) -> str:
    """Kill a run of `nemesis`, then run `other`; the line that tells of it."""
    folder.mkdir()
    for attempt in range(5):
        after_s, log = moment(rng), folder / f"log-{attempt}"
        args = command_of(nemesis, lab, folder / "killed", rng.randrange(1, 1 << 31))
        if killed_at(start(log, *args), after_s):
            break
    else:
        raise AssertionError(f"{nemesis}: five runs were over before they were killed")
    began = time.monotonic()
    while (found := left(lab)) and time.monotonic() - began < CLEAN_S:
        time.sleep(0.2)
    clean_s = time.monotonic() - began
    status = json.loads(dstest("lab", "status", "--lab-id", lab.lab_id, "--json").stdout)
    shown = [f["what"] for row in status["left"].values() for f in row if not f["kept"]]
    args = command_of(other, lab, folder / "next", rng.randrange(1, 1 << 31))
    done = dstest(*args)
    facts = json.loads((latest(folder / "next") / "run.json").read_text())
    cleaned = [w for row in facts["cleaned"].values() for w in row if "of an earlier run" not in w]
    residue = [f"{n}: {what}" for n, row in facts.get("residue", {}).items() for what in row]
    verdict = done.stdout.strip().splitlines()[:1]
    wrong = [
        *([f"after {clean_s:.1f} s left: {found}"] if found or clean_s > CLEAN_S else []),
        *([f"lab status: {shown}"] if shown else []),
        *([f"the next run removed: {cleaned}"] if cleaned else []),
        *([f"the next run's audit: {residue}"] if residue else []),
    ]
    if done.returncode not in (Exit.PASS, Exit.NOT_PROVEN):
        wrong.append(f"the next run ended with {done.returncode}: {done.stderr[-300:]}")
    return (
        f"{nemesis:16} killed at {after_s:5.1f} s ({phase_of(log)}); clean after {clean_s:4.1f} s;"
        f" then {other}: exit {done.returncode} {verdict}" + "".join(f" WRONG: {w}" for w in wrong)
    )


def test_kill_9_at_any_moment(lab: LabInfo, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    sys.stdout.write(f"\n{ROUNDS} rounds, DSTEST_KILL_SEED={SEED}\n")
    kinds: list[str] = []
    wrong = []
    for number in range(1, ROUNDS + 1):
        if not kinds:
            kinds = nemeses()
            rng.shuffle(kinds)
        nemesis = kinds.pop()
        other = rng.choice([name for name in nemeses() if name != nemesis])
        line = f"{number:3} " + one_round(lab, tmp_path / str(number), rng, nemesis, other)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        if path := os.environ.get("DSTEST_KILL_LOG"):
            with Path(path).open("a") as file:
                file.write(line + "\n")
        wrong += [line] if "WRONG" in line else []
    assert not wrong, "\n".join(wrong)
