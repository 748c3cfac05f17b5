"""Runs that tests make in their own process are given no pictures, most of what a run costs; the
hooks of a conftest. Tests that are marked `drawn` get them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dstest.report import write

PICTURES = write.pictures
NONE_DRAWN = dict.fromkeys(("plots/latency.svg", "plots/rate.svg"), "<svg/>\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Before any fixture of a test, as modules and sessions share what one has made."""
    if item.get_closest_marker("drawn") is None:
        write.pictures = lambda report: NONE_DRAWN
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Iterator[None]:
    try:
        return (yield)
    finally:
        write.pictures = PICTURES
