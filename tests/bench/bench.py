"""`make bench`: every figure that the documentation quotes, printed from one run.

python tests/bench/bench.py [checkers] [every] [files] [lin] [txn] [exact] [ingest] [fan]
    [report] [serve] [lab] [spec] [sim] [start] [rate] [run] [live] [monitor]
    [chaos]

Ratios to Elle are to figures that were measured apart: no race in one run has been done.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from pathlib import Path

PARTS = (
    *("checkers", "every", "files", "lin", "txn", "stream", "exact", "ingest", "fan", "report"),
    *("serve", "lab", "spec", "sim"),
    "start",
    *("rate", "run", "live", "monitor"),
    "chaos",
)


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = set(wanted) - set(PARTS)
    if unknown:
        sys.stderr.write(f"no such part: {', '.join(sorted(unknown))}; {', '.join(PARTS)}\n")
        return 2
    here = Path(__file__).parent
    sys.path[:0] = [str(here), str(here.parent / "oracles"), str(here.parent / "unit")]
    load = os.getloadavg()[0]
    sys.stdout.write(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}\n")
    for part in wanted:
        sys.stdout.write(f"{part}\n")
        sys.stdout.flush()
        importlib.import_module(f"bench_{part}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
