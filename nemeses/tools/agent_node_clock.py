"""Runs on a node: its own clock, told, stepped, steered and set right again.

    node_clock FILE read
    node_clock FILE step NS        CLOCK_REALTIME ahead by so much (behind, below zero)
    node_clock FILE steer PPM      runs so much faster, as a time daemon would make it
    node_clock FILE back           as it was before the first of these; harmless without them

FILE keeps what the clock was, before anything is done to it: its distance from the raw clock, which
nobody can set or steer. Each prints a JSON object: `boot`, `real_ns` and `raw_ns` of one instant,
`tick` and `freq` as adjtimex has them, and `true_ns`, the distance that FILE keeps. Standard
library only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import time

ADJ_FREQUENCY = 0x0002
ADJ_TICK = 0x4000
TICK = 10_000
PPM_PER_TICK = 100


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("constant", "precision", "tolerance")),
        *((name, ctypes.c_long) for name in ("seconds", "microseconds", "tick")),
        ("rest", ctypes.c_char * 128),
    )


def _adjtimex(modes: int = 0, *, freq: int = 0, tick: int = 0) -> _Timex:
    asked = _Timex(modes=modes, freq=freq, tick=tick)
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"adjtimex: {os.strerror(number)}")
    return asked


def _pair() -> tuple[int, int]:
    """Both clocks at one instant: of some readings, those that are nearest to each other."""
    rows = []
    for _ in range(5):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        rows.append((after - before, real, (before + after) // 2))
    return min(rows)[1:]


def _kept(path: str) -> dict[str, int]:
    with contextlib.suppress(OSError), open(path) as file:
        kept: dict[str, int] = json.load(file)
        return kept
    return {}


def _keep(path: str) -> None:
    if _kept(path):
        return
    real, raw = _pair()
    state = {"true_ns": real - raw, "freq": _adjtimex().freq}
    with open(f"{path}.new", "w") as file:
        json.dump(state, file)
    os.replace(f"{path}.new", path)


def _set(distance_ns: int) -> None:
    """The clock is this much ahead of the raw one."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) + distance_ns
    time.clock_settime_ns(time.CLOCK_REALTIME, now)


def _back(path: str) -> None:
    kept = _kept(path)
    if kept:
        _adjtimex(ADJ_FREQUENCY | ADJ_TICK, freq=kept["freq"], tick=TICK)
        _set(kept["true_ns"])
        os.unlink(path)


def main(path: str, verb: str, words: list[str]) -> None:
    """Do it, then print how things are."""
    if verb == "step":
        _keep(path)
        real, raw = _pair()
        _set(real - raw + int(words[0]))
    elif verb == "steer":
        _keep(path)
        _adjtimex(ADJ_TICK, tick=TICK + int(words[0]) // PPM_PER_TICK)
    elif verb == "back":
        _back(path)
    real, raw = _pair()
    found = _adjtimex()
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    shown = {"boot": boot, "real_ns": real, "raw_ns": raw, "tick": found.tick, "freq": found.freq}
    shown["true_ns"] = _kept(path).get("true_ns")
    sys.stdout.write(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
