"""docs/notebook.md: its code is executed, on a run that failed and on one that passed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from gate_store import run_at

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebook.md"


@pytest.mark.parametrize(("seed", "bug", "verdict"), [(4, True, "FAIL-"), (1, False, "PASS-smoke")])
def test_the_page_does_what_it_says(seed: int, bug: bool, verdict: str, tmp_path: Path) -> None:
    run = run_at(tmp_path / "store", seed, bug=bug)
    (tmp_path / "store" / "latest").symlink_to(run.path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    code = "import matplotlib\nmatplotlib.use('Agg')\n" + "\n".join(blocks)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(verdict) and done.stdout.rstrip().endswith(str(not bug))
    assert ("nonlinearizable" in done.stdout) is bug
    assert (tmp_path / "outcomes.png").stat().st_size > 1000
