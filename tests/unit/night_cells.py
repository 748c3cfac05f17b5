"""A night without nodes: what its cells leave is made offline, by their option `ops_per_key`:

11 passes                        12 and 18 show an old value
13 leaves no run                 14 leaves none with the first try, then passes
15 loses its worker with the first try, then passes
16 takes its time with the first try, when its run has come to an end
17 takes its time with the first try, before it has
19 shows an old value with the first try, then passes; 20 the other way round
21 shows an old value with the first try and loses its worker with it, then passes
22 passes with the first try and loses its worker with it, then passes

Each run records the whole command of its cell.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from executed_plan import stale
from made_runs import LOAD_S, recorded, registers
from real_run import change_facts

from dstest.campaign.nightly.driver import begin
from dstest.campaign.nightly.state import Night, NightDir
from dstest.campaign.workers.commands import LOG, STORE
from dstest.campaign.workers.task import Workspace
from dstest.core.errors import Exit
from dstest.core.op import Op
from dstest.runner.judgement import judge

__all__ = ["MARKS", "cell", "fake_cell", "leave_one", "night_of", "run_offline"]

MARKS = "DSTEST_TEST_MARKS"
KIND = "ops_per_key"
LEAVE_A_RUN = (11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22)
SHOW_AN_OLD_VALUE = (12, 18, 20)
CHANGE = (19, 20, 21)
LOSE_THEIR_WORKER = (21, 22)
SLOW_S = 100.0
"""So long that whoever waits for it is killed."""


def _first(name: str) -> bool:
    """Is this the first try of a cell?"""
    path = Path(os.environ[MARKS], name)
    seen = path.exists()
    path.touch()
    return not seen


def fake_cell(
    place: Workspace,
    image: Sequence[str],
    argv: Sequence[str],
    files: dict[str, bytes],
    limit_s: float,
) -> tuple[int, float]:
    assert image[:2] == ["lab", "image"], image
    kind = int(argv[argv.index("-o") + 1].removeprefix(f"{KIND}="))
    (place.folder / LOG).write_text(f"$ dstest {' '.join(argv)}\ndstest: no nodes\n")
    if kind == 13 or (kind == 14 and _first("14")):
        return int(Exit.HARNESS), 0.1
    if kind == 15 and _first("15"):
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == 17 and _first("17"):
        time.sleep(SLOW_S)
    name = f"first-{kind}" if kind in CHANGE and _first(str(kind)) else f"run-{kind}"
    left = Path(os.environ[MARKS], name)
    shutil.copytree(left, place.folder / STORE / "etcd-register-partition" / name)
    if kind in LOSE_THEIR_WORKER and _first(f"lost-{kind}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == 16 and _first("16"):
        time.sleep(SLOW_S)
    return int(Exit.PASS), 0.5


def leave_runs(folder: Path, cells: str) -> None:
    """What `dstest run` leaves of each kind that is asked for, with seed 7."""
    ops = registers()
    old = stale(ops)
    asked = {int(kind) for kind in re.findall(rf"\b{KIND} = (\d+)", cells)}
    for kind in asked & {*LEAVE_A_RUN}:
        shows = kind in SHOW_AN_OLD_VALUE
        _leave(folder / f"run-{kind}", kind, old if shows else ops)
        if kind in CHANGE:
            _leave(folder / f"first-{kind}", kind, ops if shows else old)


def leave_one(path: Path, kind: int, *, old: bool = True) -> None:
    """A run of a kind, which shows an old value."""
    _leave(path, kind, stale(registers()) if old else registers())


def _leave(path: Path, kind: int, ops: Sequence[Op]) -> None:
    run = recorded(path, ops, "register", options={KIND: kind})
    change_facts(run, options_given=[f"{KIND}={kind}"])
    verdict, failure = judge(run)
    assert failure is None, failure
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")


def cell(kind: int, **more: object) -> str:
    """A table of nightly.toml."""
    rows = {
        "system": "etcd",
        "workload": "register",
        "nemesis": "partition",
        "id": f"c{kind}",
        "seed": [7],
        "concurrency": 8,
        "nodes": 3,
        "options": {KIND: kind},
    }
    said = "\n".join(f"{key} = {_toml(value)}" for key, value in {**rows, **more}.items())
    return f"[[cells]]\ntime-limit-s = {LOAD_S}\n{said}\n"


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in value.items())} }}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def night_of(folder: Path, cells: str, head: str = "reruns = 1\n") -> Path:
    """nightly.toml in a folder."""
    path = folder / "nightly.toml"
    path.write_text(f'name = "n"\n{head}{cells}')
    return path


def ready_offline(folder: Path, patch: pytest.MonkeyPatch, cells: str) -> None:
    """Such cells of a night are `fake_cell` from now on, and touch no node."""
    marks = folder / "marks"
    if not marks.exists():
        marks.mkdir()
        leave_runs(marks, cells)
    patch.setenv(MARKS, str(marks))
    patch.setattr("dstest.campaign.nightly.driver.run_command", fake_cell)


def run_offline(
    folder: Path,
    patch: pytest.MonkeyPatch,
    cells: str,
    head: str = "reruns = 1\n",
    chosen: Sequence[str] = (),
    workers: int = 1,
) -> tuple[int, NightDir, Night]:
    """Run a night of `night_of`: (exit code, its directory, what that holds). A worker more takes
    as long as two cells."""
    ready_offline(folder, patch, cells)
    path = night_of(folder, cells, head)
    code = begin(path, store=folder / "store", at=None, workers=workers, say=print, chosen=chosen)
    directory = NightDir.open(folder / "store" / "latest")
    return code, directory, directory.read()


if __name__ == "__main__":
    import night_cells  # workers have to find by its name what is given to them

    with pytest.MonkeyPatch.context() as patched:
        sys.exit(night_cells.run_offline(Path(sys.argv[1]), patched, sys.argv[2], workers=2)[0])
