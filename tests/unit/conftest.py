"""What tests of single rooms share: runs are made without pictures, most of what one costs; and
numbers of the day for what has to hold of any."""

from __future__ import annotations

import datetime
import os
import random
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


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Numbers that are others each day. A test that fails prints how it is repeated."""
    day = (
        os.environ.get("DSTEST_TEST_DAY") or datetime.datetime.now(datetime.UTC).date().isoformat()
    )
    print(f"the same numbers again: DSTEST_TEST_DAY={day}")  # noqa: T201
    return random.Random(f"{day} {request.node.name}")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Iterator[None]:
    try:
        return (yield)
    finally:
        write.pictures = PICTURES
