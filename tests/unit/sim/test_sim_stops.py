"""`dstest run --lab sim` that does not come to its end: signals, and a disk that is full."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.core.clock import sleep_s
from dstest.core.errors import Exit, HarnessError
from dstest.core.run_record import RunSpec
from dstest.history.layout import EVENTS, RunDir
from dstest.history.segment import SegmentWriter
from dstest.history.sums import SUMS
from dstest.runner import session, simulated_run
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, run_session
from dstest.runner.simulated_run import SimulatedLoad, SimulatedRun
from dstest.runner.worker import Worker

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FULL = OSError(errno.ENOSPC, "No space left on device")


def ran(store: Path, **changes: Any) -> Finished:
    spec = RunSpec(
        system="toykv", lab="sim", nodes=3, concurrency=6, time_limit_s=24.0, seed=1, rate=65.0
    )
    plugins = resolve(msgspec.structs.replace(spec, **changes), ["fault_s=4"])
    return run_session(plugins, store=store, ui=Progress(io.StringIO()))


def test_a_full_disk_is_told_as_on_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SegmentWriter.append

    def append(self: Any, event: Any) -> None:
        if "worker" in str(getattr(self, "path", "worker")) and next(left, None) is None:
            raise FULL
        whole(self, event)

    left = iter(range(500))
    monkeypatch.setattr(SegmentWriter, "append", append)
    done = ran(tmp_path)
    assert done.exit_code == Exit.HARNESS and not done.verdict.verdict.passed
    assert "no space left on the disk of" in done.failure.message
    assert done.failure.remedy.startswith("free space there")


@pytest.mark.parametrize(
    ("ended", "said"),
    [(None, "nobody had told it to"), (FULL, "no space left"), (KeyError("x"), "KeyError: 'x'")],
)
def test_a_load_that_ends_early_says_why(
    ended: Exception | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(self: Worker, clients: Any) -> None:
        if ended is not None:
            raise ended

    monkeypatch.setattr(Worker, "load", load)
    done = ran(tmp_path)
    assert done.exit_code == Exit.HARNESS and said in done.failure.message
    assert "NoneType" not in done.failure.message


def test_no_place_for_what_happened_is_an_error_that_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path.write_bytes

    def write_bytes(self: Path, data: bytes) -> int:
        if self.name.startswith(EVENTS):
            raise FULL
        return whole(self, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    done = ran(tmp_path)
    assert done.exit_code == Exit.HARNESS and "no space left" in done.failure.message
    assert not done.verdict.verdict.passed and (done.path / SUMS).is_file()


def test_signals_after_the_first_are_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two come while the load is stopped, which is the middle of the clean-up."""
    whole = SimulatedLoad.stop

    def check(self: SimulatedLoad, now_ns: int | None = None) -> None:
        if next(looks, None) is None:
            signal.raise_signal(signal.SIGINT)

    async def stop(self: SimulatedLoad) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        await whole(self)

    looks = iter(range(5))
    monkeypatch.setattr(SimulatedLoad, "check", check)
    monkeypatch.setattr(SimulatedLoad, "stop", stop)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    done = ran(tmp_path)
    assert done.exit_code == Exit.INTERRUPTED and done.failure.message == "stopped by SIGINT"
    assert (done.path / SUMS).is_file() and (done.path / EVENTS).is_file()
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_in_the_clean_up_of_a_whole_run_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SimulatedRun._clean_up

    async def clean_up(self: SimulatedRun, failure: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        await whole(self, failure)

    monkeypatch.setattr(SimulatedRun, "_clean_up", clean_up)
    done = ran(tmp_path)
    assert done.exit_code == Exit.PASS and done.failure is None


def test_a_first_signal_while_it_is_judged_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(run: RunDir) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(session, "judge_reported", judge)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path)


def test_a_turn_that_never_ends_is_interrupted_in_its_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: SimulatedLoad, now_ns: int | None = None) -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(10**9):
            pass

    monkeypatch.setattr(SimulatedLoad, "check", check)
    monkeypatch.setattr(simulated_run, "_PATIENCE_S", 0.2)
    done = ran(tmp_path)
    assert done.exit_code == Exit.INTERRUPTED and (done.path / SUMS).is_file()


@pytest.mark.parametrize("between_s", [0.0, 0.02])
def test_two_signals_leave_a_judged_run_and_no_traceback(tmp_path: Path, between_s: float) -> None:
    argv = ["run", "--lab", "sim", "--system", "toykv", "--workload", "set", "--nemesis", "kill"]
    argv += ["--seed", "2", "--time-limit", "600", "--store", str(tmp_path / "s")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = tmp_path / "said"
    with (
        said.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "dstest", *argv], env=env, stdout=out, stderr=out
        ) as process,
    ):
        for _ in range(300):
            if "load   " in said.read_text():
                break
            sleep_s(0.1)
        process.send_signal(signal.SIGINT)
        sleep_s(between_s)
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    text = said.read_text()
    # One that comes when all is done ends Python itself, which a shell tells in the same way.
    assert code in (Exit.INTERRUPTED, -signal.SIGINT), text
    assert "Traceback" not in text and "Exception ignored" not in text
    (status,) = (tmp_path / "s").glob("*/*/status")
    assert status.read_text().startswith("ended early: ")
    assert RunDir(status.parent).read_meta() is not None


def test_a_run_that_could_not_begin_on_a_full_disk_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path.write_bytes

    def write_bytes(self: Path, data: bytes) -> int:
        if self.name.startswith("schedule.json"):
            raise FULL
        return whole(self, data)

    (tmp_path / "s").mkdir()
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(HarnessError, match="cannot make a run directory"):
        ran(tmp_path / "s")
    assert [*(tmp_path / "s").rglob("*")] == []
