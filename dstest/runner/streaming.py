"""Judging a run while it runs: `--stop-on-violation` ends it at the first proven violation.

    python -m dstest.runner.streaming < JOB.json       one look, by one checker

Every few seconds a child of low priority folds the segments as they are, cuts them at an instant
that every worker has surely written up to, and asks the checker. What was begun before the cut and
had not ended is of unknown outcome there; what began after it is left out. A violation of such a
part is one of the whole run for checkers that are closed under prefixes, and only those are asked:
whether something is lost at the end cannot be known before.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.clock import RunClock
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.judge.budgeted import budgeted
from dstest.store.seal import fold

__all__ = ["PREFIX_CLOSED", "Look", "main", "prefix", "watch_for_violation"]

PREFIX_CLOSED: Final = frozenset(
    {
        *("bank", "causal", "causal-reverse", "counter-bounds", "exclusion", "kafka"),
        *("linearizable", "list-append", "long-fork", "order", "rw-register", "sessions"),
        *("set-full", "unique-ids", "watch"),
    }
)
"""Checkers for which a violation in a part up to some instant is a violation of the whole."""

MARGIN_NS: Final = 1_000_000_000
"""An event is written right after it is stamped; a worker that is this late is found hanging."""

PERIOD_S: Final = 4.0
REST: Final = 3.0
"""Looks get rarer as they get longer: a rest of so many times the last look's duration."""

LOOK_S: Final = 60.0


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the segments, cut at run time `cut_ns`."""

    segments: str
    checker: str
    model: str
    cut_ns: int
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def prefix(ops: list[Op], cut_ns: int) -> list[Op]:
    """What was known at `cut_ns`: later operations are left out, unfinished ones are unknown."""
    kept = []
    for op in ops:
        if op.invoke_ts > cut_ns:
            continue
        if op.complete_ts is not None and op.complete_ts > cut_ns:
            op = msgspec.structs.replace(
                op,
                complete_ts=None,
                output=None,
                error="unfinished",
                timeout_marker=True,
                node_seen=None,
            )
        kept.append(op)
    return kept


async def watch_for_violation(
    segments: Path, names: list[str], model: str, options: dict[str, Any], clock: RunClock
) -> str:
    """Look again and again; returns what was found, and only then."""
    pause_s = PERIOD_S
    while True:
        await asyncio.sleep(pause_s)
        began_ns = clock.now_ns()
        for name in names:
            checker = registry.load("checkers", name)
            own = model if model in checker.models else checker.models[0]
            cut_ns = clock.now_ns() - MARGIN_NS
            look = Look(
                segments=str(segments), checker=name, model=own, cut_ns=cut_ns, options=options
            )
            result = await _look(look)
            if result is not None and result.valid is False:
                kinds = ", ".join(result.anomaly_types)
                return f"{name} found {kinds} up to {cut_ns / 1e9:.1f} s"
        pause_s = max(PERIOD_S, REST * (clock.now_ns() - began_ns) / 1e9)


async def _look(look: Look) -> CheckResult | None:
    """The answer of a child; None where it gave none, which proves nothing."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dstest.runner.streaming"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        out, _ = await child.communicate(msgspec.json.encode(look))
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode != 0:
        return None
    try:
        return msgspec.json.decode(out, type=CheckResult)
    except msgspec.DecodeError:
        return None


def main() -> None:
    """Entry of the child: a Look on stdin, a CheckResult on stdout."""
    os.nice(10)
    look = msgspec.json.decode(sys.stdin.buffer.read(), type=Look)
    ops = prefix(fold(Path(look.segments)).ops, look.cut_ns)
    history = History(header=Header(options=look.options), ops=ops)
    checker = registry.load("checkers", look.checker)
    result = budgeted(checker, history, look.model, Budget(time_s=LOOK_S))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
