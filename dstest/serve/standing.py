"""May the verdict of a run be shown? What can be asked of its small files, at the price of a look.

No large file is hashed and nothing is judged again: `dstest store verify` and `dstest report` do.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dstest.core.errors import DstestError, EvidenceError
from dstest.core.words import shell_word
from dstest.retention.identity import misplaced
from dstest.retention.look import said
from dstest.retention.walk import Place, links_in
from dstest.runner.integrity import Told, finished, judging, told
from dstest.serve.row import Standing
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS, compare_sums

SMALL_BYTES: Final = 256 * 1024
"""Files up to this size are hashed whenever a run has changed."""


class Look(NamedTuple):
    """How a run stands, why, and what it says where it says anything that can be read."""

    standing: Standing
    why: str
    told: Told | None = None
    started: str = ""


def look_at(place: Place, *, own: bool = False) -> Look:
    """Never raises for what lies in a run directory: what is wrong with it is its `why`. `own`:
    this process made the run, and is through with it."""
    run = RunDir(place.path)
    _, life, started = said(place)
    try:
        over = finished(run)
        if life == "running" and not own:
            return Look("running", "its process is at work", started=started)
        if not over:
            return Look("died", _unjudged(run), started=started)
        found = _checked(run)
    except Exception as error:
        return Look("damaged", _short(error, run), started=started)
    return Look("judged", found.verdict.reason, found, started)


def _unjudged(run: RunDir) -> str:
    status = run.status() or "no status"
    return f"never judged to its end ({status}): `dstest recover {shell_word(run.path)}` judges it"


def _checked(run: RunDir) -> Told:
    """Raises where anything is not as it was left."""
    if not (run.path / SUMS).is_file():
        raise EvidenceError(f"{SUMS} is missing, though the run is over ({run.status()})")
    if different := compare_sums(run.path, SMALL_BYTES).describe():
        raise EvidenceError(f"files are not as {SUMS} has them: {different}")
    if link := next(links_in(run.path), None):
        raise EvidenceError(f"{link.relative_to(run.path)} is a symbolic link")
    with judging(run):
        found = told(run)
    if why := misplaced(run.path, found.meta.spec):
        raise EvidenceError(why)
    return found


def _short(error: Any, run: RunDir) -> str:
    """What is wrong, without the path, which stands beside it."""
    text = error.message if isinstance(error, DstestError) else str(error) or type(error).__name__
    return str(text).removeprefix(f"{run.path}: ")
