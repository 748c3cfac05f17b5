"""What nights say together: which tries are trials, and what an index is made of."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from made_nights import FAILS, PASSES, STRANGE, item_of, night_in
from touched_runs import dstest

from dstest.campaign.nightly.index import CellTrend, Trends, open_index, rebuild, trends_of
from dstest.campaign.nightly.state import Item, nights_in, number_after
from dstest.core.errors import ConfigError

SKIPPED = "the time of the night was spent before its turn"


def _trends(folder: Path) -> Trends:
    rebuild(folder)
    with open_index(folder) as db:
        return trends_of(db)


def _of(store: Path, items: list[Item]) -> Trends:
    night_in(store, 1, items)
    return _trends(store / "n")


def _cell(trends: Trends, name: str) -> CellTrend:
    return next(cell for cell in trends.cells if cell.cell == name)


def test_what_never_ran_is_in_no_rate_but_its_own(tmp_path: Path) -> None:
    items = [item_of("green", "green", [None, None], seed) for seed in range(5)]
    items += [item_of("red", "red", [FAILS], 1), item_of("red", "red", [None, None], 2)]
    items += [item_of("under", "", [], 9, skipped=SKIPPED)]
    trends = _of(tmp_path, items)
    assert trends.alarms[:2] == (0, 0)
    assert trends.found[:2] == (1, 1)
    assert trends.no_verdict[:2] == (6, 7)
    assert _cell(trends, "green").no_verdict[:2] == (5, 5)
    assert _cell(trends, "under").as_it_must[:2] == (0, 0)
    assert _cell(trends, "under").no_verdict[:2] == (0, 0), "it was not tried"
    assert _cell(trends, "red").as_it_must[:2] == (1, 1)


def test_only_first_tries_of_new_seeds_are_trials(tmp_path: Path) -> None:
    items = [
        item_of("red", "red", [PASSES, FAILS], 1),
        item_of("red", "red", [FAILS], 2),
        item_of("red", "red", [FAILS], 3, why="kept"),
        item_of("red", "red", [FAILS], 4, why="named"),
        item_of("green", "green", [FAILS, PASSES], 5),
        item_of("green", "green", [FAILS], 6, why="kept"),
    ]
    trends = _of(tmp_path, items)
    assert trends.found[:2] == (1, 2)
    assert trends.alarms[:2] == (1, 1)
    assert trends.flaky[:2] == (1, 2)
    assert trends.found_s == 6.0


def test_another_bug_has_a_word_of_its_own(tmp_path: Path) -> None:
    items = [item_of("red", "red", [STRANGE], 1), item_of("bad", "", [PASSES], 2)]
    trends = _of(tmp_path, items)
    assert _cell(trends, "red").nights == [(1, "other-bug")]
    assert trends.nights[0].counts == {"other-bug": 1, "as-it-must": 1}


def _rebuilt(folder: Path, found: Any) -> None:
    bad = []
    for _ in range(20):
        try:
            _trends(folder)
        except Exception as error:
            bad.append(f"{type(error).__name__}: {error}")
    found.put(bad)


def test_an_index_is_made_by_two_at_once(tmp_path: Path) -> None:
    night_in(tmp_path, 1, [item_of("red", "red", [FAILS])])
    found: Any = multiprocessing.Queue()
    both = [
        multiprocessing.Process(target=_rebuilt, args=(tmp_path / "n", found)) for _ in range(2)
    ]
    for one in both:
        one.start()
    assert [found.get(timeout=100) for _ in both] == [[], []]
    for one in both:
        one.join()
    assert not list((tmp_path / "n").glob("*.partial*"))


def test_two_nights_of_one_number_do_not_cost_the_index(tmp_path: Path) -> None:
    for _ in range(2):
        night_in(tmp_path, 1, [item_of("red", "red", [FAILS])])
    assert len(_trends(tmp_path / "n").nights) == 2


def test_a_damaged_night_costs_no_other(tmp_path: Path) -> None:
    night_in(tmp_path, 1, [item_of("red", "red", [FAILS])])
    bad = night_in(tmp_path, 4, [item_of("red", "red", [FAILS])])
    (bad.path / "night.json").write_text("{")
    folder = tmp_path / "n"
    assert [night.number for night in _trends(folder).nights] == [1]
    nights = nights_in(folder)
    assert len(nights.damaged) == 1 and str(bad.path) in nights.damaged[0]
    assert number_after(folder, nights) == 5, "its directory has the number 4"
    code, said = dstest("nightly", "index", folder)
    assert code == 0 and "1 nights" in said


def test_the_wrong_folder_is_told_the_right_one(tmp_path: Path) -> None:
    night = night_in(tmp_path, 1, [item_of("red", "red", [FAILS])])
    for wrong in (tmp_path, tmp_path / "latest", night.path):
        with pytest.raises(ConfigError) as caught:
            rebuild(wrong)
        assert str(tmp_path / "n") in (caught.value.remedy or "")
    assert not (tmp_path / "index.sqlite").exists()


def test_the_index_as_text_and_as_json(tmp_path: Path) -> None:
    items = [
        item_of("red", "red", [FAILS], 1),
        item_of("shaky", "", [None, PASSES], 2),
        item_of("calm", "", [PASSES], 3),
    ]
    night_in(tmp_path, 1, items)
    code, said = dstest("nightly", "index", tmp_path / "n")
    assert code == 0
    rows = {line.split()[0]: line for line in said.splitlines() if line}
    assert "1 of 1 (21% to 100%), after 6.0 s" in said
    assert " flaky" in rows["shaky"] and "no verdict in 1 of 1" in rows["shaky"]
    assert rows["calm"].split()[2:] == ["as-it-must"]
    code, said = dstest("nightly", "index", tmp_path / "n", "--json")
    told = json.loads(said)
    assert told["found"][:2] == [1, 1]
    assert told["rates"]["found"]["count"] == 1 and told["rates"]["found"]["of"] == 1
    assert told["cells"][0]["rates"]["as_it_must"].keys() == {"count", "of", "low", "high"}
