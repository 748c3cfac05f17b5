"""What takes long on `dstest serve` has a bound of its own: pages of runs answer meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from served_http import Answer, Asker
from served_store import FAILING, PASSING, made_store

from dstest.serve.views import Views

PAIR = f"/pair.html?run={PASSING}&run={FAILING}"
HASHED = f"/run/{PASSING}/index.html?hash=all"
PAGES = (f"/run/{PASSING}/index.html", f"/run/{PASSING}/report.html", f"/run/{FAILING}/run.json")
WAIT_S = 30


class Slow:
    """Stands in for what takes long: each that has begun waits until one is let go."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._free = 0
        self.at_work = self.most = self.begun = 0

    def __call__(self) -> str:
        with self._changed:
            self.begun += 1
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._free > 0, WAIT_S)
            self._free -= 1
            self.at_work -= 1
        return "<p>slow</p>"

    def let_go(self, count: int) -> None:
        with self._changed:
            self._free += count
            self._changed.notify_all()

    def wait_for(self, begun: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun >= begun, WAIT_S), self.begun


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    made = Asker(made_store(tmp_path_factory.mktemp("served") / "store"))
    yield made
    made.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made, quick = Slow(), Views.run

    def run(self: Views, ref: str, *, hashed: bool = False) -> str | None:
        return made() if hashed else quick(self, ref)

    monkeypatch.setattr(Views, "pair", lambda *_: made())
    monkeypatch.setattr(Views, "run", run)
    yield made
    made.let_go(100)


@pytest.fixture
def ask(server: Asker) -> Iterator[Callable[[str], Future[Answer]]]:
    with ThreadPoolExecutor(12) as pool:
        yield lambda path: pool.submit(server.ask, path)


@pytest.mark.parametrize("long", [PAIR, HASHED])
def test_pages_of_runs_answer_while_two_compute(
    long: str, ask: Callable[[str], Future[Answer]], slow: Slow
) -> None:
    waiting = [ask(long) for _ in range(6)]
    slow.wait_for(2)
    try:
        for page in PAGES:
            assert ask(page).result(WAIT_S / 3).status == 200, page
        assert not any(one.done() for one in waiting)
    finally:
        slow.let_go(100)
    assert {one.result(WAIT_S).body for one in waiting} == {"<p>slow</p>"}


def test_no_more_than_two_compute_at_a_time(
    ask: Callable[[str], Future[Answer]], slow: Slow
) -> None:
    """Each of them may hold a history of 64 MB."""
    waiting = [ask(path) for path in (PAIR, HASHED, PAIR, HASHED, PAIR)]
    for begun in range(2, len(waiting) + 1):
        slow.wait_for(begun)
        assert slow.at_work <= 2
        slow.let_go(1)
    slow.let_go(1)
    assert [one.result(WAIT_S).status for one in waiting] == [200] * len(waiting)
    assert slow.most == 2


def test_whoever_goes_away_gives_the_turn_back(
    ask: Callable[[str], Future[Answer]], slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> str:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Views, "pair", breaks)
        assert {ask(PAIR).result(WAIT_S).status for _ in range(3)} == {500}
    slow.let_go(1)
    assert ask(PAIR).result(WAIT_S).status == 200
