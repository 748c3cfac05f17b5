"""Runs that the tests look at, made once, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
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


@pytest.fixture(scope="module")
def _browser() -> Iterator[Callable[[], Any]]:
    with ExitStack() as open_ones:
        yield cache(lambda: open_ones.enter_context(browsing()))


@pytest.fixture
def browser(_browser: Callable[[], Any]) -> Any:
    """One for the tests of a module, begun after what the first of them asks for besides: as long
    as it is there an event loop runs, and nothing could run one of its own beside it."""
    return _browser()


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
