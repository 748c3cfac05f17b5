"""Pages of a store say in words what the database did, and what cannot be read."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from failing_runs import failing, stale_etcd
from served_store import FAILING, PASSING, indexed, made_store, sealed

from dstest.serve.views import Views
from dstest.store.compare.measured import METRICS, metric_words
from dstest.store.index import Index
from dstest.store.query import Query, query_of, select, unparsed

pytestmark = pytest.mark.slow

STALE = "etcd-register-partition/20260105T000000Z-5"
LOST = "etcd-queue-partition/20260104T000000Z-7"
SAID = "returned an old value after a newer one had been confirmed (stale read)"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    store = made_store(tmp_path_factory.mktemp("words") / "a store")
    stale_etcd(store / STALE)
    failing(store / LOST, "total-queue")
    for ref in (STALE, LOST):
        sealed(store / ref, started=Path(ref).name.partition("-")[0])
    return indexed(store)


@pytest.fixture(scope="module")
def views(index: Index) -> Views:
    return Views(index, static=False)


def plain(page: str | None) -> str:
    assert page is not None
    page = re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_list_says_what_the_database_did(views: Views) -> None:
    text = plain(views.runs(Query()))
    assert SAID.capitalize() in text or SAID[:1].upper() + SAID[1:] in text
    assert "Lost what it had acknowledged, on key q." in text


@pytest.mark.parametrize("words", ["stale read", "Newer CONFIRMED", "etcd returned old"])
def test_it_is_found_by_what_it_did(index: Index, views: Views, words: str) -> None:
    rows = select(index.shown.rows.values(), Query(words=words))
    assert {row.ref for row in rows} == {STALE, FAILING}
    assert "2 of 5 runs" in plain(views.runs(Query(words=words)))


def test_it_is_known_in_short_before_its_history_was_read(index: Index) -> None:
    fresh = indexed(index.store)
    rows = {row.ref: row for row in fresh.shown.rows.values()}
    said = rows[LOST].headline
    assert said == "etcd 3.4.23 lost what it had acknowledged, on key q."
    assert rows[STALE].headline.startswith("etcd 3.4.23 ")
    assert rows[PASSING].headline == ""


def test_the_page_of_a_run_says_it(views: Views) -> None:
    assert f"etcd 3.4.23 {SAID}, on key" in plain(views.run(STALE))
    assert "acknowledged" not in plain(views.run(PASSING))


def test_violations_say_it_and_name_the_run_to_shrink(index: Index, views: Views) -> None:
    page = views.triage()
    text = plain(page)
    assert SAID in text
    assert f"dstest shrink {shlex.quote(f'{index.store}/{STALE}')}" in text
    assert "shrink RUN" not in text


def test_a_run_that_is_not_to_be_believed_has_none(tmp_path: Path) -> None:
    store = made_store(tmp_path / "store")
    verdict = store / FAILING / "verdict.json"
    verdict.write_bytes(verdict.read_bytes() + b" ")
    index = indexed(store)
    row = index.shown.rows[FAILING]
    assert row.standing == "damaged"
    assert row.headline == ""


def test_two_runs_are_told_in_words(views: Views) -> None:
    text = plain(views.pair(PASSING, STALE))
    assert "checker linearizable valid violation (nonlinearizable)" in text
    assert "False (nonlinearizable)" not in text and "linearizable True" not in text
    for metric in METRICS:
        assert f"{metric_words(metric)} {metric}" in text
    assert "no value: left: 99th percentile" not in text
    assert re.search(r"99th percentile of latency, ms p99_ms no value: .*operations", text)


def test_every_metric_has_words() -> None:
    assert metric_words("p999_ms") == "99.9th percentile of latency, ms"
    assert metric_words("gap_s") == "longest stretch in which none was served, s"


@pytest.mark.parametrize(
    ("given", "stamp"),
    [
        ("20261127", "20261127"),
        ("2026-11-27 18:05", "20261127T1805"),
        ("2026-11", "202611"),
        ("2026", "2026"),
        ("20261127T180501Z", "20261127T180501"),
        ("2024-02-29", "20240229"),
    ],
)
def test_a_time_can_be_read(given: str, stamp: str) -> None:
    assert query_of({"since": given}).since == stamp
    assert unparsed({"since": given}) == {}


@pytest.mark.parametrize(
    "given", ["yesterday", "2026-13-40", "2026-02-30", "2026-11-27 25:00", "T", "202", "2026112"]
)
def test_a_time_that_is_none_is_said_and_hides_nothing(views: Views, given: str) -> None:
    words = {"since": given}
    assert unparsed(words) == words
    page = views.runs(query_of(words), unparsed(words))
    text = plain(page)
    assert "5 of 5 runs" in text
    assert f"Cannot read this time, so no run is left out for it: since “{given}”" in text
    assert f'value="{given}"' in page
