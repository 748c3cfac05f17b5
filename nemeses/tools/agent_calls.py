"""Runs on a node: how often threads of some processes are inside some system calls on files.

    agent_calls.py SECONDS GAP_S FOLDER CALL,... PID ...

Looks every GAP_S for threads inside one of the calls (numbers) on a file below FOLDER, and prints
`taken=N busy=N threads=N ns=N`: samples, those with such a thread, such threads over all samples,
and how long it took. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import os
import sys
import time


def _is_inside(pid: str, task: str, calls: set[int], folder: str) -> bool:
    try:
        with open(f"/proc/{pid}/task/{task}/syscall") as file:
            words = file.read().split()
        # A thread that runs is `running`; one that waits, but not in a call, is `-1`.
        if len(words) < 2 or not words[0].isdigit() or int(words[0]) not in calls:
            return False
        path = os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")
    except OSError:
        return False  # it has ended, or is out of the call, meanwhile
    return path.startswith(folder + "/")


def _threads_inside(pids: list[str], calls: set[int], folder: str) -> int:
    found = 0
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        found += sum(_is_inside(pid, task, calls, folder) for task in tasks)
    return found


def main(argv: list[str]) -> None:
    """Sample, then print."""
    seconds, gap_s, folder = float(argv[0]), float(argv[1]), argv[2]
    calls = {int(number) for number in argv[3].split(",")}
    taken = busy = threads = 0
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        inside = _threads_inside(argv[4:], calls, folder)
        taken, busy, threads = taken + 1, busy + (inside > 0), threads + inside
        time.sleep(gap_s)
    ns = int(passed * 1e9)
    sys.stdout.write(f"taken={taken} busy={busy} threads={threads} ns={ns}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
