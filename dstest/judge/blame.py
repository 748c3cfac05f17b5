"""Whose fault a violation is, as far as the probes that were run can tell (discipline 3.1).

A wrong guess is worse than none: without results of the probes that speak for the system the answer
is `unknown - pending: generator swap, host events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from dstest.core.evidence import BlameProbe, Evidence

LINTS: Final = "history lints"
SELF_TEST: Final = "checker self-test"
INDEPENDENT: Final = "independent checker"
RELAXED: Final = "documented relaxation"
SWAP: Final = "generator swap"
HOST_EVENTS: Final = "host events"
QUIET: Final = "replay on a quiet host"

Who = Literal["harness", "checker", "environment"]


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
        who="checker",
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
"""By name, in the order in which they are asked (discipline 3.1)."""

SUT: Final = "SUT"
_UNKNOWN: Final = "unknown"

CLASSES: Final[Mapping[str, str]] = {
    SUT: "the system under test did it: each probe that speaks for the system has a result, and "
    "none has fired",
    "harness": "the test did it, by its client or its records, and not the system",
    "checker": "the judge is wrong about this history, and not the system",
    "environment": "the host that the test ran on did it, and not the system",
    _UNKNOWN: "nobody can tell yet whose fault it is: these probes have no result",
}
"""What each blame says."""


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


NOT_SIMULATED: Final = BlameProbe(said="does not apply to a simulation")


def _not_run(about: About) -> BlameProbe:
    said = "not run: `dstest blame` does, on nodes" if about.cluster else "not run"
    return BlameProbe(said=said)


def _pending(found: Mapping[str, BlameProbe], names: Iterable[str]) -> list[str]:
    return [name for name in names if found[name].fired is None]
