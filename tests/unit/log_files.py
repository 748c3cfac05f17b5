"""Logs of nodes as files, and what `dstest logs` says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dstest.core.protocols import LogReader
from dstest.logs.catalogue import CHECKS, chosen
from dstest.logs.clocks import Clocks
from dstest.logs.findings import Finding, Outcome
from dstest.logs.look import Asked, Extra, Look, look
from dstest.logs.scene import Scene
from dstest.logs.sources import sources_of
from dstest.logs.windows import Window, Windows

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


def fault(
    begin: float, end: float, nodes: Sequence[str], explains: Sequence[str] = (), id_: str = "f1"
) -> Window:
    """A fault on these nodes, in seconds."""
    return Window(
        id=id_,
        nemesis="partition",
        start_ns=int(begin * SECOND),
        healed_ns=int(end * SECOND),
        until_ns=int(end * SECOND),
        nodes=frozenset(nodes),
        explains=frozenset(explains),
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
    faults: Sequence[Window] | None = None,
    reader: LogReader | None = None,
    addresses: Mapping[str, str] | None = None,
) -> Look:
    """A look at these lines by node; with faults they are of a run."""
    sources = sources_of([written(folder, logs)])
    declared = list(nodes) or sorted(logs)
    windows = Windows(faults or [], known=faults is not None)
    scene = Scene(declared, windows, addresses or {}, named=bool(nodes))
    clocks = Clocks(ORIGIN, {})
    return look(sources, scene, clocks, reader, Asked(CHECKS), Extra())


def looked_at(files: Sequence[Path]) -> Look:
    """A look at files, of nobody's run."""
    sources = sources_of(files)
    scene = Scene([one.node for one in sources], Windows([], known=False), {}, named=False)
    return look(sources, scene, Clocks(None, {}), None, Asked(CHECKS), Extra())


def outcome(made: Look, check: str) -> Outcome:
    """What this check came to."""
    assert chosen([check])
    return next(one for one in made.outcomes if one.check == check)


def found(made: Look, check: str) -> list[Finding]:
    """Its findings; it has to have looked at something."""
    one = outcome(made, check)
    assert not one.not_evaluated, one.not_evaluated
    return one.findings


CHECKS_NAMES = [check.name for check in CHECKS]
