"""What tests of single rooms share: runs are made without pictures; and numbers of the day for what
has to hold of any."""

from __future__ import annotations

import datetime
import os
import random

import pytest
from judged_once import _judged_once, judged_once  # noqa: F401
from undrawn import pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Numbers that are others each day. A test that fails prints how it is repeated."""
    day = (
        os.environ.get("DSTEST_TEST_DAY") or datetime.datetime.now(datetime.UTC).date().isoformat()
    )
    print(f"the same numbers again: DSTEST_TEST_DAY={day}")  # noqa: T201
    return random.Random(f"{day} {request.node.name}")
