"""Pages of runs of every kind, opened in a headless Chromium that can ask for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "CHROMIUM",
    "FLAGS",
    "PATIENCE_MS",
    "SECTIONS",
    "Opened",
    "browsing",
    "missing",
    "opened",
]

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

PATIENCE_MS: Final = 110_000
"""A busy host is slow, and that fails no test."""

SECTIONS: Final = (
    "verdict", "why-not-better", "timeline-charts", "operations", "faults", "checkers", "audit",
    "history", "again", "facts", "words",
)  # fmt: skip


def missing() -> str:
    """What is not here that these tests need; empty where all is."""
    if CHROMIUM is None:
        return "no chromium here: apt-get install --no-install-recommends chromium"
    for name in ("axe_playwright_python", "playwright"):
        if find_spec(name) is None:
            return f"no {name} here: pip install .[dev]"
    return ""


class Opened(NamedTuple):
    """A page, with what it has said to the console and asked the network for."""

    page: Any
    said: list[str]
    asked: list[str]


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, place: Path | str, *, width: int = 1200, **context: Any
) -> Iterator[Opened]:
    """The page of a file or at an address, its timeline ready where it has one."""
    given = browser.new_context(viewport={"width": width, "height": 900}, **context)
    given.set_default_timeout(PATIENCE_MS)
    page = given.new_page()
    found = Opened(page, [], [])
    page.on("console", lambda m: found.said.append(m.text) if m.type != "log" else None)
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(place if isinstance(place, str) else place.resolve().as_uri())
    if context.get("java_script_enabled", True) and page.query_selector("#run-data"):
        page.wait_for_function("document.documentElement.dataset.timeline === 'ready'")
    try:
        yield found
    finally:
        given.close()
