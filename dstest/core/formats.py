"""The notations of histories that `dstest check` reads: the one list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

AUTO: Final = "auto"
"""Asks for looking at a file's first bytes."""

_ALL: Final = "all"
_TXNS: Final = "transactions on registers"


class Notation(NamedTuple):
    """Who writes it, and what it holds; `sessions` are read as such (checkers/txn/sessions).
    `binary`: some of its files are no text."""

    written_by: str
    objects: str
    sessions: bool = False
    binary: bool = False


FORMATS: Final[Mapping[str, Notation]] = {
    "dstest": Notation("`dstest run`, `dstest generate`", _ALL),
    "edn": Notation("Jepsen, `dstest export`, Porcupine's key-value logs", _ALL),
    "json": Notation("Jepsen, `dstest export`", _ALL),
    "log": Notation("Jepsen's log, its `history.txt`", _ALL),
    "plume": Notation("Plume, PolySI, IsoVista", _TXNS, sessions=True),
    "dbcop": Notation("DBCop, old and new", _TXNS, sessions=True, binary=True),
    "cobra": Notation("Cobra", _TXNS, sessions=True, binary=True),
    "awdit": Notation("AWDIT", _TXNS, sessions=True),
}

OPERATIONS: Final = tuple(name for name, notation in FORMATS.items() if not notation.sessions)
SESSIONS: Final = tuple(name for name, notation in FORMATS.items() if notation.sessions)

REMEDY: Final = (
    "give a history of ours (.jsonl), of Jepsen's (EDN, JSON or a log), or sessions of "
    f"{', '.join(SESSIONS)}; or name the notation with --format {'|'.join([AUTO, *FORMATS])}"
)


def binary() -> str:
    """What helps with a file that is no text and in no known notation."""
    asked = " or ".join(f"--format {name}" for name, notation in FORMATS.items() if notation.binary)
    return f"where it is one of them after all: {asked}; else {REMEDY}"
