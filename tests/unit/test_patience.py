"""A method of a user's system that never comes back ends the run, and is named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from test_supervised_deployment import made

from dstest.core import answers
from dstest.core.answers import in_time
from dstest.core.errors import ConfigError, LabError
from dstest.core.protocols import (
    Leadership,
    LeaderView,
    Member,
    Membership,
    Probe,
    Process,
    Processes,
    Replicas,
    Service,
    Timing,
)
from dstest.runner.answers import check_relations
from dstest.runner.before_load import held_by_others
from dstest.runner.run import Run, all_serve

pytestmark = pytest.mark.slow

DB = Service(name="db", argv=("db",), probe=Probe(1), log="/l/db")


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


class Mute(Leadership, Membership, Replicas, Processes):
    """Answers nothing at all."""

    timing = Timing(start_s=0.05, stop_s=0.05)
    members = {"n1": Member("n1", (DB,))}
    install = start = stop = wipe = version = healthy = never

    async def leaders(self) -> list[LeaderView]:
        return await never()  # type: ignore[no-any-return]

    async def claims(self, name: str, group: str) -> bool:
        return await never()  # type: ignore[no-any-return]

    async def member_names(self) -> list[str]:
        return await never()  # type: ignore[no-any-return]

    async def replica_states(self) -> dict[str, str | None]:
        return await never()  # type: ignore[no-any-return]

    async def processes(self, names: Any = ()) -> dict[str, list[Process]]:
        return await never()  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASK_S", "WORK_S", "GRACE_S"):
        monkeypatch.setattr(answers, name, 0.05)


class Heard:
    """A node at which somebody listens."""

    name, away = "n1", False

    async def run(self, *_: object, **__: object) -> Any:
        line = 'tcp LISTEN 0 128 0.0.0.0:1 0.0.0.0:* users:(("x",pid=7,fd=3))'
        return SimpleNamespace(status=0, stdout=line, stderr="")


def a_run(mute: Any) -> Any:
    run: Any = object.__new__(Run)
    run._deployment, run._journal = mute, None
    run._meta = SimpleNamespace(members_at=None, replicas=None, clean_up_problems=None)
    return run


NODES: Any = {"n1": Heard()}
ASKED: dict[str, Callable[[Any], Any]] = {
    "healthy": all_serve,
    "leaders": check_relations,
    "processes": lambda mute: held_by_others(mute, NODES),
    "member_names": lambda mute: a_run(mute)._note_members("f1"),
    "replica_states": lambda mute: a_run(mute)._compare_replicas(),
    "install": lambda mute: a_run(mute)._install(mute),
    "start": lambda mute: a_run(mute)._start(mute),
    "version": lambda mute: a_run(mute)._version(mute),
    "stop": lambda mute: a_run(mute)._stop(mute),
}


@pytest.mark.parametrize("method", ASKED)
def test_a_method_that_never_comes_back_is_named(method: str) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await ASKED[method](Mute())

    with pytest.raises(LabError, match=rf"^Mute\.{method}\(\) did not come back in 0\.") as told:
        asyncio.run(bounded())
    assert f"{method} of Mute" in str(told.value.remedy)


@pytest.mark.parametrize("method", ["healthy", "arrange"])
def test_so_is_one_of_a_supervised_system(method: str) -> None:
    deployment, *_ = made()
    setattr(deployment, method, never)

    async def bounded() -> None:
        async with asyncio.timeout(5):
            await deployment.start()

    with pytest.raises(LabError, match=rf"Made\.{method}\(\) did not come back"):
        asyncio.run(bounded())


def test_a_step_of_the_clean_up_says_which_method() -> None:
    run = a_run(Mute())
    asyncio.run(run._step("stop system", lambda: run._stop(run._deployment)))
    (said,) = run._meta.clean_up_problems
    assert said.startswith("stop system: LabError: Mute.stop() did not come back")


def test_what_does_not_let_itself_be_cancelled_is_left_behind() -> None:
    async def stubborn() -> None:
        for _ in range(8):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue

    began = time.perf_counter()
    ended: list[float] = []

    async def asked() -> None:
        try:
            await in_time(Mute(), "healthy", stubborn(), 0.05)
        finally:
            ended.append(time.perf_counter() - began)

    with pytest.raises(LabError, match="did not come back"):
        asyncio.run(asked())
    assert ended[0] < 0.6


def test_an_answer_and_an_error_come_through() -> None:
    async def slow() -> int:
        await asyncio.sleep(0.01)
        return 7

    async def late() -> int:
        raise TimeoutError("its own")

    assert asyncio.run(in_time(Mute(), "x", slow(), 5.0)) == 7
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(in_time(Mute(), "x", late(), 5.0))


def test_a_method_that_is_not_async_is_named() -> None:
    answer: Any = {"n1": True}
    with pytest.raises(ConfigError, match=r"Mute\.healthy\(\) answers .*`async def healthy`"):
        asyncio.run(in_time(Mute(), "healthy", answer, 5.0))


def test_whoever_gives_up_takes_the_call_along() -> None:
    left: list[str] = []

    async def asked() -> None:
        try:
            await never()
        finally:
            left.append("ended")

    async def given_up() -> None:
        async with asyncio.timeout(0.05):
            await in_time(Mute(), "x", asked(), 60.0)

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())
    assert left == ["ended"]
