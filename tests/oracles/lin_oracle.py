"""Random small histories of objects, and brute force that says whether they are linearizable.

The objects and the brute force are those of `checkers/second`, which share nothing with the
checkers that are tested by them.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from checkers.second import brute
from checkers.second.objects import OBJECTS, object_of
from checkers.second.specimens import PERMITS, draft
from dstest.core.op import Op

__all__ = ["MODELS", "PERMITS", "explains", "loosened", "random_history"]

MODELS = {**OBJECTS, "semaphore": object_of("semaphore", PERMITS)}


def explains(model: str, ops: list[Op]) -> bool:
    """As `brute.explains`, of semaphores of two permits."""
    return bool(brute.explains(model, ops, permits=PERMITS))


def loosened(op: Op) -> Op:
    """The operation, which may now also take effect later than it did, or never."""
    fields = {f: getattr(op, f) for f in Op.__struct_fields__}
    return Op(**fields | {"timeout_marker": True, "complete_ts": None})


def perturb(model: str, op_type: str, output: Any, dice: random.Random, seen: list[Any]) -> Any:
    """Another plausible output."""
    if model == "fencing-lock" and op_type == "acquire":
        return False if output is not False and dice.random() < 0.4 else dice.choice([1, 2, 3])
    told = ("mutex", "reentrant-mutex", "fencing-lock", "semaphore", "set")
    if model in told and not isinstance(output, list):
        return output is False
    if model == "log" and output == []:
        return [[dice.randrange(2), 1]]
    if op_type == "txn":
        rows = [list(r) for r in output]
        row = dice.choice(rows)
        if row[0] == "r":
            row[2] = dice.choice([None, 1, 2])
        return rows
    if isinstance(output, bool):
        return not output
    if isinstance(output, list):
        if op_type == "read" and output and isinstance(output[0], list):
            return dice.choice([output[1:], output[:-1], [[o + 1, v] for o, v in output]])
        return output[1:] or [1]
    silent = {"write", "put", "delete", "append", "enqueue", "push", "insert"}
    silent |= {"push-left", "push-right"}
    if output is None and op_type in silent:
        return None
    return dice.choice([*seen, None] if not isinstance(output, int) else [*seen, output + 1])


def quiet(op_type: str, output: Any, dice: random.Random) -> Any:
    """Successes that need not be told sometimes are not."""
    silent = ("acquire", "release", "add", "remove", "inc", "dec", "append")
    if op_type in silent and output is not False and type(output) is not int:
        return dice.choice([None, output])
    if op_type in ("inc", "dec", "append"):
        return dice.choice([None, output, output]) if output is not None else None
    return output


def random_history(model: str, dice: random.Random, most: int = 7, key: Any = "k") -> list[Op]:
    """Up to `most` operations of a real object at real instants, some results falsified, some
    operations failed or of unknown outcome."""
    few = dice.choice([0, 0, 2, 3])
    spread = dice.choice([1, 3, 6, 12, 30])
    lies = dice.choice([0.0, 0.1, 0.2, 0.4])
    doubt = dice.choice([0.0, 0.1, 0.3])
    run, state = MODELS[model][0], copy.deepcopy(MODELS[model][1])
    ops: list[Op] = []
    seen: list[Any] = [1]
    count = dice.randint(1, most)
    for i in range(count):
        kind, asked = draft(model, dice, i + 1, few)
        process = f"{key}-{dice.randrange(3)}"
        at = 2 * i
        invoke, complete = at - dice.randint(0, spread), at + dice.randint(0, spread)
        fate = dice.random()
        effective = fate >= doubt or (fate < doubt * 0.8 and dice.random() < 0.5)
        probe = Op(op_id=i, process_id=process, invoke_ts=at, op_type=kind, key=key, input=asked)
        if model == "fencing-lock" and kind == "acquire":
            token = state[1] + dice.choice([1, 1, 2])
            probe = Op(
                op_id=i, process_id=process, invoke_ts=at, op_type=kind, key=key, input=token
            )
        after, output = run(state, probe)
        if kind == "read" and model == "log" and output and dice.random() < 0.4:
            output = output[:1]
        if effective:
            state = after
        unknown, failed = fate < doubt * 0.8, doubt * 0.8 <= fate < doubt
        if not unknown and not failed:
            output = quiet(kind, output, dice)
            if dice.random() < lies:
                output = perturb(model, kind, output, dice, seen)
            if type(output) is int:
                seen.append(output)
        ops.append(
            Op(
                op_id=i,
                process_id=process,
                invoke_ts=invoke - (3 * spread if unknown and dice.random() < 0.3 else 0),
                complete_ts=None if unknown else complete,
                op_type=kind,
                key=key,
                input=asked,
                output=None if unknown or failed else output,
                error="refused" if failed else None,
                timeout_marker=unknown,
            )
        )
    return sorted(ops, key=lambda op: op.invoke_ts)
