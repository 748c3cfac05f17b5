"""How often an anomaly came: in its run, with the same seed, over the seeds of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.check import CheckResult, kinds_of
from dstest.core.evidence import Rerun

_FOLDER: Final = "arms"


class Arm(NamedTuple):
    """One arm of the session: what its last run found, by checker and type of anomaly."""

    id: str
    seed: int
    nodes: int
    found: frozenset[tuple[str, str]]


def _found(verdict: Any) -> frozenset[tuple[str, str]]:
    checkers = verdict.get("checkers", {}) if isinstance(verdict, dict) else {}
    return frozenset((name, kind) for name, result in checkers.items() for kind in kinds_of(result))


def arms_of(run: Path) -> list[Arm]:
    """The arms of the session that a run belongs to, of those that were judged; none where it
    belongs to no session."""
    folder = run.parent.parent
    file = folder.parent / "session.json"
    if folder.name != _FOLDER or not file.is_file():
        return []
    arms = []
    try:
        for arm in msgspec.json.decode(file.read_bytes())["arms"]:
            verdict = folder.parent / arm["attempts"][-1] / "verdict.json"
            if arm["done"] and verdict.is_file():
                found = _found(msgspec.json.decode(verdict.read_bytes()))
                arms.append(Arm(arm["id"], arm["seed"], arm["nodes"], found))
    except (KeyError, IndexError, TypeError, OSError, msgspec.DecodeError):
        return []
    return arms


def often(checker: str, kind: str, result: CheckResult, rerun: Rerun, arms: list[Arm]) -> list[str]:
    """Sentences that say it."""
    shown = len(result.anomalies.get(kind, ()))
    n = result.counted.get(kind, 0)
    times = "once" if n == 1 else f"{n:,} times"
    said = [f"In this run: {times}" + (f", {shown} with a witness." if n > shown else ".")]
    if rerun.same_seed_runs:
        told = (
            f"{rerun.reproduced} of {rerun.same_seed_runs} showed the violation again"
            if rerun.identical is msgspec.UNSET
            else rerun.said
        )
        said.append(f"Runs of the same seed: {told}.")
    else:
        said.append("The same seed has not been run again.")
    if arms:
        having = [arm for arm in arms if (checker, kind) in arm.found]
        which = ", ".join(f"{arm.id}" for arm in having[:12])
        said.append(
            f"Over the {len(arms)} judged arms of its session, each a seed and a size of its own: "
            f"in {len(having)}" + (f" ({which})." if which else ".")
        )
    else:
        said.append("This run belongs to no session, so no other seed tells how often it comes.")
    return said
