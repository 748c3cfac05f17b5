"""The pages as files: whole, all links lead somewhere, nothing better than over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from served_store import (
    FAILING,
    INCONCLUSIVE,
    PASSING,
    copy_of,
    indexed,
    made_store,
    sealed,
    still_running,
)

from dstest.core.errors import ConfigError
from dstest.serve.export import export
from dstest.store.index import Index

TOUCHED = "other/20260401T000000Z-9"
RUNNING = "other+more/20260402T000000Z-9"
LINK = re.compile(r'(?:href|action)="([^"]*)"')


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    store = made_store(tmp_path_factory.mktemp("export") / "store")
    touched = copy_of(store, INCONCLUSIVE, TOUCHED)
    for name in ("verdict.json", "report.html"):
        text = (touched / name).read_text()
        (touched / name).write_text(text.replace("INCONCLUSIVE-fault-not-proven", "PASS-smoke"))
    aside = store / f"{FAILING}.shrink"
    aside.mkdir()
    (aside / "reproducer.json").write_text("{}")
    (aside / "repro.sh").write_text("#!/bin/sh\n")
    still_running(store, RUNNING)
    sealed(store / FAILING)
    return indexed(store)


@pytest.fixture(scope="module")
def site(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("pages") / "a b"
    assert export(index, to) > 10
    return to


def pages(site: Path) -> list[Path]:
    """Ours, not the reports."""
    return [path for path in site.rglob("*.html") if path.name != "report.html"]


def test_every_link_leads_to_a_file_of_the_export(site: Path) -> None:
    count = 0
    for page in pages(site):
        for link in LINK.findall(page.read_text()):
            path = unquote(link.partition("#")[0])
            assert not path.startswith(("/", "http:", "https:", "file:")), (page, link)
            if path and path != "data:,":
                target = (page.parent / path).resolve()
                assert target.is_relative_to(site.resolve()), (page, link)
                assert target.is_file() or "pair.html" in link, (page, link)
                count += 1
    assert count > 100


def test_nothing_is_asked_for(site: Path) -> None:
    for page in pages(site):
        text = page.read_text()
        assert "default-src 'none'" in text
        assert "frame-ancestors" not in text  # not heeded in a page, and complained about
        for far in ("http://", "https://", ' data-live="', ' src="'):
            assert far not in text.replace("http://www.w3.org/", ""), page


def test_what_is_damaged_or_goes_on_is_no_pass(site: Path) -> None:
    damaged = site / "run" / TOUCHED
    assert "damaged" in (damaged / "index.html").read_text()
    assert not (damaged / "report.html").exists()
    running = (site / "run" / RUNNING / "index.html").read_text()
    assert "was running as this was written" in running
    for page in (damaged / "index.html", site / "run" / RUNNING / "index.html"):
        assert 'class="verdict pass"' not in page.read_text()
    passed = (site / "run" / PASSING / "index.html").read_text()
    assert 'class="verdict pass"' in passed
    assert (site / "run" / PASSING / "report.html").is_file()
    assert "as it was at" in passed


def test_files_of_runs_are_texts(site: Path) -> None:
    assert (site / "run" / PASSING / "verdict.json.txt").is_file()
    assert (site / "run" / f"{FAILING}.shrink" / "repro.sh.txt").is_file()
    others = {path.suffix for path in site.rglob("*") if path.is_file()} - {".html"}
    assert others == {".txt"}


def test_runs_of_a_test_are_side_by_side(site: Path) -> None:
    assert len(list((site / "pair").iterdir())) == 4
    assert "Two runs" in next((site / "pair").iterdir()).read_text()


def test_a_place_that_is_taken_is_refused(index: Index, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for place in (tmp_path / "file", tmp_path / "full"):
        with pytest.raises(ConfigError, match="not an empty directory"):
            export(index, place)
    with pytest.raises(ConfigError, match="lies in the store"):
        export(index, index.store / "pages")
    assert not (index.store / "pages").exists()
