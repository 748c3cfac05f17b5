"""Real servers in a simulation: planted bugs are among the first three hypotheses, by what a run
shows and never by its options; healthy ones give no alarm, whatever faults were done to them."""

from __future__ import annotations

import io
import json
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest

from clusters.systems.toykv.bugs import BUGS
from dstest.core.run_record import RunSpec
from dstest.debug.patterns.diagnosis import Diagnosis, diagnose
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT: Final = Path(__file__).resolve().parents[3]

CAUSES: Final = {
    # Committed before others have it: gone when its leader is
    "acknowledged-before-replicated": 21,
    # A read of a follower goes behind what was confirmed
    "stale-follower-read": 5,
    # Two sides commit
    "split-brain-write": 1,
    # Who lacks what was committed is elected, and others follow it
    "lost-update-on-heal": 21,
    # Once-only work is done twice
    "duplicate-on-retry-after-restart": 19,
    # One id is given out twice
    "sequence-reuse": 19,
    # Two hold one lease
    "lease-overlap-under-pause": 1,
    # Half of a transfer is shown
    "dirty-read": 9,
    # Replicas that differ at one index
    "replica-divergence": 10,
    # What was acknowledged was not on a disk
    "unsynced-loss": 21,
    # Elements come in another order than they went in
    "reorder-in-queue": 7,
    # A vote that counts twice
    "membership-double-entry": 3,
    # One tenant is shown, and counts, what is another one's: names that data were not stored under
    "tenants-joined": 22,
    "count-of-neighbours": 22,
}
"""The pattern that each planted bug is, by what it does (`clusters/systems/toykv/bugs.py`)."""

QUICK: Final = ("stale-follower-read", "split-brain-write", "unsynced-loss")

CLEAN: Final = {
    "register": ("partition", 3, 11),
    "set": ("kill", 5, 12),
    "list-append": ("pause", 3, 13),
    "queue": ("kill", 3, 15),
    "unique-ids": ("none", 3, 18),
}
"""Workload -> faults, nodes, seed."""


def ran(store: Path, spec: RunSpec, *pairs: str) -> Path:
    plugins = resolve(spec, [*pairs])
    return run_session(plugins, store=store, ui=Progress(io.StringIO())).path


def commands() -> dict[str, list[str]]:
    """By bug the words that find it in a simulation, as docs/carried.json has them."""
    carried = json.loads((ROOT / "docs" / "carried.json").read_text())
    return {one["bug"]: shlex.split(one["simulated"]["command"]) for one in carried["rows"]}


def asked(words: list[str]) -> tuple[RunSpec, list[str]]:
    """What a command asks for."""
    names = {"--nodes": "nodes", "--seed": "seed", "--time-limit": "time_limit_s"}
    fields: dict[str, object] = {"lab": "sim", "system": "toykv"}
    pairs = []
    for flag, value in pairwise(words):
        if flag in ("--workload", "--nemesis"):
            fields[flag[2:]] = value
        elif flag in names:
            fields[names[flag]] = int(value) if flag != "--time-limit" else float(value)
        elif flag == "-o":
            pairs.append(value)
    return msgspec.convert({**msgspec.to_builtins(RunSpec()), **fields}, RunSpec), pairs


def told(found: Diagnosis) -> list[tuple[int, int, float, str, bool]]:
    return [
        (h.rank, h.number, h.total, h.detections[0].said, h.alarm) for h in found.hypotheses[:6]
    ]


def shown(bug: str, store: Path) -> Path:
    spec, pairs = asked(commands()[bug])
    return ran(store, spec, *pairs)


@pytest.fixture(scope="module")
def dirty_read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Diagnosis]:
    run = shown("dirty-read", tmp_path_factory.mktemp("dirty"))
    return run, diagnose(run)


def require_cause(bug: str, found: Diagnosis) -> None:
    assert found.verdict.startswith("FAIL"), found.verdict
    ranks = {h.number: h.rank for h in found.alarms}
    assert ranks.get(CAUSES[bug], 99) <= 3, told(found)
    one = next(h for h in found.hypotheses if h.number == CAUSES[bug])
    assert any(row.place for d in one.detections for row in d.rows)


def test_every_bug_has_its_cause() -> None:
    assert set(CAUSES) == set(BUGS) == set(commands())


def test_a_planted_bug_is_among_the_first_three(dirty_read: tuple[Path, Diagnosis]) -> None:
    require_cause("dirty-read", dirty_read[1])


@pytest.mark.parametrize("bug", QUICK)
@pytest.mark.long
def test_so_are_the_quick_ones(bug: str, tmp_path: Path) -> None:
    run = shown(bug, tmp_path)
    require_cause(bug, diagnose(run))
    why = (run / "report.html").read_text().partition("<dt>Why</dt>")[2].partition("</dd>")[0]
    alone = "Committed without a majority: "
    assert (alone in why) is (bug == "split-brain-write"), why
    if bug == "unsynced-loss":
        assert "entries that it had acknowledged" in why


@pytest.mark.selftest
@pytest.mark.parametrize("bug", sorted(set(CAUSES) - {"dirty-read", *QUICK}))
def test_the_other_bugs_are_as_well(bug: str, tmp_path: Path) -> None:
    require_cause(bug, diagnose(shown(bug, tmp_path)))


@pytest.mark.parametrize("workload", CLEAN)
@pytest.mark.sampled(1)
def test_a_healthy_run_gives_no_alarm(workload: str, tmp_path: Path) -> None:
    nemesis, nodes, seed = CLEAN[workload]
    spec, _ = asked(
        [
            *("--workload", workload, "--nemesis", nemesis, "--nodes", str(nodes)),
            *("--seed", str(seed), "--time-limit", "30"),
        ]
    )
    found = diagnose(ran(tmp_path, spec))
    assert found.verdict == "PASS-smoke", found.verdict
    assert found.alarms == [] and found.code == 0, told(found)
    if nemesis != "none":
        assert found.faults and all(one["landed"] == "yes" for one in found.faults)
        assert any(one.expected for one in found.hypotheses), told(found)
    assert sum(one.state == "not looked for" for one in found.answers) <= 12


def test_what_was_planted_is_not_looked_at(
    dirty_read: tuple[Path, Diagnosis], tmp_path: Path
) -> None:
    """The same history under the name of another bug, or of none, is debugged the same."""
    run = Path(shutil.copytree(dirty_read[0], tmp_path / dirty_read[0].name))
    for name in ("run.json", "history.jsonl"):
        text = (run / name).read_text()
        (run / name).write_text(text.replace("dirty-read", "none"))
    assert told(diagnose(run)) == told(dirty_read[1])
