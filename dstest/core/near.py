"""What helps with a name that is none of those that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

__all__ = ["ELSEWHERE", "meant"]


ELSEWHERE: Final[Mapping[str, str]] = {
    "append": "list-append",
    "wr": "rw-register",
    "linearizable-register": "cas-register",
    "causal-register": "causal",
    "adya": "g2",
    "kafka": "append-log",
    "broadcast": "set",
    "lin-kv": "cas-register",
    "g-set": "set",
    "g-counter": "counter",
    "pn-counter": "counter",
    "txn-list-append": "list-append",
    "txn-rw-register": "rw-register",
    "knossos": "linearizable",
    "multi-key-acid": "closed-predicate",
}
"""Workloads and checkers of Jepsen and Maelstrom, by their names there."""


def meant(name: str, known: Iterable[str]) -> str:
    """`did you mean a or b? one of a, b, c`, the question only where something is near; where
    nothing is known, that there is none."""
    names = list(known)
    if not names:
        return "leave it out: there is none"
    near = get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}one of {', '.join(names)}"
