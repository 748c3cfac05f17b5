"""What the tests of the C core share."""

from __future__ import annotations

import os
import shutil

import pytest
from sanitized_build import SanitizedBuild


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> SanitizedBuild:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    base = tmp_path_factory.getbasetemp()
    # Processes that run tests side by side have a folder each in that of the session.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    objects = session / "sanitized-objects"
    objects.mkdir(exist_ok=True)
    return SanitizedBuild(compiler, objects)
