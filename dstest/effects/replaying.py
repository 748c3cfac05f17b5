"""The effects done again in their order: does each give what the servers say it gave?

Replay equivalence (discipline 5.2 section 3): from the state at the beginning, by an object in plain
Python (`checkers/second/objects.py`), key by key. Effects of types that the object does not know
leave their key out; a result of null, which a server need not tell, agrees with success.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from checkers.second.objects import OBJECTS, object_of, told
from dstest.core.op import Op
from dstest.core.protocols import Effect
from dstest.effects.pairing import Mismatch

__all__ = ["REPLAYED", "Replay", "replayed"]

REPLAYED: Final = "not-what-a-replay-gives"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """`effects` were done again on `keys`; `left_out` says why others were not."""

    mismatches: list[Mismatch]
    effects: int
    keys: int
    left_out: str


def replayed(effects: Iterable[Effect], model: str) -> Replay:
    """Do them again. Each key is left at the first effect that gives something else."""
    if model not in OBJECTS:
        return Replay(mismatches=[], effects=0, keys=0, left_out=f"no object is a {model}")
    run, start = object_of(model)
    states: dict[str, Any] = {}
    wrong: dict[str, Mismatch] = {}
    number = 0
    for effect in effects:
        key = str(effect.key)
        if effect.refused or key in wrong:
            continue
        op = _op(effect)
        try:
            state, output = run(states.get(key, copy.deepcopy(start)), op)
        except (TypeError, ValueError, LookupError):
            return Replay(
                mismatches=[],
                effects=0,
                keys=0,
                left_out=f"a {model} knows no {effect.op_type} of {effect.input!r}",
            )
        number += 1
        states[key] = state
        if not _agrees(model, op, output, effect.result):
            wrong[key] = Mismatch(
                kind=REPLAYED,
                key=effect.key,
                op_ids=[],
                places=[effect.index],
                said=(
                    f"{effect.op_type} {effect.input!r} on key {effect.key!r} at place"
                    f" {effect.index} gives {output!r}, the servers say {effect.result!r}"
                ),
            )
    return Replay(mismatches=list(wrong.values()), effects=number, keys=len(states), left_out="")


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
    if output is None or recorded is None:
        # Of what changes a value and tells nothing, there is nothing to compare.
        return output is None and (recorded is None or op.op_type in ("write", "enqueue"))
    return told(model, op, output, recorded)
