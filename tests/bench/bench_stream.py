"""list-append judged as it is read, against the checker that holds it all.

`dstest check` as a whole, each in a process of its own; ratios of CPU time, and of memory beyond
what an empty history takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dstest.history.generator.histories import Spec, events, lines

COUNT = int(os.environ.get("DSTEST_BENCH_STREAM_TXNS", "300000"))


class Took(NamedTuple):
    cpu_s: float
    resident_mb: float


def checked(path: Path, *options: str) -> Took:
    """What a check takes that must find nothing wrong, or nothing to judge."""
    command = [sys.executable, "-m", "dstest", "check", str(path), "--json", *options]
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    after = os.times()
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return Took(cpu_s, json.loads(done.stdout)["peak_rss_mb"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder) / "history.jsonl", Path(folder) / "empty.jsonl"
        spec = Spec(txns=COUNT, seed=3)
        began = time.monotonic()
        with path.open("wb") as file:
            file.writelines(lines(events(spec), spec, "jsonl"))
        none = Spec(txns=0)
        empty.write_bytes(b"".join(lines(events(none), none, "jsonl")))
        sys.stdout.write(f"  {COUNT:,} transactions, made in {time.monotonic() - began:.0f} s\n")
        idle = checked(empty), checked(empty, "--stream")
        whole, stream = checked(path), checked(path, "--stream", "--budget-mb", "64")
        cpu = (stream.cpu_s - idle[1].cpu_s) / max(whole.cpu_s - idle[0].cpu_s, 1e-9)
        sys.stdout.write(f"  --stream / whole: CPU time {cpu:.2f}\n")
        kept = stream.resident_mb - idle[1].resident_mb, whole.resident_mb - idle[0].resident_mb
        sys.stdout.write(
            f"  --stream --budget-mb 64 / whole: memory {kept[0]:.0f} MB / {kept[1]:.0f} MB = "
            f"{kept[0] / max(kept[1], 1e-9):.2f} (the whole file is mapped, and counts)\n"
        )
