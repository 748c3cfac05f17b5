"""Runs on a node: how often threads of some processes are inside some system calls on files.

    agent_calls.py SECONDS GAP_S FOLDER CALL,... CALL,... SOCKET PID ...

Looks every GAP_S for threads inside one of the calls (numbers) on a file below FOLDER, of the
second ones on a file that is open with O_SYNC or O_DSYNC, and prints
`taken=N busy=N threads=N ns=N syncs=N`: samples, those with such a thread, such threads over all
samples, how long it took, and how many syncs the file system at SOCKET counted meanwhile (0 where
SOCKET is empty). Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import os
import socket
import sys
import time

O_DSYNC = 0o10000
"""Part of O_SYNC, too."""


def _syncs_writes(pid: str, fd: int) -> bool:
    with open(f"/proc/{pid}/fdinfo/{fd}") as file:
        flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    return bool(int(flags, 8) & O_DSYNC)


def _is_inside(pid: str, task: str, calls: set[int], synced: set[int], folder: str) -> bool:
    try:
        with open(f"/proc/{pid}/task/{task}/syscall") as file:
            words = file.read().split()
        # A thread that runs is `running`; one that waits, but not in a call, is `-1`.
        if len(words) < 2 or not words[0].isdigit():
            return False
        call, fd = int(words[0]), int(words[1], 16)
        if call not in calls and call not in synced:
            return False
        below = os.readlink(f"/proc/{pid}/fd/{fd}").startswith(folder + "/")
        return below and (call in calls or _syncs_writes(pid, fd))
    except OSError:
        return False  # it has ended, or is out of the call, meanwhile


def _threads_inside(pids: list[str], calls: set[int], synced: set[int], folder: str) -> int:
    found = 0
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        found += sum(_is_inside(pid, task, calls, synced, folder) for task in tasks)
    return found


def _syncs(path: str) -> int:
    """How many the file system has counted."""
    if not path:
        return 0
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(b"get\n")
        text = peer.makefile().readline()
    return int(dict(word.split("=") for word in text.split())["syncs"])


def main(argv: list[str]) -> None:
    """Sample, then print."""
    seconds, gap_s, folder = float(argv[0]), float(argv[1]), argv[2]
    calls, synced = ({int(number) for number in text.split(",") if number} for text in argv[3:5])
    taken = busy = threads = 0
    syncs, began = -_syncs(argv[5]), time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        inside = _threads_inside(argv[6:], calls, synced, folder)
        taken, busy, threads = taken + 1, busy + (inside > 0), threads + inside
        time.sleep(gap_s)
    syncs += _syncs(argv[5])
    ns = int(passed * 1e9)
    sys.stdout.write(f"taken={taken} busy={busy} threads={threads} ns={ns} syncs={syncs}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
