"""Runs that the tests look at, made once, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from failing_runs import FAMILIES, crashed, failing, inconclusive, passing, stale_etcd
from made_once import Once
from pages import browsing, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    why = missing()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(900))
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def browser() -> Iterator[Any]:
    """One for each test: as long as it is there an event loop runs, and no other test could run
    one of its own beside it."""
    with browsing() as found:
        yield found


@pytest.fixture(scope="session")
def page_of(once: Once) -> Any:
    """`page_of(kind)`: the report of a run of this kind; each is made once."""
    others = {
        "passing": passing, "inconclusive": inconclusive, "crashed": crashed, "etcd": stale_etcd,
    }  # fmt: skip
    assert not set(others) & set(FAMILIES)

    def page(kind: str) -> Path:
        make = others.get(kind, lambda place: failing(place, kind))
        return once(f"page-{kind}", lambda folder: make(folder / "run")) / "run" / "report.html"

    return page
