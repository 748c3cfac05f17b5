"""Runs of candidates on real workers of this machine; only the command that they run is a copy."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence

import pytest
from shrink.test_driver import failed

from dstest.campaign.shrink import pool_runs
from dstest.campaign.shrink.candidate import PROGRESS, RUNS, aside_of
from dstest.campaign.shrink.driver import shrink_run
from dstest.campaign.workers.commands import LOG, STORE
from dstest.campaign.workers.task import Workspace
from dstest.core.errors import ConfigError
from dstest.history.layout import RunDir

pytestmark = pytest.mark.slow

__all__ = ["failed"]

SHOWS = "DSTEST_TEST_SHOWS"
"""A run with the violation; where it is not set, no run can be made."""


def copied(
    place: Workspace,
    image: Sequence[str],
    argv: Sequence[str],
    files: dict[str, bytes],
    limit_s: float,
) -> tuple[int, float]:
    (place.folder / LOG).write_text(f"$ dstest {' '.join(argv)}\ndstest: no nodes\n")
    if SHOWS not in os.environ:
        return 4, 0.1
    path = argv[argv.index("--schedule") + 1] if "--schedule" in argv else None
    planned = len(json.loads(files[path])["plans"]) if path else 0
    assert image[:2] == ["lab", "image"] and limit_s > 0
    kept = place.folder / STORE / "etcd-register-partition" / f"{planned}-{place.lab_id}"
    shutil.copytree(os.environ[SHOWS], kept)
    return 1, 0.1


def test_workers_make_the_runs(failed: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOWS, str(failed.path))
    monkeypatch.setattr(pool_runs, "run_command", copied)
    found = shrink_run(failed.path, within_s=600, sure=3, workers=2)
    assert found is not None
    assert found.confirmed and (found.rate_after.runs, found.rate_after.came) == (3, 3)
    aside = aside_of(failed.path)
    tried = json.loads((aside / PROGRESS).read_bytes())["tried"].values()
    paths = [one["path"] for row in tried for one in row["attempts"]]
    assert len(paths) == len({*paths}) == found.runs
    assert all((aside / path / "verdict.json").is_file() for path in paths)
    labs = {path.rpartition("-")[2] for path in paths}
    assert len(labs) == found.runs
    assert not (aside / RUNS / ".work").exists()


def test_why_no_run_can_be_made_is_told(failed: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHOWS, raising=False)
    monkeypatch.setattr(pool_runs, "run_command", copied)
    with pytest.raises(ConfigError, match="no nodes"):
        shrink_run(failed.path, within_s=600, sure=3, workers=2)


def test_a_lab_of_one_name_for_several_workers_is_refused(failed: RunDir) -> None:
    with pytest.raises(ConfigError, match="each worker has a lab of its own"):
        shrink_run(failed.path, within_s=600, sure=3, workers=2, lab_id="mine")
