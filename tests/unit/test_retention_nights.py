"""A night is thrown away as a whole, and not while somebody needs it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gate_store import BUG, DAY, GIVEN, NAME, now, run_at
from made_nights import FAILS, PASSES, item_of, night_with
from touched_runs import dstest

from dstest.campaign.nightly.seeds import digest_of, kept_seeds
from dstest.campaign.nightly.state import Item, NightDir, nights_in
from dstest.core.errors import Exit
from dstest.gate.gather import gather
from dstest.history.layout import RunDir
from dstest.store.entries import entries
from dstest.store.prune import delete, plan

pytestmark = pytest.mark.slow

OLD, NEW = "n/20260101T000000Z-1", "n/20260102T000000Z-2"


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights of a passed cell and a red control each; a newer run."""
    store = tmp_path_factory.mktemp("nights") / "store"
    good = run_at(store, 1, at=now() - 50 * DAY).path
    bad = run_at(store, 2, at=now() - 50 * DAY, bug=True).path
    for night in (OLD, NEW):
        tries = [_copied(night, store, "good", "", good), _copied(night, store, "bug", "red", bad)]
        began, _, number = Path(night).name.partition("-")
        made = night_with(int(number), tries, exit_=0)
        made.started = made.ended = began
        made.asked_sha256, made.pid = digest_of(made.items), 1
        (store / night / "nightly.toml").write_text("")
        (store / night / "night.json").write_bytes(msgspec.json.encode(made))
    shutil.rmtree(good)
    shutil.rmtree(bad)
    run_at(store, 3, at=now() - DAY)
    return store


def _copied(night: str, store: Path, name: str, control: str, run: Path) -> Item:
    """The item of a try that came to this run."""
    spec = RunDir(run).read_json("run.json")["spec"]
    words = [*GIVEN, BUG] if control else GIVEN
    item = item_of(name, control, [None], spec["seed"])
    item.argv = [
        *("run", "--workload", "register", "--nemesis", "partition", "--nodes", "3"),
        *("--time-limit", "28", "--concurrency", "8", "--seed", str(spec["seed"])),
        *(word for pair in words for word in ("-o", pair)),
    ]
    shows = ("nonlinearizable",) if control else ()
    item.expected = msgspec.structs.replace(item.expected, anomalies=shows)
    (one,) = item.tries
    one.result, one.standing = f"cells/{item.id}.1/store/{NAME}/{run.name}", "as-it-must"
    shutil.copytree(run, store / night / one.result)
    return item


@pytest.fixture
def store(_made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_made, tmp_path / "store", symlinks=True))


def _gone(store: Path) -> set[str]:
    found = plan(store, now_ns=int(now().timestamp() * 1e9), keep_days=0)
    delete(found)
    return {str(entry.path.relative_to(store.resolve())) for entry in found.going}


def test_a_night_goes_as_a_whole_and_the_newest_of_its_name_stays(store: Path) -> None:
    nights = [entry for entry in entries(store)[0] if entry.kind == "night"]
    assert [(one.state, one.life, one.runs, one.failed) for one in nights] == [
        ("PASS", "over", 2, False)
    ] * 2
    assert _gone(store) == {OLD}
    assert not (store / OLD).exists()
    assert len(list((store / NEW).rglob("verdict.json"))) == 2


def _facts(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def changed(night: Path) -> None:
        facts = json.loads((night / "night.json").read_text())
        change(facts)
        (night / "night.json").write_text(json.dumps(facts))

    return changed


def _run(night: Path, name: str) -> RunDir:
    return RunDir(next(night.glob(f"cells/{name}.*.1/store/{NAME}/*")))


def _evidence(night: Path) -> None:
    run = _run(night, "good")
    told = run.read_json("verdict.json")
    run.write_json("verdict.json", {**told, "evidence": {**told["evidence"], "violation": True}})
    run.write_sums()


def _edited(night: Path) -> None:
    (_run(night, "good").path / "findings.md").write_text("")


def _another_run(night: Path) -> None:
    shutil.copytree(_run(night, "bug").path, night / "cells" / "good.1.died-1" / "store" / "x")


def _unreadable(night: Path) -> None:
    (night / "night.json").write_text("{")


KEEPS: dict[str, Callable[[Path], None]] = {
    "unfinished": _facts(lambda facts: facts.update(ended="", exit=None)),
    "FAIL": _facts(lambda facts: facts.update(exit=1)),
    "a failed try": _facts(lambda facts: facts["items"][0]["tries"][0].update(standing="failed")),
    "a missed control": _facts(
        lambda facts: facts["items"][1]["tries"][0].update(standing="missed")
    ),
    "a violation where none is expected": _facts(
        lambda facts: facts["items"][1]["expected"].update(control="")
    ),
    "a violation that no try has": _another_run,
    "a violation in evidence": _evidence,
    "a touched run": _edited,
    "unreadable": _unreadable,
    "one whose seeds nobody knows": _facts(lambda facts: facts["items"][0].pop("seed")),
}


@pytest.mark.parametrize("name", KEEPS)
def test_a_night_stays_as_a_whole(name: str, store: Path) -> None:
    KEEPS[name](store / OLD)
    before = sorted((store / OLD).rglob("*"))
    assert _gone(store) == set()
    assert sorted((store / OLD).rglob("*")) == before


def test_the_runs_of_a_night_are_judged_each_by_itself(store: Path) -> None:
    found = gather([store], "checkers")
    assert found.findings == ()
    judged = sorted(unit.path.relative_to(store.resolve()).parts[3:4] for unit in found.units)
    assert judged == [(), *[("bug.2.1",)] * 2, *[("good.1.1",)] * 2]
    assert dstest("store", "verify", store)[0] == Exit.PASS
    (_run(store / OLD, "good").path / "more").symlink_to(store)
    assert dstest("store", "verify", store)[0] == Exit.NOT_PROVEN


def test_a_night_is_shown(store: Path) -> None:
    code, said = dstest("store", "show", store / OLD)
    assert code == Exit.PASS and "cell good" in said and "as-it-must" in said
    assert "night" in dstest("store", "list", store)[1]


def _row(store: Path, stood: str) -> dict[str, list[int]]:
    """A night a day, the oldest first: which seeds are kept. Of each night whether its seed
    (F)ailed, (P)assed, passed while (A)nother one failed, had (N)o verdict or was not asked (-)."""
    for number, word in enumerate(stood, 1):
        tries = {"F": FAILS, "P": PASSES, "A": PASSES, "N": None}
        items = [item_of("a", "", [tries[word]], 7)] if word in tries else []
        items += [item_of("b", "", [FAILS], number)] if word == "A" else []
        made = night_with(number, items)
        made.started = (now() - (50 - number) * DAY).strftime("%Y%m%dT%H%M%SZ")
        NightDir.create(store, made, b"")
    return _kept(store)


def _kept(store: Path) -> dict[str, list[int]]:
    return kept_seeds([night for _, night in nights_in(store / "n").whole], 3)


@pytest.mark.parametrize(
    ("stood", "left"),
    [
        ("FAANP", [1, 2, 3, 4, 5]),
        ("FAA-P", [1, 2, 3, 4, 5]),
        ("FPPNP", [1, 5]),
        ("FPPP--", [1, 2, 3, 4, 6]),
        ("FPNNPP", [1, 5, 6]),
        ("PPNP", [4]),
    ],
)
def test_the_next_night_asks_the_same_seeds_after_a_prune(
    stood: str, left: list[int], tmp_path: Path
) -> None:
    kept = _row(tmp_path, stood)
    _gone(tmp_path)
    assert _kept(tmp_path) == kept
    assert [night.number for _, night in nights_in(tmp_path / "n").whole] == left
