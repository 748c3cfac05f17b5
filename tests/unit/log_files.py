"""Logs of nodes as files, and what `dstest logs` says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dstest.core.history import FaultWindow
from dstest.core.protocols import LogReader
from dstest.debug.logs.analysis import CHECKS, Extra, LogAnalysis, Options, analyse, checks_named
from dstest.debug.logs.lines import sources_of
from dstest.debug.logs.scene import CheckOutcome, Clocks, Finding, Scene, Windows

__all__ = [
    "CHECKS_NAMES",
    "ORIGIN",
    "SECOND",
    "at",
    "fault",
    "found",
    "looked",
    "looked_at",
    "outcome",
    "written",
]

SECOND = 1_000_000_000
ORIGIN = 1_795_867_200 * SECOND
"""2026-11-28T12:00:00Z."""


def at(second: float) -> str:
    """The stamp of a moment of the run."""
    minutes, rest = divmod(second, 60)
    return f"2026-11-28T12:{int(minutes):02}:{rest:06.3f}Z"


def fault(begin: float, end: float, nodes: Sequence[str], id_: str = "f1") -> FaultWindow:
    """A fault on these nodes that landed, in seconds."""
    return FaultWindow(
        epoch=id_,
        nemesis="partition",
        start_ns=int(begin * SECOND),
        healed_ns=int(end * SECOND),
        until_ns=int(end * SECOND),
        nodes=tuple(nodes),
        landed="yes",
    )


def written(folder: Path, logs: Mapping[str, Sequence[str]]) -> Path:
    """A directory with one for each node."""
    for node, lines in logs.items():
        path = folder / "logs" / node / "server.log"
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return folder / "logs"


def looked(
    folder: Path,
    logs: Mapping[str, Sequence[str]],
    nodes: Sequence[str] = (),
    faults: Sequence[FaultWindow] | None = None,
    reader: LogReader | None = None,
    addresses: Mapping[str, str] | None = None,
) -> LogAnalysis:
    """A look at these lines by node; with faults they are of a run."""
    sources = sources_of([written(folder, logs)])
    declared = list(nodes) or sorted(logs)
    windows = Windows(faults or [], known=faults is not None)
    scene = Scene(declared, windows, addresses or {}, named=bool(nodes))
    clocks = Clocks(ORIGIN, {})
    return analyse(sources, scene, clocks, reader, Options(CHECKS), Extra())


def looked_at(files: Sequence[Path]) -> LogAnalysis:
    """A look at files, of nobody's run."""
    sources = sources_of(files)
    scene = Scene([one.node for one in sources], Windows([], known=False), {}, named=False)
    return analyse(sources, scene, Clocks(None, {}), None, Options(CHECKS), Extra())


def outcome(made: LogAnalysis, check: str) -> CheckOutcome:
    """What this check came to."""
    assert checks_named([check])
    return next(one for one in made.outcomes if one.check == check)


def found(made: LogAnalysis, check: str) -> list[Finding]:
    """Its findings; it has to have looked at something."""
    one = outcome(made, check)
    assert not one.not_evaluated, one.not_evaluated
    return one.findings


CHECKS_NAMES = [check.id for check in CHECKS]
