"""Processes: those of this host, those that we start, and how ours ends.

A plug-in or library that ends the process is an error of theirs, and no exit code of ours:
`quit_by` is that error, `ends_by_us_alone` is for what does not even raise SystemExit. Commands of
dstest run in processes of their own (`dstest`), so that nothing of them disturbs a test or a
notebook that calls them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from dstest.core.errors import Exit, HarnessError, HistoryError
from dstest.core.limits import HEAL_S

if TYPE_CHECKING:
    from dstest.core.check import CheckResult


def ends_by_us_alone() -> None:
    """From here on `os._exit` in this process raises SystemExit, as `sys.exit` does. Processes that
    are forked from it end as ever."""
    own, at_once = os.getpid(), os._exit

    def ended(status: int) -> NoReturn:
        if os.getpid() != own:
            at_once(status)
        if threading.current_thread() is not threading.main_thread():
            # Nobody above a thread would hear of it, and what has given up must not go on.
            sys.stderr.write(f"dstest: a library ended the process with {status} in a thread\n")
            at_once(int(Exit.HARNESS))
        raise SystemExit(status)

    os._exit = ended


def quit_by(end: BaseException) -> HarnessError:
    """The error that it is for us where a plug-in wanted to end the process."""
    from dstest.core.registry import error_line

    return HarnessError(
        f"{error_line(end)}: a plug-in tried to end dstest", remedy="raise another exception there"
    )


DSTEST: Final = (sys.executable, "-m", "dstest")


def environment() -> dict[str, str]:
    """A project may have folders that are called as packages of ours: the current directory is not
    on their path."""
    return {**os.environ, "PYTHONSAFEPATH": "1"}


def dstest(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. One that is interrupted is asked to end, and has the time that it
    needs to heal its nodes."""
    process = subprocess.Popen(
        [*DSTEST, *words], cwd=cwd, env=environment(), text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate()
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=HEAL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def check_answer(path: Path, words: Sequence[str], cwd: Path) -> CheckResult:
    """What `dstest check` answers about a file or a run. Raises HistoryError where it has none."""
    import msgspec

    from dstest.core.check import CheckResult, RunVerdict

    done = dstest(["check", str(path), "--json", *words], cwd)
    said = done.stderr.strip() or "it said nothing"
    try:
        result = msgspec.json.decode(done.stdout, type=CheckResult)
    except msgspec.DecodeError:
        raise HistoryError(f"dstest check ended with {done.returncode}: {said}") from None
    codes = {{True: 0, False: 1, "unknown": 3}[result.valid]}
    if result.valid is not False and isinstance(result.run, RunVerdict) and result.run.exit:
        codes = {3, result.run.exit}  # a run that is no pass ends no better
    if done.returncode not in codes:
        raise HistoryError(f"dstest check said {result.valid} and ended with {done.returncode}")
    return result


def take_stdout() -> int:
    """A descriptor of standard output for the caller alone, which writes one answer there. For
    everybody else in this process, such as plug-ins that print, and for the processes that it
    starts, standard output is standard error from here on."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


_PR_SET_PDEATHSIG: Final = 1
"""prctl(2)"""


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """This process gets the signal when the thread that started it ends."""
    ending_with_parent(number)()


def ending_with_parent(number: signal.Signals) -> Callable[[], None]:
    """The same for a child between fork and exec, where nothing may be loaded any more."""
    libc = ctypes.CDLL(None, use_errno=True)

    def end() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)

    return end


def pids() -> list[int]:
    """All that there are now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def each(name: str) -> Iterator[tuple[int, bytes]]:
    """The file of this name of each process that may be read and is still there: `cmdline`, `stat`,
    `environ`.

    Any process may end while it is looked at: a glob over /proc raises then.
    """
    for pid in pids():
        with contextlib.suppress(OSError):
            yield pid, Path(f"/proc/{pid}/{name}").read_bytes()


def children_of(pid: int) -> set[int]:
    """Those that all threads of a process have started and that are still its own."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
                found |= {int(word) for word in words}
    return found
