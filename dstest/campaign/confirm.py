"""Is a violation there again, whose is it, how little does it take? Replays, a second client and a
smaller run, in one go and within one time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dstest.campaign.blame_runs import blame_run
from dstest.campaign.shrink.driver import shrink_run
from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.evidence import Rerun
from dstest.core.reproducer import Reproducer
from dstest.core.words import shell_word
from dstest.history.layout import RunDir
from dstest.judge.blame import BlameFile
from dstest.runner.integrity import is_finished, verify_run
from dstest.runner.replay import replay

LEAST_SHRINK_S: Final = 60.0
"""Less time makes nothing smaller: with less left nothing is begun."""


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out of a violation. It was `reproduced` in so many of all `replays` of its
    run, earlier ones among them, of which so many are `identical` with it, byte for byte: of a
    simulation that is one sample. `left` says of each part that was not done why not."""

    run: str
    verdict: str
    replays: int
    reproduced: int
    identical: int | None
    blame: BlameFile | None
    reproducer: Reproducer | None
    left: dict[str, str]


def confirm_run(
    path: Path,
    *,
    within_s: float,
    times: int,
    store: Path,
    lab_id: str | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Confirmed:
    """Replay, blame and shrink a run with a violation, in this order, until `within_s` are over.

    A part is begun only where, by how long a run has taken until now, it comes to its end; what was
    found before stands in any case, in the run and in the directories beside it. Raises ConfigError
    where there is no violation, EvidenceError where the run's files are not what it left behind.
    """
    began_ns = clock.monotonic_ns()
    run = RunDir.open(path)
    if not is_finished(run):
        raise ConfigError(
            f"{path} was not judged to its end",
            remedy=f"`dstest recover {shell_word(run.path)}` first",
        )
    if verify_run(run).verdict.evidence.violation_fingerprint is None:
        raise ConfigError(
            f"{path} has no violation", remedy="`dstest explain` says what else it shows"
        )

    def elapsed_s() -> float:
        return (clock.monotonic_ns() - began_ns) / 1e9

    def left_s() -> float:
        return within_s - elapsed_s()

    left: dict[str, str] = {}
    say(f"replaying {times} times")
    each_s = 0.0
    for done in range(times):
        if done and left_s() < each_s:
            left["replay"] = f"{times - done} of {times}: {_no_time('replay', run.path)}"
            break
        *_, original = replay(run.path, 1, store=store, lab_id=lab_id)
        each_s = elapsed_s() / (done + 1)
    meta = run.read_meta()
    rerun = meta.rerun if meta is not None and meta.rerun is not None else Rerun()
    blamed = None
    on_nodes = meta is None or meta.transport == "network"
    if on_nodes and left_s() < 2 * times * each_s:
        left["blame"] = _no_time("blame", run.path)
    else:
        say("asking a second client")
        blamed = blame_run(run.path, times, lab_id=lab_id)
    small = None
    if not rerun.reproduced:
        left["shrink"] = "it did not come again: nothing is known to be needed for it"
    elif left_s() < max(LEAST_SHRINK_S, 3 * each_s):
        left["shrink"] = _no_time("shrink", run.path)
    else:
        say(f"making it smaller, for at most {left_s() / 60:.0f} minutes")
        small, left = _smaller(run.path, left_s(), times, lab_id, left)
    state = original.verdict.verdict.value if original.verdict is not None else "not judged"
    return Confirmed(
        run=str(run.path),
        verdict=state,
        replays=rerun.same_seed_runs,
        reproduced=rerun.reproduced,
        identical=None if rerun.identical is msgspec.UNSET else rerun.identical,
        blame=blamed,
        reproducer=small,
        left=left,
    )


def _no_time(command: str, path: Path) -> str:
    return f"no time was left; `dstest {command} {shell_word(path)}` does it"


def _smaller(
    path: Path, within_s: float, sure: int, lab_id: str | None, left: dict[str, str]
) -> tuple[Reproducer | None, dict[str, str]]:
    try:
        small = shrink_run(path, within_s=within_s, sure=sure, lab_id=lab_id)
    except ConfigError as error:  # of a run that nothing can be taken from
        return None, {**left, "shrink": error.message}
    if small is None:
        return None, {**left, "shrink": "it did not come again in the runs that were made"}
    return small, left
