"""What each anomaly means to somebody who has never heard of it: `static/anomalies.toml` as data.

A checker of one's own says it by its `means` (`dstest.core.protocols.Checker`), which
comes before the table. What an anomaly carries as data (`culprit`, `stuck`, `overlap_ns`) is read
back from sentences in runs that were judged before it did, and of checkers of others, which have
these alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from dstest.core import registry
from dstest.core.check import Anomaly, Stuck
from dstest.core.op import Op
from dstest.core.protocols import Checker

_ENDINGS: Final = ("process", "realtime", "item", "cycle-exists")


class Meaning(NamedTuple):
    """`did` follows the system's name in a sentence, `means` is a paragraph. `told`: somebody has
    written this for the anomaly; where not, the texts say only that it was found. `shape` is what
    its moment is told by (`dstest.report.places`)."""

    did: str
    means: str
    told: bool = True
    shape: str = ""


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    text = files("dstest.report").joinpath("static/anomalies.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    return found


def table_meaning(name: str) -> Meaning | None:
    """What the table says of an anomaly, put together where its name is; None where nothing."""
    rows, endings = _table(), _table()["endings"]
    added: list[str] = []
    base = name
    while base not in rows or base == "endings":
        ending = next((e for e in _ENDINGS if base.endswith(f"-{e}")), None)
        if ending is None:
            return None
        base = base.removesuffix(f"-{ending}")
        added.append(endings[ending])
    row = rows[base]
    means = " ".join([row["means"], *added])
    return Meaning(row["did"], means, shape=row.get("shape", ""))


def told_names() -> list[str]:
    """Anomalies that the table has, by name."""
    return sorted({*_table()} - {"endings"}, key=str.lower)


def endings() -> Mapping[str, str]:
    """What an ending of a name adds."""
    return _table()["endings"]


def mistyped(name: str) -> list[str]:
    """Names of anomalies of ours that this one, which is none, looks like."""
    return [] if table_meaning(name) else get_close_matches(name, {*_table()} - {"endings"}, n=3)


def gravity(checker: str, name: str) -> int:
    """How many models forbid this anomaly, as far as its checker says so."""
    return int(registry.known("checkers", checker).forbidden_by(name))


def meaning_of(checker: str, name: str) -> Meaning:
    """The meaning of an anomaly that `checker` has found."""
    own: Checker = registry.known("checkers", checker)
    if text := own.means.get(name):
        did = own.did.get(name, f"broke what {checker} demands: {name}")
        found = table_meaning(name)
        return Meaning(did, text, shape=found.shape if found else "")
    return table_meaning(name) or Meaning(
        f"broke what {checker} demands: {name}",
        f"{name} is a name that {checker} gives; its documentation says what it demands.",
        told=False,
    )


_NEXT: Final = re.compile(
    r"(?:There the (?P<object>[\w -]+) can(?: \w+)?: (?P<held>[^.]*)\. )?"
    r"Next completes (?P<what>.+?) \(op (?P<op>[^,)]+), process [^)]*\): (?P<why>it needs [^.]*)\."
)
"""How the linearizability checker says which answer cannot be, and what could have been."""

_HELD: Final = re.compile(r"\bfor (?P<ms>\d+(?:\.\d+)?) ms\b|\b(?P<on>from then on)\b")
"""How long two held something at one time."""


def stuck_of(anomaly: Anomaly) -> Stuck | None:
    """Why no order has a place for the answer that gave it away; None where nobody said so."""
    if anomaly.stuck is not UNSET:
        return anomaly.stuck
    found = _NEXT.search(anomaly.explanation)
    if found is None:
        return None
    return Stuck(needs=found["why"], noun=found["object"] or "", held=found["held"] or "")


def culprit_of(anomaly: Anomaly, ops: Sequence[Op]) -> int | str | None:
    """The one of `ops` whose answer cannot be, as far as it is named; None where it is not."""
    by_id = {str(op.op_id): op.op_id for op in ops}
    if anomaly.culprit is not UNSET:
        return by_id.get(str(anomaly.culprit))
    found = _NEXT.search(anomaly.explanation)
    if found is not None and found["op"] in by_id:
        return by_id[found["op"]]
    return None


def lasted_ns(anomaly: Anomaly) -> float | None:
    """How long two held something at one time, infinite where to the end of the run; None where
    nothing is said of that."""
    found = _HELD.search(anomaly.explanation)
    if found is None:
        return None
    return float("inf") if found["on"] else float(found["ms"]) * 1e6
