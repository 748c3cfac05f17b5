"""What `dstest blame` keeps beside a run: `RUN.blame/probes.json`, and what follows from it.

The run itself is sealed and stays as it is. A probe that needs a cluster is a number of runs; the
file names them, and what they say is asked of them again whenever it is read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.errors import EvidenceError
from dstest.core.evidence import BlameProbe
from dstest.core.verdict import Verdict
from dstest.judge.blame import QUIET, SWAP
from dstest.store.recorded import Distinct

PROBES_FILE: Final = "probes.json"
SCHEMA: Final = "dstest.blame/1"

Asked = Literal["again", "swap"]

GONE: Final = 0.05
"""So improbable may it be that a violation which comes at its rate was missed by chance."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was made to find out. `again`: the same once more; `swap`: through the second
    client. `path` is below the directory of the file, empty where there came to be none. `judged`:
    a checker had its say. `fingerprint` is that of its violation. `disturbed` is what happened to
    the host meanwhile."""

    kind: Asked
    path: str = ""
    judged: bool = False
    fingerprint: str | None = None
    disturbed: str = ""


class BlameFile(msgspec.Struct, frozen=True, kw_only=True):
    """`history_sha256` and `fingerprint` say which run and which violation of it this is about.
    `why_not` says why a kind of run was not made."""

    schema: str = SCHEMA
    run: str
    history_sha256: str
    fingerprint: str
    runs: list[Again] = msgspec.field(default_factory=list)
    times: int = 3
    why_not: dict[str, str] = msgspec.field(default_factory=dict)
    probes: dict[str, BlameProbe] = msgspec.field(default_factory=dict)
    blame: str | None = None


def aside_of(run: Path) -> Path:
    """Where the file and the runs that it names are."""
    return run.with_name(f"{run.name}.blame")


def digest_of(run: Path) -> str:
    """The digest of the run's history, which no replay changes."""
    with (run / "history.jsonl").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


UNKNOWN_RATE: Final = 0.3
"""How often a violation is held to come, where it came in no run but the first."""


def enough(rate: float, times: int) -> int:
    """How many runs without it make chance a poor excuse, for a violation that comes at this rate;
    `times` at least."""
    if rate >= 1:
        return max(1, times)
    return max(times, math.ceil(math.log(GONE) / math.log(1 - rate)))


def probes_of(
    runs: Sequence[Again], fingerprint: str, times: int, why_not: Mapping[str, str]
) -> dict[str, BlameProbe]:
    """What the runs show of the two probes that need them."""
    counted = [run for run in runs if run.judged]
    again = [run for run in counted if run.kind == "again"]
    swapped = [run for run in counted if run.kind == "swap"]
    seen = sum(run.fingerprint == fingerprint for run in again)
    rate = seen / len(again) if again else 0.0
    return {
        SWAP: _swap(swapped, fingerprint, rate, times, why_not.get("swap", "")),
        QUIET: _quiet(again, fingerprint, rate or UNKNOWN_RATE, times, why_not.get("again", "")),
    }


def _swap(
    runs: Sequence[Again], fingerprint: str, rate: float, times: int, why_not: str
) -> BlameProbe:
    came = sum(run.fingerprint == fingerprint for run in runs)
    if came:
        said = f"it came again in {came} of {len(runs)} runs through the second client"
        return BlameProbe(fired=False, said=said)
    if not runs:
        return BlameProbe(said=why_not or "no run through a second client was judged")
    seen = f"it did not come in {len(runs)} runs through the second client"
    if rate == 0:
        return BlameProbe(said=f"{seen}, but through the first one it did not come again either")
    if len(runs) < (wanted := enough(rate, times)):
        said = f"{seen}, and {wanted} are needed where it comes in {rate:.0%} of the runs"
        return BlameProbe(said=said)
    return BlameProbe(fired=True, said=f"{seen}; through the first one in {rate:.0%}")


def _quiet(
    runs: Sequence[Again], fingerprint: str, rate: float, times: int, why_not: str
) -> BlameProbe:
    quiet = [run for run in runs if not run.disturbed]
    came = sum(run.fingerprint == fingerprint for run in quiet)
    if came:
        said = f"it came again in {came} of {len(quiet)} runs on a quiet host"
        return BlameProbe(fired=False, said=said)
    if len(quiet) < (wanted := enough(rate, times)):
        said = (
            f"{len(quiet)} of {len(runs)} runs were on a quiet host, {wanted} are needed for one"
            f" that comes in {rate:.0%} of the runs"
        )
        return BlameProbe(said=why_not or said)
    return BlameProbe(fired=True, said=f"it did not come in {len(quiet)} runs on a quiet host")


def read_blame(run: Path, times: int | None = None) -> BlameFile | None:
    """The file beside a run, with its probes as its runs show them, `times` of a kind at least, or
    as many as were asked for; None where there is none.

    Raises EvidenceError where it cannot be read, is about another run, or its runs say otherwise.
    """
    path = aside_of(run) / PROBES_FILE
    if not path.is_file():
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=BlameFile)
    except msgspec.MsgspecError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    if kept.schema != SCHEMA or kept.history_sha256 != digest_of(run):
        raise _wrong(path, f"it is not about {run}")
    distinct = Distinct(run, aside_of(run), simulated=False)  # no simulation is asked for again
    for one in kept.runs:
        if not one.judged:
            continue
        if why := distinct.why_not(aside_of(run) / one.path):
            raise _wrong(path, f"{one.path} {why}")
        if _fingerprint(aside_of(run) / one.path) != one.fingerprint:
            raise _wrong(path, f"{one.path} found something else than it says")
    found = probes_of(
        kept.runs, kept.fingerprint, kept.times if times is None else times, kept.why_not
    )
    return msgspec.structs.replace(kept, probes=found)


def _fingerprint(run: Path) -> str | None:
    try:
        data = (run / "verdict.json").read_bytes()
        return msgspec.json.decode(data, type=Verdict).evidence.violation_fingerprint
    except (OSError, ValueError, msgspec.MsgspecError):
        return "none that could be read"


def _wrong(path: Path, why: str) -> EvidenceError:
    return EvidenceError(f"{path}: {why}", remedy="remove its directory and run `dstest blame`")
