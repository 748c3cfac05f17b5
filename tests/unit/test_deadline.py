"""A wait that takes too long is ended, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from dstest.core.deadline import Deadline

LONG_S = 60.0


def run(act: Awaitable[Any]) -> Any:
    async def within() -> Any:
        return await asyncio.wait_for(act, 20.0)

    return asyncio.run(within())


def test_what_hangs_is_ended_and_the_task_goes_on() -> None:
    async def process() -> list[str]:
        deadline, said = Deadline(), []
        for _ in range(3):
            with pytest.raises(TimeoutError) as error:
                await deadline.bound(asyncio.sleep(LONG_S), 0.1)
            said.append(str(error.value))
        await asyncio.sleep(0.2)
        return said

    assert run(process()) == ["no answer within 0.1 s"] * 3


def test_what_ends_in_time_is_left_alone() -> None:
    async def process() -> list[int]:
        deadline = Deadline()
        return [await deadline.bound(asyncio.sleep(0.05, result=n), 0.5) for n in range(20)]

    assert run(process()) == list(range(20))


@pytest.mark.parametrize("first_s", [0.3, LONG_S])
def test_a_wait_has_its_own_time_whatever_the_one_before_it_had(first_s: float) -> None:
    async def process() -> float:
        deadline, loop = Deadline(), asyncio.get_running_loop()
        await deadline.bound(asyncio.sleep(0.1), first_s)
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await deadline.bound(asyncio.sleep(LONG_S), 0.5)
        return loop.time() - began_s

    assert run(process()) >= 0.5


def test_nothing_is_cancelled_between_two_waits() -> None:
    async def process() -> int:
        deadline = Deadline()
        await deadline.bound(asyncio.sleep(0), 0.05)
        await asyncio.sleep(0.2)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run(process()) == 0


def test_the_cancelling_of_somebody_else_is_no_timeout() -> None:
    async def process() -> None:
        hanging = asyncio.create_task(Deadline().bound(asyncio.sleep(LONG_S), LONG_S))
        await asyncio.sleep(0.05)
        hanging.cancel()
        await hanging

    with pytest.raises(asyncio.CancelledError):
        run(process())


def test_both_at_once_is_a_cancelling() -> None:
    async def process() -> None:
        deadline = Deadline()
        hanging = asyncio.create_task(deadline.bound(asyncio.sleep(LONG_S), 0.0))
        await asyncio.sleep(0)
        deadline._ring()
        hanging.cancel()
        await hanging

    with pytest.raises(asyncio.CancelledError):
        run(process())


def test_an_error_of_what_was_wanted_is_its_own() -> None:
    async def broken() -> None:
        raise ValueError("no such key")

    with pytest.raises(ValueError, match="no such key"):
        run(Deadline().bound(broken(), 1.0))


def test_who_answers_when_he_is_cancelled_has_answered() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            return "late"
        return "never"

    async def process() -> tuple[str, int]:
        said = await Deadline().bound(stubborn(), 0.05)
        task = asyncio.current_task()
        assert task is not None
        return said, task.cancelling()

    assert run(process()) == ("late", 0)


def test_one_inside_another_one() -> None:
    async def process() -> str:
        inner, outer = Deadline(), Deadline()

        async def twice() -> str:
            try:
                return await inner.bound(asyncio.sleep(LONG_S, result="never"), 0.1)
            except TimeoutError:
                return "the inner one"

        return await outer.bound(twice(), 5.0)

    assert run(process()) == "the inner one"


def test_two_waits_at_once_are_refused() -> None:
    async def process() -> None:
        deadline = Deadline()
        waits = [asyncio.create_task(asyncio.sleep(0.1)) for _ in range(2)]
        await asyncio.gather(*(deadline.bound(one, 1.0) for one in waits))

    with pytest.raises(RuntimeError, match="one wait at a time"):
        run(process())
