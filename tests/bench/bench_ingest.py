"""Reading transactional histories: seconds and bytes per transaction.

    python tests/bench/bench_ingest.py [transactions]

Prints for JSONL and EDN, with one and with two threads: wall and CPU seconds, MB/s, and the ratio
of EDN to JSONL. Reading the file from the page cache is included.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from checkers.txn.ingest import load
from dstest.history.generator.histories import FORMATS, Spec, events, lines

ROUNDS = 3


def best_of(path: Path, threads: int) -> tuple[float, float]:
    """Least wall and CPU seconds of a few rounds."""
    walls, cpus = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        load(path, threads=threads)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def main(txns: int = 1_000_000) -> None:
    spec = Spec(txns=txns, concurrency=20, fail_share=0.01, info_share=0.001)
    wall_of: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for fmt in FORMATS:
            path = Path(folder) / f"history.{fmt}"
            with path.open("wb") as file:
                file.writelines(lines(events(spec), spec, fmt))
            size = path.stat().st_size
            for threads in (1, 2):
                wall, cpu = best_of(path, threads)
                wall_of[fmt, threads] = wall
                print(  # noqa: T201
                    f"{fmt} {txns} txns {size / 1e6:.0f} MB threads {threads}: "
                    f"{wall:.3f} s wall, {cpu:.3f} s CPU, {size / wall / 1e6:.0f} MB/s, "
                    f"{cpu / txns * 1e9:.0f} ns CPU/txn"
                )
    for threads in (1, 2):
        ratio = wall_of["edn", threads] / wall_of["jsonl", threads]
        print(f"EDN/JSONL threads {threads}: {ratio:.2f}")  # noqa: T201
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak RSS {peak:.0f} MB, load {Path('/proc/loadavg').read_text().split()[0]}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
