"""Coverage-guided fuzzing of the C core: `fuzz.py [--seconds N] [--hold FILE] [TARGET...]`.

Builds each target with libFuzzer, ASan and UBSan, seeds it from `corpus/TARGET` and runs it for the
given time. Exit 1 = something crashed, hung or leaked; the input is in .fuzz/TARGET. `--merge`
afterwards replaces `corpus/TARGET` by a few files that together reach nearly all that was reached;
those whose names have a dash are regressions, and stay.

Targets look for more than crashes: one thread, two threads and a small budget read the same, JSON
says the same as EDN, a budget, a stop flag or another demanded model does not change a finished
answer, registers are judged as by brute force. `txn-spent` and `exact-large` have limits so low
that small histories take the ways of large ones. gzip is zlib by way of Python and is not fuzzed.

While the file named by --hold exists nothing runs, and the time does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CSRC = ROOT / "checkers" / "csrc"
BUILD = ROOT / ".fuzz"
SANITIZE = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *SANITIZE]
LIMITS = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", "-timeout=20", "-print_final_stats=1"]
INTERRUPTED = 72
"""libFuzzer's exit code after SIGINT."""


@dataclass(frozen=True, slots=True)
class Target:
    """A harness with the sources it needs, as patterns."""

    harness: str
    sources: str
    defines: tuple[str, ...] = ()
    length_max: int = 4096


_READER = ("-DING_SMALL=64", "-DWORTH_A_THREAD=1", "-Dpthread_create=no_thread")

_SPENT = ("-DWORK_PER_SEARCH=8", "-DWORK_IN_ALL=64", "-DEMPTY_SLOTS=4", "-DLOOKS_MAX=2")
"""Small histories take the ways of large ones."""

_EXACT = "common/core_*.c txn/*.c iso/*.c ord/*.c"

_LARGE = ("-DISO_LARGE=0", "-DISO_EMPTY=0", "-DISO_MANY=0", "-DISO_REPAIRS=0", "-DORD_NEARBY=2")

TARGETS = {
    "jsonl": Target("target_ingest.c", "common/core_*.c ingest/*.c", ("-DNOTATION=0", *_READER)),
    "edn": Target("target_ingest.c", "common/core_*.c ingest/*.c", ("-DNOTATION=1", *_READER)),
    "json": Target(
        "target_ingest.c",
        "common/core_*.c ingest/*.c",
        ("-DNOTATION=2", "-DMAPPED_MIN=256", *_READER),
    ),
    "ops": Target(
        "target_ops.c",
        "common/core_*.c ingest/*.c ops/*.c",
        ("-DING_SMALL=64", "-DOPS_WORTH_A_THREAD=1", "-Dpthread_create=no_thread"),
    ),
    "lin": Target("target_lin.c", "common/core_*.c lin/*.c mon/mon_chain.c", length_max=256),
    "txn": Target("target_txn.c", "common/core_*.c txn/*.c", length_max=512),
    "exact": Target("target_txn.c", _EXACT, ("-DEXACT",), length_max=512),
    "exact-large": Target("target_txn.c", _EXACT, ("-DEXACT", *_LARGE), length_max=512),
    "sess": Target(
        "target_sess.c",
        "common/core_*.c ingest/*.c sess/*.c",
        ("-DSESS_SPARSE=1", "-DSESS_SPAN_MIN=4", "-DSESS_DIGITS_MAX=50"),
    ),
    "stream": Target(
        "target_stream.c",
        "common/core_*.c ingest/*.c txn/*.c stream/*.c",
        ("-DSTREAM_NAMES_MAX=8", *_READER),
        length_max=512,
    ),
    "txn-spent": Target("target_txn.c", "common/core_*.c txn/*.c", _SPENT, length_max=512),
}


@dataclass(slots=True)
class Result:
    """What one target came to."""

    seconds: float = 0.0
    executions: int = 0
    edges: int = 0
    features: int = 0
    crashes: int = 0


def sources(target: Target) -> list[str]:
    """C files of a target; the glue to Python is not among them."""
    found = {p for pattern in target.sources.split() for p in CSRC.glob(pattern)}
    files = [p for p in sorted(found) if not p.name.endswith("module.c")]
    return [str(p) for p in (HERE / target.harness, *files)]


def build(name: str) -> Path:
    """The libFuzzer binary of a target."""
    target = TARGETS[name]
    compiler = next(filter(shutil.which, ("clang-14", "clang")), None)
    if compiler is None:
        raise SystemExit("no clang; `make fuzz` installs it")
    BUILD.joinpath(name, "corpus").mkdir(parents=True, exist_ok=True)
    binary = BUILD / name / "fuzz"
    command = [compiler, *FLAGS, *target.defines, f"-I{CSRC}", *sources(target)]
    subprocess.run([*command, "-o", str(binary)], check=True, timeout=300)
    return binary


def read_log(log: Path, result: Result) -> None:
    """Adds what a run wrote about itself."""
    text = log.read_text(errors="replace")
    executed = re.findall(r"stat::number_of_executed_units:\s+(\d+)", text)
    covered = re.findall(r"cov: (\d+) ft: (\d+)", text)
    result.executions += int(executed[-1]) if executed else 0
    if covered:
        result.edges, result.features = map(int, covered[-1])


def held(hold: Path | None) -> bool:
    """Does somebody want the machine quiet?"""
    return hold is not None and hold.exists()


def run_once(command: list[str], log: Path, hold: Path | None) -> tuple[int, float]:
    """Exit code and seconds of one run, which ends early when it is held."""
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)
        try:
            while process.poll() is None:
                time.sleep(1)
                if held(hold):
                    process.send_signal(signal.SIGINT)
                    process.wait(60)
        finally:
            if process.poll() is None:
                process.kill()
    return process.returncode, time.monotonic() - began


def fuzz(name: str, seconds: int, hold: Path | None) -> Result:
    """Runs one target until it ran for `seconds` or crashed."""
    binary, result, run = build(name), Result(), 0
    home = binary.parent
    while result.seconds < seconds and result.crashes == 0:
        if held(hold):
            time.sleep(2)
            continue
        left = max(1, round(seconds - result.seconds))
        log = home / f"log-{run}.txt"
        command = [str(binary), f"-max_total_time={left}", f"-artifact_prefix={home}/", *LIMITS]
        command += [f"-max_len={TARGETS[name].length_max}"]
        if (HERE / f"{name}.dict").exists():
            command.append(f"-dict={HERE / f'{name}.dict'}")
        seeds = HERE / "corpus" / name
        command += [str(home / "corpus"), *([str(seeds)] if seeds.is_dir() else [])]
        code, took = run_once(command, log, hold)
        run += 1
        result.seconds += took
        read_log(log, result)
        result.crashes += code not in (0, INTERRUPTED)
    return result


def reached(control: Path) -> dict[Path, set[str]]:
    """What each file reaches, from the control file of a merge."""
    lines = control.read_text().splitlines()
    names = [Path(name) for name in lines[2 : 2 + int(lines[0])]]
    found: dict[Path, set[str]] = {}
    for line in lines[2 + len(names) :]:
        kind, number, *rest = line.split()
        if kind == "FT":
            found.setdefault(names[int(number)], set()).update(rest)
    return found


def chosen(found: dict[Path, set[str]], files: int, size: int) -> Iterator[Path]:
    """The files that reach the most, one after the other, within a number and a size."""
    missing = set().union(*found.values())
    left = {path: path.stat().st_size for path in found}
    while files > 0 and left and missing:
        best = max(left, key=lambda p: (len(found[p] & missing), -left[p], p.name))
        if not found[best] & missing:
            return
        if left[best] <= size:
            missing -= found[best]
            files, size = files - 1, size - left[best]
            yield best
        del left[best]


def merge(name: str, files: int = 60, size: int = 1 << 16) -> None:
    """Replaces the small corpus by the files that cover the most edges."""
    binary = build(name)
    home, seeds = binary.parent, HERE / "corpus" / name
    merged, control = home / "merged", home / "control"
    shutil.rmtree(merged, ignore_errors=True)
    control.unlink(missing_ok=True)
    merged.mkdir()
    seeds.mkdir(parents=True, exist_ok=True)
    command = [str(binary), "-set_cover_merge=1", "-use_counters=0"]
    command += [f"-merge_control_file={control}", str(merged), str(seeds), str(home / "corpus")]
    subprocess.run(command, check=True, timeout=900, stderr=subprocess.DEVNULL)
    kept = [path.read_bytes() for path in chosen(reached(control), files, size)]
    for old in seeds.iterdir():
        if "-" not in old.name:
            old.unlink()
    for text in kept:
        (seeds / hashlib.sha1(text).hexdigest()[:12]).write_bytes(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    given = parser.parse_args()
    crashes = 0
    for name in given.targets or list(TARGETS):
        if given.merge:
            merge(name)
            continue
        r = fuzz(name, given.seconds, given.hold)
        crashes += r.crashes
        sys.stdout.write(
            f"{name}: {r.seconds:.0f} s, {r.executions} executions, {r.edges} edges, "
            f"{r.features} features, {r.crashes} crashes\n"
        )
        sys.stdout.flush()
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
