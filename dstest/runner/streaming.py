"""Judging a run while it runs: `--stop-on-violation` ends it at the first proven violation.

    python -m dstest.runner.streaming       looks as JSON lines on stdin, results as lines on stdout

A child of low priority per checker reads the segments on, from where they were left (`Following`).
Every few seconds it is asked for a look: it cuts what there is at an instant that all workers have
surely written up to, and asks the checker. What was begun before the cut and had not ended is of
unknown outcome there; what began after it is left out. A violation of such a part is one of the
whole run for checkers that are closed under prefixes (`Checker`), and only those are asked:
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
from dstest.core.processes import end_with_parent, take_stdout
from dstest.history.segment import Completion, Event, Invoked, event_of, operation, text_of
from dstest.judge.checker_answers import bounded_answer

IDLE_NS: Final = 120_000_000_000
"""A key without news for so long is forgotten."""

OPS_MAX: Final = 2_000_000
"""Operations kept for a checker of whole histories; a longer run is judged at its end alone."""

MARGIN_NS: Final = 1_000_000_000
"""An event is written right after it is stamped; a worker that is this late is found hanging."""

PERIOD_S: Final = 4.0

REST: Final = 3.0
"""Looks get rarer as they get longer: a rest of so many times the last look's duration."""

LOOK_S: Final = 60.0
_ANSWER_S: Final = 2 * LOOK_S + 60.0
_LINE_BYTES_MAX: Final = 1 << 26


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


class _Tail:
    """One segment, read as far as its last whole line.

    A line may be seen while it is written. One whose checksum does not match is waited for; it is
    damaged, and left out, when it is still there at the next look and whole lines follow it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._waited_for: int | None = None

    def read(self) -> list[Event]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        lines = data.split(b"\n")[:-1]
        while lines and text_of(lines[-1]) is None:
            lines.pop()
        events = []
        for line in lines:
            text = text_of(line)
            if text is None and self._waited_for != self._offset:
                self._waited_for = self._offset
                break
            self._offset += len(line) + 1
            if text is not None and (event := event_of(text)) is not None:
                events.append(event)
        return events


class Following:
    """The operations of a run's segments so far. `keyed`: each key is judged alone.

    Checkers that judge each key alone are given only the keys in which something happened since the
    last look, each with all its operations; a key in which nothing has happened for a while is
    forgotten, and what comes later in it is left to the judgement after the run. So a look costs
    what was done since the last one, however long the run. Other checkers are given everything, up
    to a bound.
    """

    def __init__(self, segments: Path, *, keyed: bool) -> None:
        self._segments = segments
        self._keyed = keyed
        self._tails: dict[Path, _Tail] = {}
        self._invokes: dict[int, Invoked] = {}
        self._done: dict[int, Completion] = {}
        self._of_key: dict[str, list[int]] = {}
        self._news_ns: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self._ahead: list[tuple[int, str]] = []

    def _name(self, key: Any) -> str:
        return repr(key) if self._keyed else ""

    def _read(self) -> None:
        for path in sorted(self._segments.glob("*.seg")):
            for event in self._tails.setdefault(path, _Tail(path)).read():
                if isinstance(event, Invoked):
                    name = self._name(event.key)
                    if name in self._forgotten:
                        continue
                    self._invokes[event.op_id] = event
                    self._of_key.setdefault(name, []).append(event.op_id)
                    self._ahead.append((event.time_ns, name))
                elif isinstance(event, Completion) and event.op_id in self._invokes:
                    self._done[event.op_id] = event
                    self._ahead.append((event.time_ns, self._name(self._invokes[event.op_id].key)))

    def look(self, cut_ns: int) -> list[Op]:
        """Operations as known at run time `cut_ns`, by invocation: of the keys with something new
        since the last look, or all of them. Empty where there is nothing new, or too much."""
        self._read()
        fresh = {name for at_ns, name in self._ahead if at_ns <= cut_ns} - self._forgotten
        self._ahead = [(at_ns, name) for at_ns, name in self._ahead if at_ns > cut_ns]
        for name in fresh:
            self._news_ns[name] = cut_ns
        if not self._keyed and len(self._invokes) > OPS_MAX:
            self._forget("")
            return []
        ops = [
            operation(self._invokes[op_id], self._done.get(op_id), None)
            for name in fresh
            for op_id in self._of_key.get(name, ())
        ]
        for name, news_ns in list(self._news_ns.items()):
            if self._keyed and news_ns < cut_ns - IDLE_NS:
                self._forget(name)
        ops.sort(key=lambda op: (op.invoke_ts, op.op_id))
        return prefix(ops, cut_ns)

    def _forget(self, name: str) -> None:
        self._forgotten.add(name)
        self._news_ns.pop(name, None)
        for op_id in self._of_key.pop(name, ()):
            self._invokes.pop(op_id, None)
            self._done.pop(op_id, None)


class StreamCheck(msgspec.Struct, frozen=True, kw_only=True):
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
                look = StreamCheck(
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

    async def ask(self, look: StreamCheck) -> CheckResult | None:
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
        look = msgspec.json.decode(line, type=StreamCheck)
        checker = registry.load("checkers", look.checker)
        if following is None:
            following = Following(Path(look.segments), keyed=checker.keyed)
        history = History(header=Header(options=look.options), ops=following.look(look.cut_ns))
        result = bounded_answer(checker, history, look.model, Budget(time_s=LOOK_S))
        answer.write(msgspec.json.encode(result) + b"\n")
        answer.flush()


if __name__ == "__main__":
    main()
