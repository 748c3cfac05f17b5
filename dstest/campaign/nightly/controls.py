"""The red controls of a night that lies in a store: runs that had to find a known bug, and whether
they show it by what their files say now, whatever the night says of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dstest.campaign.nightly.outcome import judge_run, standing_of
from dstest.campaign.nightly.state import Item, NightDir
from dstest.campaign.nightly.verdict import contradictions
from dstest.core.errors import ConfigError
from dstest.core.standing import Standing
from dstest.runner.integrity import Verify, verify_run


def red_controls(night: Path) -> Iterator[tuple[Path, Item]]:
    """The runs of a night that had to find a known bug. None of one that cannot be read, is not
    over, or is not what it was begun with: what failed in it counts as it would anywhere else."""
    try:
        directory = NightDir.open(night)
        told = directory.read()
    except ConfigError:
        return
    if not (told.ended and told.asked_sha256) or any(contradictions(directory, told)):
        return
    for item in told.items:
        for one in item.tries if item.expected.red and item.argv else ():
            run = _inside(directory.cells, night / one.result) if one.result else None
            if run is not None:
                yield run, item


def _inside(cells: Path, run: Path) -> Path | None:
    """Where it is; None where it is not among the cells, or is no path."""
    try:
        found = run.resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found.is_relative_to(cells) else None


def standing_now(run: Path, item: Item, judged: Verify = verify_run) -> tuple[Standing, str] | None:
    """(how the run of a control stands, why it is not as it must be); None where nothing can be
    said of it."""
    came = judge_run(run, item.argv, item.seed, judged)
    return None if came is None else standing_of(item.expected, came)


def found_known_bug(night: Path) -> Iterator[Path]:
    """The runs of its red controls that show the bug that they must, and no other."""
    for run, item in red_controls(night):
        stands = standing_now(run, item)
        if stands is not None and stands[0] == "as-it-must":
            yield run
