"""Judging a run while it runs: `--stop-on-violation` ends it at the first proven violation.

    python -m dstest.runner.streaming       looks as JSON lines on stdin, results as lines on stdout

A child of low priority per checker reads the segments on (`following.py`). Every few seconds it is
asked for a look: it cuts what there is at an instant that all workers have surely written up to,
and asks the checker. What was begun before the cut and had not ended is of unknown outcome there;
what began after it is left out. A violation of such a part is one of the whole run for checkers
that are closed under prefixes (`CheckerTraits`), and only those are asked: whether something is
lost at the end cannot be known before.
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
from dstest.core.own_stdout import take_stdout
from dstest.core.parent import end_with_parent
from dstest.core.protocols import CheckerTraits
from dstest.judge.budgeted import budgeted
from dstest.runner.following import Following

MARGIN_NS: Final = 1_000_000_000
"""An event is written right after it is stamped; a worker that is this late is found hanging."""

PERIOD_S: Final = 4.0
REST: Final = 3.0
"""Looks get rarer as they get longer: a rest of so many times the last look's duration."""

LOOK_S: Final = 60.0
_ANSWER_S: Final = 2 * LOOK_S + 60.0
_LINE_BYTES_MAX: Final = 1 << 26


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the segments, cut at run time `cut_ns`. A child is for one set of segments and
    one checker: those of its first look."""

    segments: str
    checker: str
    model: str
    cut_ns: int
    options: dict[str, Any] = msgspec.field(default_factory=dict)


async def watch_for_violation(
    segments: Path, names: list[str], model: str, options: dict[str, Any], clock: RunClock
) -> str:
    """Look again and again; returns what was found, and only then."""
    children = {name: _Child() for name in names}
    pause_s = PERIOD_S
    try:
        while True:
            await asyncio.sleep(pause_s)
            began_ns = clock.now_ns()
            for name, child in children.items():
                checker = registry.load("checkers", name)
                own = model if model in checker.models else checker.models[0]
                cut_ns = clock.now_ns() - MARGIN_NS
                look = Look(
                    segments=str(segments), checker=name, model=own, cut_ns=cut_ns, options=options
                )
                result = await child.ask(look)
                if result is not None and result.valid is False:
                    kinds = ", ".join(sorted(result.kinds))
                    return f"{name} found {kinds} up to {cut_ns / 1e9:.1f} s"
            pause_s = max(PERIOD_S, REST * (clock.now_ns() - began_ns) / 1e9)
    finally:
        for child in children.values():
            await child.end()


class _Child:
    """The process that looks for one checker; a new one where the last one gave no answer."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, look: Look) -> CheckResult | None:
        """The answer to a look; None where there was none, which proves nothing."""
        process = self._process or await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dstest.runner.streaming"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_BYTES_MAX,
        )
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(_ANSWER_S):
                process.stdin.write(msgspec.json.encode(look) + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
            return msgspec.json.decode(line, type=CheckResult)
        except (OSError, ValueError, TimeoutError, msgspec.DecodeError):
            await self.end()
            return None

    async def end(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process = None


def main() -> None:
    """Entry of the child: looks on stdin, a CheckResult per look on stdout."""
    os.nice(10)
    end_with_parent()
    following: Following | None = None
    answer = os.fdopen(take_stdout(), "wb")
    for line in sys.stdin.buffer:
        look = msgspec.json.decode(line, type=Look)
        checker = registry.load("checkers", look.checker)
        if following is None:
            following = Following(Path(look.segments), keyed=CheckerTraits.of(checker).keyed)
        history = History(header=Header(options=look.options), ops=following.look(look.cut_ns))
        result = budgeted(checker, history, look.model, Budget(time_s=LOOK_S))
        answer.write(msgspec.json.encode(result) + b"\n")
        answer.flush()


if __name__ == "__main__":
    main()
