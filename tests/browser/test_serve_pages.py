"""The pages of `dstest serve` in a browser, over HTTP and as files: silent, asking nobody else,
usable without a mouse and on a narrow screen, and told what changes while they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pages import opened
from served_http import Asker
from served_store import (
    FAILING,
    INCONCLUSIVE,
    PASSING,
    copy_of,
    indexed,
    made_store,
    still_running,
    telling,
)

from dstest.history.layout import RunDir
from dstest.serve.export import export
from dstest.serve.pages import cell_address

pytestmark = pytest.mark.slow

TOUCHED = "other/20260401T000000Z-9"
RUNNING = "other/20260402T000000Z-9"
CELL = cell_address(("etcd", "register", "partition"))
PAGES = {
    "runs": "index.html",
    "violations": "triage.html",
    "trends": "trends.html",
    "cell": CELL,
    "two": f"pair.html?run={PASSING}&run={FAILING}",
    "failed": f"run/{FAILING}/index.html",
    "touched": f"run/{TOUCHED}/index.html",
    "running": f"run/{RUNNING}/index.html",
    "list of running": "live.html",
    "groups": "groups.html",
    "none": "none.html",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = made_store(tmp_path_factory.mktemp("served") / "store")
    touched = copy_of(made, INCONCLUSIVE, TOUCHED)
    text = (touched / "verdict.json").read_text()
    (touched / "verdict.json").write_text(text.replace("INCONCLUSIVE-fault-not-proven", "PASS"))
    telling(still_running(made, RUNNING))
    return made


@pytest.fixture(scope="module")
def asker(store: Path) -> Iterator[Asker]:
    made = Asker(store)
    made.index.measures.some(made.index.shown.rows.values(), 60, lambda: False)
    made.index.measures.close()
    yield made
    made.close()


@pytest.fixture
def server(asker: Asker) -> Asker:
    """It has just looked: where tests are slow, its pages do not say that nobody looks."""
    asker.index.refresh()
    return asker


@pytest.fixture(scope="module")
def site(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site") / "pages"
    export(indexed(store), to)
    return to


def at(server: Asker, address: str) -> str:
    return f"http://127.0.0.1:{server.port}/{address}"


def serious(page: Any) -> list[Any]:
    """What axe finds."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    rows = page.evaluate("axe.run()")["violations"]
    return [
        (row["id"], row["nodes"][0]["html"][:200])
        for row in rows
        if row["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sampled(3)
def test_a_page_is_silent_and_sound(
    browser: Any, server: Asker, store: Path, name: str, scheme: str
) -> None:
    telling(RunDir(store / RUNNING))
    with opened(browser, at(server, PAGES[name]), color_scheme=scheme, bypass_csp=True) as found:
        assert len(found.page.query_selector_all("h1")) == 1
        assert serious(found.page) == []
        assert all(url.startswith(at(server, "")) for url in found.asked)
        missing = [said for said in found.said if "404" in said]
        assert found.said == missing
        assert len(missing) == (name == "none")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sampled(1)
def test_a_narrow_screen_scrolls_no_page(browser: Any, server: Asker, name: str) -> None:
    with opened(browser, at(server, PAGES[name]), width=400) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_runs_are_filtered_and_two_are_compared(browser: Any, server: Asker) -> None:
    with opened(browser, at(server, "")) as found:
        page = found.page
        rows = "#runs tbody tr"
        assert len(page.query_selector_all(rows)) == 5
        page.select_option("select[name=verdict]", "damaged")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_url("**verdict=damaged**")
        assert len(page.query_selector_all(rows)) == 1
        assert "says PASS" in page.query_selector(rows).inner_text()
        page.click("text=all runs")
        page.fill("input[name=words]", "nonlinearizable")
        page.keyboard.press("Enter")
        page.wait_for_url("**words=nonlinearizable**")
        assert len(page.query_selector_all(rows)) == 1
        page.click("text=all runs")
        page.click("#runs thead >> text=verdict")
        page.wait_for_url("**sort=verdict**")
        assert page.query_selector("[aria-sort]").inner_text().startswith("verdict")
        for ref in (PASSING, FAILING):
            page.check(f'input[value="{ref}"]')
        page.click("text=Compare the two")
        page.wait_for_url("**pair.html**")
        assert "no pass" in page.inner_text("main")
        assert found.said == []


def test_a_table_is_sorted_by_keys(browser: Any, server: Asker) -> None:
    with opened(browser, at(server, CELL)) as found:
        page = found.page
        button = page.query_selector("table.sortable thead button >> text=verdict")
        for wanted in ("ascending", "descending"):
            button.focus()
            page.keyboard.press("Enter")
            assert page.query_selector("[aria-sort]").get_attribute("aria-sort") == wanted
            words = [cell.inner_text() for cell in page.query_selector_all("tbody td:nth-child(2)")]
            assert words == sorted(words, reverse=wanted == "descending")
            assert len(words) == 5
        assert len(page.query_selector_all("figure svg circle")) > 0
        assert found.said == []


def test_a_run_is_watched(browser: Any, server: Asker, store: Path) -> None:
    run = RunDir(store / RUNNING)
    telling(run)
    with opened(browser, at(server, PAGES["running"])) as found:
        page = found.page
        page.wait_for_selector("text=98.6/s")
        assert "packets dropped 0 -> 107" in page.inner_text("#live")
        telling(run, rate_per_s=5.5, phase="<b>judge</b>")
        page.wait_for_selector("text=5.5/s")
        assert "<b>judge</b>" in page.inner_text("#live")
        telling(run, age_s=60)
        page.wait_for_selector("text=Seems dead")
        facts = run.read_json("run.json")
        run.write_json("run.json", {**facts, "pid_start_time": 1})
        page.wait_for_selector("text=its process is gone")
        run.write_json("run.json", facts)
        assert found.said == []


def test_a_report_is_whole_in_its_sandbox(browser: Any, server: Asker) -> None:
    address = at(server, f"run/{FAILING}/report.html")
    with opened(browser, address) as found:
        assert found.page.query_selector("#timeline canvas").is_visible()
        assert found.page.evaluate("self.origin") == "null"
        assert found.said == []
        assert found.asked == [address]


STATIC = ("index.html", "triage.html", "trends.html", "live.html", "groups.html", CELL)


@pytest.mark.parametrize(
    "address", [*STATIC, f"run/{FAILING}/index.html", f"run/{RUNNING}/index.html"]
)
@pytest.mark.sampled(2)
def test_a_file_asks_for_nothing(browser: Any, site: Path, address: str) -> None:
    file = site / address
    with opened(browser, file, width=400) as found:
        assert found.asked == [file.resolve().as_uri()]
        assert found.said == []
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400
    with opened(browser, file, bypass_csp=True) as found:
        assert serious(found.page) == []


def test_runs_of_an_export_are_filtered_in_the_browser(browser: Any, site: Path) -> None:
    with opened(browser, site / "index.html") as found:
        page = found.page

        def shown() -> int:
            return sum(row.is_visible() for row in page.query_selector_all("#runs tbody tr"))

        assert shown() == 5
        page.select_option("select[name=verdict]", "PASS-smoke")
        assert shown() == 1
        page.select_option("select[name=verdict]", "")
        page.fill("input[name=words]", "nonlinearizable")
        assert shown() == 1
        page.fill("input[name=words]", "")
        page.fill("input[name=until]", "2026-01-02")
        assert (shown(), page.inner_text("#count")) == (2, "2 of 5 runs.")
        page.click(f'a[href="run/{FAILING}/index.html"]')
        page.click("text=Its report")
        page.wait_for_function("document.documentElement.dataset.timeline === 'ready'")
        assert found.said == []
