"""A night that is killed with -9, and gone on with: nothing is lost, and nothing is run twice that
had come to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from night_cells import cell, run_offline

from dstest.campaign.nightly.driver import resume
from dstest.campaign.nightly.state import Night, NightDir
from dstest.core import processes
from dstest.core.errors import ConfigError, Exit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CELLS = (
    cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")
    + cell(16, id="ended")
    + cell(17, id="cut-off")
    + cell(11, id="not-begun")
)
WAIT_S = 100.0


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "never"
        time.sleep(0.1)


def _night(folder: Path) -> Night | None:
    try:
        return NightDir.open(folder / "store" / "latest").read()
    except ConfigError:
        return None


def _children(pid: int) -> set[int]:
    found = set()
    for one, stat in processes.each("stat"):
        fields = stat.rsplit(b")", 1)[1].split()
        if int(fields[1]) == pid and fields[0] != b"Z":
            found |= {one, *_children(one)}
    return found


def test_a_night_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("night_cells.py")), str(tmp_path), CELLS]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "said.txt").open("wb") as said:
        child = subprocess.Popen(argv, env=env, stdout=said, stderr=said)

    def stuck() -> bool:
        assert child.poll() is None, (tmp_path / "said.txt").read_text()
        night = _night(tmp_path)
        running = [] if night is None else [item.cell for item in night.items if item.running]
        return running == ["ended", "cut-off"] and (tmp_path / "marks" / "16").exists()

    _until(stuck)
    others = _children(child.pid)
    with pytest.raises(ConfigError, match="still running"):
        resume(tmp_path / "store" / "latest", at=None, workers=None, say=print)
    child.send_signal(signal.SIGKILL)
    child.wait()
    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in others))
    before = _night(tmp_path)
    assert before is not None
    assert [len(item.tries) for item in before.items] == [1, 0, 0, 0]

    code, directory, night = run_offline(tmp_path, monkeypatch, CELLS)
    assert code == Exit.PASS
    assert night.number == 1, "the same night goes on"
    assert [len(item.tries) for item in night.items] == [1, 1, 1, 1]
    by_cell = {item.cell: item.tries[0] for item in night.items}
    assert by_cell["known-bug"].started == before.items[0].tries[0].started
    assert by_cell["ended"].worker == "", "its run had come to its end, and was not done again"
    assert by_cell["cut-off"].worker != ""
    assert not (directory.cells / ".work").exists()
    assert len(night.gone_on) == 1
    assert [item.cell for item in night.items if item.died] == ["cut-off"]
    page = (directory.path / "report.html").read_text()
    assert "went on 1 time" in page and "1 run died with it, of cut-off" in page
    with pytest.raises(ConfigError, match="is over"):
        resume(directory.path, at=None, workers=None, say=print)


def test_a_state_that_was_cut_off_is_never_read(tmp_path: Path) -> None:
    """night.json is replaced as a whole: a kill in mid-write leaves the one before."""
    path = tmp_path / "n" / "x-1"
    path.mkdir(parents=True)
    (path / "night.json.partial").write_text('{"name": "n"')
    with pytest.raises(ConfigError, match="not the directory of a night"):
        NightDir.open(path)
    (path / "night.json").write_bytes(msgspec.json.encode({"name": "n"})[:-1])
    with pytest.raises(ConfigError, match="cannot be read"):
        NightDir.open(path).read()
