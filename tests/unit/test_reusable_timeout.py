"""A wait that takes too long is ended, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from dstest.core.reusable_timeout import ReusableTimeout

pytestmark = pytest.mark.slow

LONG_S = 60.0


Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """On the loop of the control process, and on that of a load worker."""

    def act_within(act: Awaitable[Any]) -> Any:
        async def within() -> Any:
            return await asyncio.wait_for(act, 20.0)

        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(within())

    return act_within


def test_what_hangs_is_ended_and_the_task_goes_on(run: Run) -> None:
    async def process() -> list[str]:
        timeout, said = ReusableTimeout(), []
        for _ in range(3):
            with pytest.raises(TimeoutError) as error:
                await timeout.wait_for(asyncio.sleep(LONG_S), 0.1)
            said.append(str(error.value))
        await asyncio.sleep(0.2)
        return said

    assert run(process()) == ["not done within 0.1 s"] * 3


def test_what_ends_in_time_is_left_alone(run: Run) -> None:
    async def process() -> list[int]:
        timeout = ReusableTimeout()
        return [await timeout.wait_for(asyncio.sleep(0.01, result=n), 20.0) for n in range(20)]

    assert run(process()) == list(range(20))


@pytest.mark.parametrize("first_s", [0.3, LONG_S])
def test_a_wait_has_its_own_time_whatever_the_one_before_it_had(first_s: float, run: Run) -> None:
    async def process() -> float:
        timeout, loop = ReusableTimeout(), asyncio.get_running_loop()
        await timeout.wait_for(asyncio.sleep(0), first_s)
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await timeout.wait_for(asyncio.sleep(LONG_S), 0.5)
        return loop.time() - began_s

    assert run(process()) >= 0.5


def test_nothing_is_cancelled_between_two_waits(run: Run) -> None:
    async def process() -> int:
        timeout = ReusableTimeout()
        await timeout.wait_for(asyncio.sleep(0), 0.05)
        await asyncio.sleep(0.2)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run(process()) == 0


def test_the_cancelling_of_somebody_else_is_no_timeout(run: Run) -> None:
    async def process() -> None:
        hanging = asyncio.create_task(ReusableTimeout().wait_for(asyncio.sleep(LONG_S), LONG_S))
        await asyncio.sleep(0.05)
        hanging.cancel()
        await hanging

    with pytest.raises(asyncio.CancelledError):
        run(process())


def test_both_at_once_is_a_cancelling(run: Run) -> None:
    """Somebody else cancels the task in the turn of the loop in which its time is over."""

    async def process() -> None:
        loop = asyncio.get_running_loop()
        hanging = asyncio.create_task(ReusableTimeout().wait_for(asyncio.sleep(LONG_S), 0.1))
        await asyncio.sleep(0)
        due_s = loop.time() + 0.2
        loop.call_at(due_s, hanging.cancel)
        while loop.time() < due_s:
            pass  # Both timers are due when the loop looks again.
        await hanging

    with pytest.raises(asyncio.CancelledError):
        run(process())


def test_a_cancelling_that_was_swallowed_before_is_not_counted(run: Run) -> None:
    async def process() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await ReusableTimeout().wait_for(asyncio.sleep(LONG_S), 0.1)
        assert task.cancelling() == 1

    run(process())


def test_an_error_of_what_was_wanted_is_its_own(run: Run) -> None:
    async def broken() -> None:
        raise ValueError("no such key")

    with pytest.raises(ValueError, match="no such key"):
        run(ReusableTimeout().wait_for(broken(), 1.0))


def test_who_answers_when_he_is_cancelled_has_answered(run: Run) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            return "late"
        return "never"

    async def process() -> tuple[str, int]:
        said = await ReusableTimeout().wait_for(stubborn(), 0.05)
        task = asyncio.current_task()
        assert task is not None
        return said, task.cancelling()

    assert run(process()) == ("late", 0)


def test_one_inside_another_one(run: Run) -> None:
    async def process() -> str:
        inner, outer = ReusableTimeout(), ReusableTimeout()

        async def twice() -> str:
            try:
                return await inner.wait_for(asyncio.sleep(LONG_S, result="never"), 0.1)
            except TimeoutError:
                return "the inner one"

        return await outer.wait_for(twice(), 5.0)

    assert run(process()) == "the inner one"


def test_waits_beside_one_another_have_their_own_times(run: Run) -> None:
    async def process() -> list[str]:
        timeout = ReusableTimeout()

        async def within(seconds: float, timeout_s: float) -> str:
            try:
                return await timeout.wait_for(asyncio.sleep(seconds, result="done"), timeout_s)
            except TimeoutError:
                return "over"

        both = [within(0.3, 5.0), within(LONG_S, 0.1), within(0.1, 5.0), within(LONG_S, 0.2)]
        return await asyncio.gather(*both)

    assert run(process()) == ["done", "over", "done", "over"]


def test_a_wait_inside_the_same_one(run: Run) -> None:
    async def process() -> None:
        timeout = ReusableTimeout()
        await timeout.wait_for(timeout.wait_for(asyncio.sleep(LONG_S), LONG_S), 0.1)

    with pytest.raises(TimeoutError):
        run(process())


def test_another_event_loop(run: Run) -> None:
    timeout = ReusableTimeout()
    asyncio.run(timeout.wait_for(asyncio.sleep(0), 0.1))
    with pytest.raises(TimeoutError):
        run(timeout.wait_for(asyncio.sleep(LONG_S), 0.2))


def test_a_loop_that_was_closed_in_the_middle_of_a_wait(run: Run) -> None:
    timeout = ReusableTimeout()
    loop = asyncio.new_event_loop()
    task = loop.create_task(timeout.wait_for(asyncio.sleep(LONG_S), LONG_S))
    loop.run_until_complete(asyncio.sleep(0.05))
    with pytest.raises(TimeoutError):
        run(timeout.wait_for(asyncio.sleep(LONG_S), 0.2))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_what_is_no_time_leaves_nothing_behind(run: Run) -> None:
    async def process() -> str:
        timeout = ReusableTimeout()
        waiting = asyncio.sleep(0)
        with pytest.raises(TypeError):
            await timeout.wait_for(waiting, None)  # type: ignore[arg-type]
        waiting.close()
        return await timeout.wait_for(asyncio.sleep(0, result="done"), 5.0)

    assert run(process()) == "done"
