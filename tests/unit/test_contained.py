"""SystemExit of a plug-in ends a run as any error does: it is cleaned up, and says who it was."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from test_nemesis_loop import Told, loop_of, plan

from dstest.core.answers import in_time
from dstest.core.errors import ConfigError, DstestError, HarnessError
from dstest.core.protocols import OpDraft, Reply
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir
from dstest.history.segment import Succeeded, Unknown
from dstest.runner import session, worker
from dstest.runner.run import Run
from dstest.runner.worker_config import WorkerConfig


async def quits() -> None:
    sys.exit(0)


async def gathers() -> None:
    await asyncio.gather(asyncio.sleep(0), quits())


async def in_a_thread() -> None:
    await asyncio.to_thread(sys.exit, 1)


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(5))
        group.create_task(quits())


async def when_cancelled() -> None:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
    except TimeoutError:
        sys.exit(0)


class Bare(Run):
    """A run whose body is given; its clean-up is noted."""

    def __init__(self, body: Callable[[], Awaitable[None]]) -> None:
        self._given = body
        self._run = RunDir(Path())
        self._meta = cast(RunMeta, SimpleNamespace())
        self.cleaned: list[DstestError | None] = []

    async def _body(self) -> None:
        await self._given()

    async def _clean_up(self, failure: DstestError | None) -> None:
        await asyncio.sleep(0)
        self.cleaned.append(failure)


@pytest.mark.parametrize("body", [quits, gathers, in_a_thread, in_a_group, when_cancelled])
def test_a_run_ends_and_says_who_it_was(body: Callable[[], Awaitable[None]]) -> None:
    failure = session._executed(Bare(body))
    assert isinstance(failure, HarnessError)
    assert "SystemExit: " in failure.message
    assert failure.message.endswith("a plug-in tried to end dstest")


@pytest.mark.parametrize("method", [quits, in_a_thread, when_cancelled])
def test_a_deployment_that_quits_is_cleaned_up(method: Callable[[], Awaitable[None]]) -> None:
    async def asked() -> None:
        await in_time(object(), "healthy", method(), 1.0)

    run = Bare(asked)
    failure = session._executed(run)
    assert isinstance(failure, HarnessError)
    assert run.cleaned == [failure]
    assert "SystemExit: " in failure.message


def test_a_callback_is_in_no_task() -> None:
    async def calls() -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.sleep(5)

    run = Bare(calls)
    failure = session._executed(run)
    assert isinstance(failure, HarnessError)
    assert "SystemExit: 0" in failure.message
    assert len(run.cleaned) == 1


class Quitting(Told):
    """Its first heal, its teardown and its audit want to end the process."""

    async def heal(self, ctx: Any, record: Any) -> Any:
        healed = await super().heal(ctx, record)
        if record.fault_id == "f1":
            sys.exit(0)
        return healed

    async def teardown(self, ctx: Any) -> None:
        sys.exit(0)

    async def audit(self, ctx: Any) -> Any:
        sys.exit(0)


def test_every_step_of_the_clean_up_is_taken() -> None:
    async def main() -> None:
        told = Quitting()
        loop = loop_of(told)
        for name in ("f1", "f2"):
            await loop._inject(plan(name, 0))
        of_heal, of_teardown = await loop.finish()
        assert "SystemExit: 0: a plug-in tried to end dstest" in of_heal
        assert of_teardown == "SystemExit: 0"
        assert told.calls[-2:] == ["heal f1", "heal f2"]
        assert list(loop.standing) == ["f1"]
        assert await loop.audit() == {"cluster": ["leak audit failed: SystemExit: 0"]}

    asyncio.run(main())


class Foretelling(Told):
    """Wants to end the process before its first fault."""

    async def foresee(self, ctx: Any) -> str:
        sys.exit(0)


def test_what_is_only_said_before_the_first_fault_ends_nothing() -> None:
    told = Foretelling()
    asyncio.run(loop_of(told).run([plan("f1", 0)]))
    assert told.calls[0] == "inject f1" and told.calls[-1] == "heal f1"


def operated(
    draft: Any,
    invoke: Callable[[], Any],
    went_to: str | None = None,
    counted: list[bool] | None = None,
) -> list[Any]:
    """What a worker writes of an operation whose client does this; and whether it is `counted` as
    one that went elsewhere."""
    written: list[Any] = []
    counts = [] if counted is None else counted

    class Client:
        seen = went_to

        async def invoke(self, draft: OpDraft, timeout_s: float) -> Any:
            return invoke()

    made = worker.Worker.__new__(worker.Worker)
    nothing = SimpleNamespace(
        invoked=lambda *a: None, completed=lambda *a, elsewhere: counts.append(elsewhere)
    )
    made._config = cast(Any, SimpleNamespace(
        workers=1, worker=0, op_timeout_s=1.0, endpoints=[SimpleNamespace(node="n1")],
        workload="mine",
    ))  # fmt: skip
    made._board = cast(Any, nothing)
    made._next_op, made._clock = 0, cast(Any, SimpleNamespace(now_ns=lambda: 5))
    made._epoch = lambda *a: None  # type: ignore[method-assign]
    made._write = lambda event: not written.append(event)  # type: ignore[method-assign, func-returns-value]
    answer = asyncio.run(made._operation(draft, 0, 0, cast(Any, Client()), 0))
    assert answer.kind == ("ok" if isinstance(written[-1], Succeeded) else "unknown")
    return written


READ = OpDraft("read", "k")


def test_an_operation_that_wants_to_end_its_worker_is_of_unknown_outcome() -> None:
    assert operated(READ, lambda: sys.exit(0))[-1] == Unknown(0, 5, "SystemExit: 0", None)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(float("nan")), "cannot be recorded: the number nan"),
        (Reply([object()]), "cannot be recorded: a object"),
        (Reply(1, 7), "cannot be recorded: 7 as the name of a node"),  # type: ignore[arg-type]
        (5, "AttributeError"),
        (None, "AttributeError"),
    ],
)
def test_a_reply_that_cannot_be_recorded_is_of_unknown_outcome(reply: Any, said: str) -> None:
    last = operated(READ, lambda: reply)[-1]
    assert isinstance(last, Unknown)
    assert said in last.error


def test_a_reply_is_recorded() -> None:
    assert operated(READ, lambda: Reply([1], "n1"))[-1] == Succeeded(0, 5, [1], "n1", None)


@pytest.mark.parametrize(("went_to", "elsewhere"), [(None, False), ("n1", False), ("n2", True)])
def test_an_operation_counts_at_the_node_that_it_went_to(
    went_to: str | None, elsewhere: bool
) -> None:
    counted: list[bool] = []
    operated(READ, lambda: Reply([1], went_to), counted=counted)
    operated(READ, lambda: 1 / 0, went_to, counted)
    assert counted == [elsewhere, elsewhere]


@pytest.mark.parametrize("loading", [True, False])
def test_a_process_that_is_busy_invokes_nothing_until_then(loading: bool) -> None:
    """Nor at all, where the load ends meanwhile: it is not late either."""
    seen: list[tuple[int, int]] = []
    state = {"now_ns": 0, "loading": True}
    made = worker.Worker.__new__(worker.Worker)

    async def operation(
        draft: OpDraft, process: int, node: int, client: Any, late_ns: int, due_ns: int | None
    ) -> Any:
        assert due_ns is None, "nobody planned when"
        seen.append((state["now_ns"], state["now_ns"] - late_ns))
        state["loading"] = False
        return SimpleNamespace(kind="ok")

    def now_ns() -> int:
        state["now_ns"] += 1_000_000
        state["loading"] = bool(state["loading"] and (loading or state["now_ns"] < 10_000_000))
        return state["now_ns"]

    made._config = cast(Any, SimpleNamespace(rate=None, workers=1))
    made._clock = cast(Any, SimpleNamespace(now_ns=now_ns))
    made._loading = lambda: bool(state["loading"])  # type: ignore[method-assign]
    made._draft = lambda *_: OpDraft("release", "k", None, 20_000_000)  # type: ignore[method-assign]
    made._operation = operation  # type: ignore[method-assign, assignment]
    client = cast(Any, SimpleNamespace(close=lambda: asyncio.sleep(0)))
    asyncio.run(made._process(0, 0, client))
    if not loading:
        assert not seen
        return
    ((began_ns, due_ns),) = seen
    assert 21_000_000 <= due_ns <= 23_000_000
    assert due_ns <= began_ns < due_ns + 5_000_000


def test_a_generator_that_gives_what_cannot_be_recorded_is_named() -> None:
    with pytest.raises(ConfigError, match="mine: its generator gave a key that is a tuple"):
        operated(OpDraft("write", ("k",), 1), lambda: Reply(1))  # type: ignore[arg-type]


def test_a_worker_that_is_ended_leaves_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quits_at_once(config: Any) -> Any:
        sys.exit(0)

    config = WorkerConfig(
        worker=0, workers=1, board="", segment="", system="", workload="", capability="", seed=0,
        options={}, endpoints=[], slots=[], concurrency=1, rate=None, op_timeout_s=1.0,
        final_s=20.0, parent_pid=os.getppid(),
    )  # fmt: skip
    (tmp_path / "w.json").write_bytes(msgspec.json.encode(config))
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path / "w.json")])
    monkeypatch.setattr(worker, "Worker", quits_at_once)
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: SimpleNamespace(prctl=lambda *a: 0))
    monkeypatch.setattr(signal, "signal", lambda *a: None)
    with pytest.raises(HarnessError, match=r"test_contained\.py, line \d+: SystemExit: 0"):
        worker.main()
