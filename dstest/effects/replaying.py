"""The effects done again in their order: does each give what the servers say it gave?

Replay equivalence (discipline 5.2 section 3): from the state at the beginning, by an object in
plain Python (`checkers/second/objects.py`), key by key. Types that have no such object are left
out; a result of null, which a server need not tell, agrees with success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from checkers.second.objects import object_of, told
from dstest.core.op import Op
from dstest.core.protocols import Effect
from dstest.effects.pairing import Mismatch

REPLAYED: Final = "not-what-a-replay-gives"
_TELL_NOTHING: Final = frozenset({"write", "enqueue"})


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """`effects` were done again on `keys`; `left_out` are others, by what they are."""

    mismatches: list[Mismatch]
    effects: int
    keys: int
    left_out: dict[str, int]


def replayed(effects: Iterable[Effect], objects: Mapping[str, str]) -> Replay:
    """Do them again; `objects` has by type what does it. Each key is left at the first effect that
    gives something else."""
    states: dict[tuple[str, str], Any] = {}
    wrong: dict[tuple[str, str], Mismatch] = {}
    left_out: Counter[str] = Counter()
    number = 0
    for effect in effects:
        model = objects.get(effect.op_type)
        if model is None:
            left_out[effect.op_type] += 1
            continue
        where = (model, str(effect.key))
        if effect.refused or where in wrong:
            continue
        run, start = object_of(model)
        op = _op(effect)
        try:
            state, output = run(states.get(where, start), op)
        except (TypeError, ValueError, LookupError):
            left_out[f"{effect.op_type} of {effect.input!r}"] += 1
            continue
        number += 1
        states[where] = state
        if not _agrees(model, op, output, effect.result):
            wrong[where] = _mismatch(effect, output)
    return Replay(
        mismatches=list(wrong.values()),
        effects=number,
        keys=len(states),
        left_out=dict(left_out.most_common(8)),
    )


def _mismatch(effect: Effect, output: Any) -> Mismatch:
    return Mismatch(
        kind=REPLAYED,
        key=effect.key,
        op_ids=[],
        places=[effect.index],
        said=(
            f"{effect.op_type} {effect.input!r} on key {effect.key!r} at place {effect.index}"
            f" gives {output!r}, the servers say {effect.result!r}"
        ),
    )


def _op(effect: Effect) -> Op:
    return Op(
        op_id=effect.index,
        process_id=0,
        invoke_ts=effect.index,
        complete_ts=effect.index,
        op_type=effect.op_type,
        key=effect.key,
        input=effect.input,
        output=effect.result,
        error=None,
        timeout_marker=False,
        node_seen=None,
        fault_epoch=None,
    )


def _agrees(model: str, op: Op, output: Any, recorded: Any) -> bool:
    """Of what changes a value and tells nothing, there is nothing to compare."""
    return (output is None and op.op_type in _TELL_NOTHING) or told(model, op, output, recorded)
