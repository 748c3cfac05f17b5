"""Whose fault a violation is, as far as the probes that were run can tell, and what `dstest blame`
keeps of them beside a run, in `RUN.blame/probes.json`.

A wrong guess is worse than none: without results of the probes that speak for the system the answer
is `unknown - pending: generator swap, host events`. The run itself is sealed and stays as it is. A
probe that needs a cluster is a number of runs; the file names them, and what they say is asked of
them again whenever it is read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.errors import EvidenceError
from dstest.core.evidence import BlameProbe, Evidence
from dstest.core.verdict import Verdict
from dstest.history.layout import Distinct

LINTS: Final = "history lints"
SELF_TEST: Final = "checker self-test"
INDEPENDENT: Final = "independent checker"
RELAXED: Final = "documented relaxation"
SWAP: Final = "generator swap"
HOST_EVENTS: Final = "host events"
QUIET: Final = "replay on a quiet host"

Who = Literal["harness", "checker", "environment", "settings"]

SUT: Final = "SUT"
_UNKNOWN: Final = "unknown"

CLASSES: Final[Mapping[str, str]] = {
    SUT: "the system under test did it: each probe that speaks for the system has a result, and "
    "none has fired",
    "harness": "the test did it, by its client or its records, and not the system",
    "checker": "the judge is wrong about this history, and not the system",
    "environment": "the host that the test ran on did it, and not the system",
    "settings": "the system keeps what it promises with the settings of the run, and that is less "
    "than the run was held to",
    _UNKNOWN: "nobody can tell yet whose fault it is: these probes have no result",
}
"""What each blame says."""

NOT_SIMULATED: Final = BlameProbe(said="does not apply to a simulation")

PROBES_FILE: Final = "probes.json"
SCHEMA: Final = "dstest.blame/1"

Asked = Literal["again", "swap"]

GONE: Final = 0.05
"""So improbable may it be that a violation which comes at its rate was missed by chance."""

UNKNOWN_RATE: Final = 0.3
"""How often a violation is held to come, where it came in no run but the first."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """One probe. `who` is to blame where it fires and all of `beside` have fired as well.

    `for_sut`: without its result nothing is said of the system. `asks`: what it looks at.
    `cluster`: it needs one, and is run by `dstest blame`. `simulated`: it has a meaning where nodes
    are simulated, which no event of the host reaches, and which have one client.
    """

    who: Who
    asks: str
    beside: tuple[str, ...] = ()
    for_sut: bool = False
    cluster: bool = False
    simulated: bool = True


PROBES: Final[Mapping[str, About]] = {
    LINTS: About(
        who="harness",
        asks="does the record contradict itself, was something sent again unseen (H16), did the "
        "system refuse a hundredth of the operations as malformed?",
        for_sut=True,
    ),
    SELF_TEST: About(
        who="checker",
        asks="does the checker flag a history that is right, or accept one that is wrong?",
        for_sut=True,
    ),
    INDEPENDENT: About(
        who="checker",
        asks="does a slow second judge, and brute force on the witness, find nothing wrong?",
    ),
    RELAXED: About(
        who="settings",
        asks="is it in order by the weaker model that the system documents?",
    ),
    QUIET: About(
        who="environment",
        asks="is it gone where the same run is made again on a host without such events?",
        beside=(HOST_EVENTS,),
        cluster=True,
        simulated=False,
    ),
    SWAP: About(
        who="harness",
        asks="is it gone where the same operations come through a second client?",
        for_sut=True,
        cluster=True,
        simulated=False,
    ),
    HOST_EVENTS: About(
        who="environment",
        asks="did something happen to the control host within two seconds of it?",
        beside=(QUIET,),
        for_sut=True,
        simulated=False,
    ),
}
"""By name, in the order in which they are asked."""


def blame(evidence: Evidence, more: Mapping[str, BlameProbe] | None = None) -> str | None:
    """`harness`, `checker`, `environment`, `SUT` or `unknown - pending: ...`; None without cause.

    `more` are results of probes that were run apart, which count beside those of the evidence.
    """
    if evidence.history_lint.corrupt or "H16" in evidence.history_lint.weak:
        return "harness"
    if not (evidence.violation or evidence.checker.result == "violation"):
        return None
    found = results(evidence, more)
    fired = {name for name, probe in found.items() if probe.fired}
    for name, about in PROBES.items():
        if name in fired and fired.issuperset(about.beside):
            return about.who
    needed = [name for name, about in PROBES.items() if about.for_sut]
    if evidence.symptom is not None and evidence.symptom.documented:
        needed.append(RELAXED)  # whether the system broke what it promises is not known without
    if HOST_EVENTS in fired:
        # A host that was disturbed is out of it where the violation came again on a quiet one.
        needed.append(QUIET)
    if not _pending(found, needed):
        return SUT
    wanted = [name for name in PROBES if name != QUIET or HOST_EVENTS in fired]
    return f"{_UNKNOWN} - pending: {', '.join(_pending(found, wanted))}"


def results(
    evidence: Evidence, more: Mapping[str, BlameProbe] | None = None
) -> dict[str, BlameProbe]:
    """All probes by name, those without a result included."""
    given = {**evidence.probes, **(more or {})}
    canary = evidence.checker
    if SELF_TEST not in given and canary.canary_total and not canary.canary_killed:
        said = f"none of {canary.canary_total} broken copies of the run was rejected"
        given[SELF_TEST] = BlameProbe(fired=True, said=said)
    in_process = evidence.transport != "network"
    return {
        name: NOT_SIMULATED
        if in_process and not about.simulated
        else given.get(name, _not_run(about))
        for name, about in PROBES.items()
    }


def _not_run(about: About) -> BlameProbe:
    said = "not run: `dstest blame` does, on nodes" if about.cluster else "not run"
    return BlameProbe(said=said)


def _pending(found: Mapping[str, BlameProbe], names: Iterable[str]) -> list[str]:
    return [name for name in names if found[name].fired is None]


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
