"""What a night says of its runs that lies otherwise below it: night.json names the run of each try,
and what that came to. A run that is gone, or that has become another one, is found by it, whoever
looks at the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dstest.core.errors import DstestError
from dstest.core.verdict import State
from dstest.history.layout import RunDir

NIGHT: Final = "night.json"
_FAILED: Final = frozenset(state.value for state in State if state.failed)
_OF_A_RUN: Final = ("segments", "session.json")
_NONE: Final = ("", State.NOT_RUN.value)


class Differing(NamedTuple):
    """A run of a night that is not what night.json says: `what` is the end of a sentence about it,
    `failed` whether it had shown a violation and was no red control."""

    path: Path
    what: str
    failed: bool


def differing(night: Path) -> Iterator[Differing]:
    """The run of each try of a night that is not as it was. Of a night that cannot be read nobody
    knows what it lacks, and that is said."""
    try:
        items = (RunDir(night).read_json(NIGHT) or {})["items"]
        tries = [(item, one) for item in items for one in item["tries"]]
        named = [(item, one, night / one["result"]) for item, one in tries if one.get("result")]
        found = [_differs(item, one, path) for item, one, path in named]
    except (DstestError, AttributeError, KeyError, TypeError, ValueError, OSError):
        yield Differing(night / NIGHT, "it cannot be read: nobody knows which runs it lacks", False)
        return
    yield from (one for one in found if one is not None)


def _differs(item: Mapping[str, Any], one: Mapping[str, Any], path: Path) -> Differing | None:
    """What is wrong with the run of a try."""
    state = (one.get("judged") or {}).get("state") or ""
    red = item["expected"]["control"] == "red"
    failed = state in _FAILED or one["standing"] == "failed"
    came = state or ("a violation" if failed else "")
    said = f"{NIGHT} says that it came to {came}" if came else f"{NIGHT} names it"
    what = ""
    if not any((path / name).exists() for name in _OF_A_RUN):
        what = f"the run is gone; {said}"
    else:
        now, seed = _says(path)
        if seed not in (None, item.get("seed")):
            what = f"it is another run: its seed is {seed}, and {NIGHT} says {item.get('seed')}"
        elif failed and now not in _FAILED:
            what = f"it says {now or 'nothing of a verdict'} now; {said}"
        elif not now and state not in _NONE:
            what = f"it has no verdict any more; {said}"
    return Differing(path, what, failed and not red) if what else None


def _says(path: Path) -> tuple[str, Any]:
    """What a run or session says that it came to, and the seed of a run; nothing of what cannot be
    read."""
    try:
        run = RunDir(path)
        session = run.read_json("session.json")
        if session is not None:
            return str((session.get("verdict") or {}).get("state") or ""), None
        verdict = (run.read_json("verdict.json") or {}).get("verdict")
        seed = ((run.read_json("run.json") or {}).get("spec") or {}).get("seed")
        return str(verdict or ""), seed
    except (DstestError, AttributeError, TypeError, ValueError, OSError):
        return "", None
