"""Runs on a node: a command with a limit of time, and with whatever the command starts.

    python3 -I -S -c TEXT SECONDS PROGRAM [WORD]...

It becomes the parent of all orphans among the command's processes, so that one which has detached
itself (`setsid`, `nohup`, twice forked) is found after the limit and ended as well. What a command
that ends in time leaves running stays. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

TIMED_OUT = 124
"""Status after the limit, where nothing of the command runs any more."""

LEFT = 125
"""Status after the limit, where something of it does, or nobody can tell."""

PR_SET_CHILD_SUBREAPER = 36
TERM_S = 1.0
KILL_S = 1.5
STEP_S = 0.05
NAMES_MAX = 20


def takes_orphans() -> bool:
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False


def parents() -> dict[int, tuple[int, str, str]]:
    """Of all processes: parent, state, name."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    head, _, rest = file.read().rpartition(")")
                words = rest.split()
                found[int(entry)] = (int(words[1]), words[0], head.partition("(")[2])
    return found


def below(pid: int) -> dict[int, str]:
    """Process -> name, of those that live and descend from this one."""
    rows = parents()
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        for child, (parent, state, name) in rows.items():
            if parent == above and child not in found:
                waiting.append(child)
                if state not in "ZX":
                    found[child] = name
    return found


def reap() -> dict[int, int]:
    """Process -> status, of children that have ended."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def end(sign: int, within_s: float) -> tuple[set[str], dict[int, str]]:
    """Send all that descends from us this signal, again and again; who got it, and who is left."""
    told: set[str] = set()
    deadline = time.monotonic() + within_s
    got: set[int] = set()
    while True:
        reap()
        left = below(os.getpid())
        if not left or time.monotonic() > deadline:
            return told, left
        for pid, name in left.items():
            if sign == signal.SIGKILL or pid not in got:
                got.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, sign)
                    told.add(f"{name} ({pid})")
        time.sleep(STEP_S)


def few(names: list[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def late(seconds: float, whole: bool) -> int:
    """End all of it, and say what came of that."""
    ended, _ = end(signal.SIGTERM, TERM_S)
    killed, left = end(signal.SIGKILL, KILL_S)
    say(f"no end within {seconds:g} s; ended: {few(sorted(ended | killed)) or 'nothing'}")
    if left:
        say(f"still there: {few([f'{name} ({pid})' for pid, name in left.items()])}")
    elif not whole:
        say("this kernel does not tell what has detached itself: that may still run")
    return LEFT if left or not whole else TIMED_OUT


def say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dstest: {text}\n")
        sys.stderr.flush()


def unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def run(seconds: float, argv: list[str]) -> int:
    """The status of the command, 128 and the signal where one has ended it."""
    whole = takes_orphans()
    deadline = time.monotonic() + seconds
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        child = subprocess.Popen(argv, preexec_fn=unblock)  # not let go: it would reap
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        return 127
    while True:
        ended = reap()
        if child.pid in ended:
            status = ended[child.pid]
            return status if status >= 0 else 128 - status
        left = deadline - time.monotonic()
        if left <= 0:
            return late(seconds, whole)
        signal.sigtimedwait({signal.SIGCHLD}, left)


def main() -> None:
    status = run(float(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
