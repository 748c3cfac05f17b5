"""What `dstest serve` does with files that were made to end it: known-bad first."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from served_http import Asker
from served_store import FAILING, PASSING, indexed, made_store, sealed, still_running, telling

from dstest.core import clock
from dstest.history.layout import RunDir
from dstest.serve.export import export
from dstest.serve.live import live_of
from dstest.serve.views import Views
from dstest.store import index as index_module
from dstest.store.entries import entries

pytestmark = pytest.mark.slow

X = "other/20260301T000000Z-9"
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return (tmp_path / "store").resolve()


def deep_in(run: Path, name: str) -> None:
    """A value in it that nobody can read, summed up anew."""
    plain = json.loads((run / name).read_text())
    text = json.dumps({**plain, "more": 0})
    (run / name).write_text(f"{text[:-2]}{DEEP}}}")
    sealed(run)


@pytest.mark.parametrize("name", ["verdict.json", "run.json"])
def test_one_deep_file_is_of_one_run(name: str, store: Path, tmp_path: Path) -> None:
    deep_in(store / PASSING, name)
    index = indexed(store)
    row = index.shown.rows[PASSING]
    assert (row.standing, row.tone) == ("damaged", "open") and "recursion" in row.why
    assert index.shown.rows[FAILING].word == "FAIL-nondeterministic"
    assert export(index, tmp_path / "site") > 3
    page = (tmp_path / "site" / "run" / PASSING / "index.html").read_text()
    assert "damaged" in page
    found, _ = entries(store)
    state = {entry.path.name: entry.state for entry in found}[Path(PASSING).name]
    assert not state.startswith("PASS")


def test_a_deep_live_file_is_no_answer_of_500(store: Path) -> None:
    run = still_running(store, X)
    facts = json.loads((run.path / "run.json").read_text())
    (run.path / "live.json").write_text(f'{{"schema": "dstest.live/1", "more": {DEEP}}}')
    run.write_json("run.json", {**facts, "pid_start_time": 1})
    asker = Asker(store)
    try:
        assert asker.ask(f"/run/{X}/index.html").status == 200
        assert asker.ask(f"/live.json?run={X}").status == 200
        nested = "[" * 500 + "]" * 500
        (run.path / "live.json").write_text(f'{{"schema": "dstest.live/1", "more": {nested}}}')
        assert json.loads(asker.ask(f"/live.json?run={X}").body)["figures"] is None
    finally:
        asker.close()


def test_live_figures_have_a_bound_and_a_time(store: Path) -> None:
    run = still_running(store, X)
    place = indexed(store).shown.places[X]
    telling(run, title="x" * 1_100_000)
    assert live_of(place).figures is None
    telling(run, age_s=-60)
    ahead = live_of(place)
    assert ahead.life == "silent" and "ahead" in ahead.told
    telling(run, age_s=-1)
    assert live_of(place).life == "running"


def test_a_look_that_goes_wrong_is_told_and_not_the_last(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, stop, looks = indexed(store), threading.Event(), []
    views = Views(index, static=False)

    def refresh(*_: object) -> None:
        looks.append(1)
        if len(looks) == 2:
            stop.set()
        raise RecursionError("too deep\nsecond line")

    monkeypatch.setattr(index, "refresh", refresh)
    monkeypatch.setattr(index_module, "_EVERY_S", 0.01)
    index.follow(stop)
    assert len(looks) == 2
    assert index.shown.problem == "RecursionError: too deep"
    page = views.triage()
    assert "could not be looked at" in page and "too deep" in page


def test_pages_say_that_nobody_looks_any_longer(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, stop = indexed(store), threading.Event()
    views = Views(index, static=False)
    stop.set()
    index.follow(stop)
    assert "any longer" not in views.triage()
    monkeypatch.setattr(index.measures, "some", lambda *_: stop.set())
    stop.clear()
    index.follow(stop)
    assert "any longer" not in views.triage()
    later_ns = clock.monotonic_ns() + 200 * 10**9
    monkeypatch.setattr(clock, "monotonic_ns", lambda: later_ns)
    for page in (views.triage(), views.run(PASSING), views.error("x.html", "No", "no")):
        assert page is not None and "any longer" in page


def test_a_run_of_odd_bytes_is_damaged(store: Path) -> None:
    (store / PASSING / "verdict.json").write_bytes(b'{"verdict": "\xff\xfe"}')
    assert indexed(store).shown.rows[PASSING].standing == "damaged"
    assert RunDir(store / PASSING).status()
