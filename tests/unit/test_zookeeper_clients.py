"""Registers on ZooKeeper: a member that lags, versions that move, how many requests it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError

from clusters.systems.zookeeper.system import TRIES, RegisterClient
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=2181)


class Stat:
    def __init__(self, version: int) -> None:
        self.version = version


class Answer:
    def __init__(self, give: Callable[[], Any]) -> None:
        self._give = give

    def get(self, timeout: float) -> Any:
        return self._give()


class Ensemble:
    """The latest data of nodes, what the clients' member shows of them, and what was `asked`."""

    def __init__(self, value: Any = None, version: int = -1) -> None:
        self.latest: dict[str, tuple[Any, int]] = {}
        self.shown: dict[str, tuple[Any, int]] = {}
        if version >= 0:
            self.latest["/register-r"] = (value, version)
        self.asked: list[str] = []
        self.each_get: Callable[[], None] = lambda: None
        self.client = self

    def lags(self, value: Any = None, version: int = -1) -> None:
        self.shown["/register-r"] = (value, version)

    def close(self) -> None: ...

    def _async(self, name: str, give: Callable[[], Any]) -> Answer:
        self.asked.append(name)
        return Answer(give)

    def sync_async(self, path: str) -> Answer:
        return self._async("sync", lambda: path)

    def get_async(self, path: str) -> Answer:
        def give() -> tuple[bytes, Stat]:
            value, version = self.shown.get(path, self.latest.get(path, (None, -1)))
            self.each_get()
            if version < 0:
                raise NoNodeError
            return json.dumps(value).encode(), Stat(version)

        return self._async("get", give)

    def set_async(self, path: str, data: bytes, version: int = -1) -> Answer:
        def give() -> None:
            if path not in self.latest:
                raise NoNodeError
            now = self.latest[path][1]
            if version not in (-1, now):
                raise BadVersionError
            self.latest[path] = (json.loads(data), now + 1)
            self.shown.clear()

        return self._async("set", give)

    def create_async(self, path: str, data: bytes) -> Answer:
        def give() -> None:
            if path in self.latest:
                raise NodeExistsError
            self.latest[path] = (json.loads(data), 0)

        return self._async("create", give)

    def transaction(self) -> Deal:
        return Deal(self)


class Deal:
    """A transaction: each of its steps is done on the latest data, or none."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.good = True
        self.steps: list[str] = []

    def check(self, path: str, version: int) -> None:
        self.steps.append("check")
        self.good &= self.ensemble.latest.get(path, (None, -1))[1] == version

    def create(self, path: str) -> None:
        self.steps.append("create")
        self.good &= path not in self.ensemble.latest

    def delete(self, path: str) -> None:
        self.steps.append("delete")

    def commit_async(self) -> Answer:
        results: list[Any] = [True if self.good else RolledBackError() for _ in self.steps]
        return self.ensemble._async("+".join(self.steps), lambda: results)


def does(ensemble: Ensemble, op: OpDraft, reads: str = "confirmed") -> Any:
    """The output of one operation; as many requests are counted as were made."""

    class Client(RegisterClient):
        def connect(self, to: Endpoint) -> Any:
            return ensemble

    async def once() -> Any:
        client = Client(AT, [AT], {"reads": reads, "op_timeout_s": 1.0})
        try:
            return (await client.invoke(op, 10.0)).output
        finally:
            assert client.calls == len(ensemble.asked)
            await client.close()

    return asyncio.run(once())


READ = OpDraft("read", "r")


@pytest.mark.parametrize(
    ("reads", "asked"),
    [("local", ["get"]), ("sync", ["sync", "get"]), ("confirmed", ["get", "check"])],
)
def test_reads(reads: str, asked: list[str]) -> None:
    ensemble = Ensemble(7, 3)
    assert does(ensemble, READ, reads) == 7
    assert ensemble.asked == asked


def test_a_register_that_is_not_there_is_confirmed_too() -> None:
    ensemble = Ensemble()
    assert does(ensemble, READ) is None
    assert ensemble.asked == ["get", "create+delete"]
    assert not ensemble.latest


def test_a_lagging_member_is_read_again() -> None:
    ensemble = Ensemble(7, 3)
    ensemble.lags(6, 2)
    ensemble.each_get = ensemble.shown.clear
    assert does(ensemble, READ) == 7
    assert ensemble.asked == ["get", "check", "get", "check"]


@pytest.mark.parametrize("op", [READ, OpDraft("cas", "r", [7, 8])])
def test_a_member_that_goes_on_lagging_gives_no_answer(op: OpDraft) -> None:
    ensemble = Ensemble(7, 3)
    ensemble.lags(6, 2)
    with pytest.raises(Definite, match="conflict"):
        does(ensemble, op)
    assert ensemble.asked == ["get", "check"] * TRIES
    assert ensemble.latest["/register-r"] == (7, 3)


@pytest.mark.parametrize("reads", ["local", "sync", "confirmed"])
@pytest.mark.parametrize("shown", [(6, 2), (None, -1)])
def test_only_the_latest_value_refuses_a_cas(reads: str, shown: tuple[Any, int]) -> None:
    """What a lagging member shows says nothing: the value there may be the one that is wanted."""
    ensemble = Ensemble(7, 3)
    ensemble.lags(*shown)
    looks = iter(range(10))

    def lag_once() -> None:
        if next(looks) == 1:
            ensemble.shown.clear()

    ensemble.each_get = lag_once
    assert does(ensemble, OpDraft("cas", "r", [7, 8]), reads) is True
    assert ensemble.latest["/register-r"] == (8, 4)


@pytest.mark.parametrize("reads", ["local", "sync", "confirmed"])
def test_a_cas_that_compared_and_differed(reads: str) -> None:
    ensemble = Ensemble(7, 3)
    assert does(ensemble, OpDraft("cas", "r", [6, 8]), reads) is False
    assert ensemble.asked == ["get", "check"]
    assert does(Ensemble(), OpDraft("cas", "r", [6, 8]), reads) is False


def test_a_version_that_moved_is_read_again() -> None:
    ensemble = Ensemble(7, 3)
    moved = iter([lambda: ensemble.latest.update({"/register-r": (7, 4)})])
    ensemble.each_get = lambda: next(moved, lambda: None)()
    assert does(ensemble, OpDraft("cas", "r", [7, 8])) is True
    assert ensemble.asked == ["get", "set", "get", "set"]


def test_writes() -> None:
    ensemble = Ensemble()
    does(ensemble, OpDraft("write", "r", 5))
    does_again = Ensemble(5, 0)
    does(does_again, OpDraft("write", "r", 6))
    assert (ensemble.asked, does_again.asked) == (["set", "create"], ["set"])
    assert does_again.latest["/register-r"] == (6, 1)


def test_an_answer_that_is_lost_is_unknown() -> None:
    ensemble = Ensemble(7, 3)

    def lose() -> None:
        raise TimeoutError

    ensemble.each_get = lose
    with pytest.raises(Indefinite):
        does(ensemble, READ)
