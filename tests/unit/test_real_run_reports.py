"""The recorded run with one thing broken: a report is drawn all the same, and says the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_run import unpack
from test_real_run import BROKEN, ELSEWHERE

from dstest.runner.judgement import judge

pytestmark = pytest.mark.slow

DRAWN = {state: name for name, (_, _, _, state) in BROKEN.items()}
"""One for each verdict; the reports of all others are drawn by `make proofs`."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in {*DRAWN.values(), *ELSEWHERE} else pytest.mark.long)
        for name in BROKEN
    ],
)
def test_what_is_broken_has_a_report_all_the_same(name: str, tmp_path: Path) -> None:
    run = unpack(tmp_path)
    BROKEN[name][0](run)
    verdict, failure = judge(run)
    assert failure is None
    assert verdict.verdict.value in (run.path / "report.html").read_text()
