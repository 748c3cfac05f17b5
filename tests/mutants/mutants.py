"""How many of our own mutants the tests kill: the measure of their power.

    mutants.py make [--seed N]     fill the kept set (mutants.jsonl) where lines have gone
    mutants.py map                 run the tests once, and note which lines each of them executes
    mutants.py run [--only TEXT] [--limit-s N]   change one line at a time and run the tests that
                                   execute it, until one fails; the table, and who survived

The map is in build/mutants/, the work is done on copies of the tree. Another suite is measured with
`--tests DIR`, a `tests` folder of another version: the product stays this one. `--first FILE`, the
result of an earlier run, has each mutant tried by the test that killed it there before all others;
`--go-on FILE` tries those alone that nothing has killed yet.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import accumulate
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import Any, Final

import making
import pytest
from making import AREAS, ROOT, Mutant

BUILD: Final = ROOT / "build" / "mutants"
PRODUCT: Final = ("checkers", "clusters", "dstest", "nemeses", "workloads")
LEFT_OUT: Final = "not lab and not selftest and not long and not browser"
TESTS_MAX: Final = 600
TESTS_S: Final = 100.0
"""So many tests are run of a line that more execute, and so long by the map: the quickest."""

LIMIT_S: Final = 300.0
"""Tests that run so long with a mutant hang by it: it is killed."""

COMPARING: Final = ("tests/property/", "tests/detection/", "tests/corpus/")
_WRAPPED: Final = {"lin": "lin", "aut": "lin", "mon": "lin", "ops": "lin", "ingest": "txn"}
"""Of a room of the C core the Python package that calls it; `txn` of those that are not named."""


class Durations:
    """A plug-in of pytest that keeps how long each test took; not of those that failed: with a
    mutant they would fail as well, and not by it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._took: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        kept = {name: took for name, took in self._took.items() if name not in self._failed}
        self._path.write_text(json.dumps(kept))


def tree_of(tests: Path, name: str = "tree") -> Path:
    """A copy of the product with these tests, in which lines may be changed."""
    tree = BUILD / name
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in (*PRODUCT, "docs", "vagrant", ".ci"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "Makefile", "README.md", "ARCHITECTURE.md", "LICENSE"):
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(tests, tree / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    # A line may be changed twice within a second: byte code is held to its source and not to times.
    for name in PRODUCT:
        mode = PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(tree / name, quiet=2, invalidation_mode=mode)
    return tree


def environment(tree: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree)}


def mapped(tests: Path, workers: int) -> None:
    """Run all tests under coverage of what has mutants, with the name of the test by each line."""
    tree = tree_of(tests)
    looked_at = sorted({m.path for m in making.kept() if m.path.endswith(".py")} | {"checkers/*"})
    lines = "".join(f"    {tree / path}\n" for path in looked_at)
    (tree / "covered").write_text(f"[run]\ninclude =\n{lines}")
    words = ["-m", "pytest", "-q", "-n", str(workers), "--dist", "loadfile", "-m", LEFT_OUT]
    cover = ["--cov", "--cov-config=covered", "--cov-context=test", "--cov-report="]
    durations = tree / "durations.py"
    durations.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "def pytest_configure(config):\n"
        "    from pathlib import Path\n"
        "    import mutants\n"
        "    if not hasattr(config, 'workerinput'):\n"
        f"        config.pluginmanager.register(mutants.Durations(Path({str(BUILD)!r}) / "
        "'durations.json'))\n"
    )
    more = ["--timeout=600", "-p", "durations"]
    subprocess.run(
        [sys.executable, *words, *cover, *more], cwd=tree, env=environment(tree), check=False
    )
    shutil.copy2(tree / ".coverage", BUILD / "coverage")


class Map:
    """Which tests execute a line."""

    def __init__(self) -> None:
        from coverage import CoverageData

        self._data = CoverageData(str(BUILD / "coverage"))
        self._data.read()
        self._took: dict[str, float] = json.loads((BUILD / "durations.json").read_text())
        self._paths = {_below(path): path for path in self._data.measured_files()}

    def tests(self, mutant: Mutant, line: int) -> list[str]:
        """The quickest first; of the C core, of whose lines nobody knows which test executes them,
        those before them that compare it with brute force and known answers."""
        if mutant.path.endswith(".c"):
            room = Path(mutant.path).parent.name
            package = f"checkers/{_WRAPPED.get(room, 'txn')}/"
            paths = [p for p in self._paths if p.startswith(package) or p == "checkers/columns.py"]
            names = {name for path in paths for name in self._named(path)}
        else:
            names = self._named(mutant.path, line) or self._named(mutant.path)

        def turn(name: str) -> tuple[bool, float]:
            return mutant.path.endswith(".c") and not name.startswith(COMPARING), self._took[name]

        quickest = sorted(names, key=turn)[:TESTS_MAX]
        until_s = accumulate(self._took[name] for name in quickest)
        return [name for name, s in zip(quickest, until_s, strict=True) if s <= TESTS_S]

    def _named(self, path: str, line: int | None = None) -> set[str]:
        by_line = self._data.contexts_by_lineno(self._paths.get(path, ""))
        found = by_line.get(line, []) if line else [c for row in by_line.values() for c in row]
        return {name for c in found if (name := c.split("|")[0]) in self._took}


def _below(path: str) -> str:
    """The path of a measured file within its tree."""
    parts = Path(path).parts
    begin = next((n for n, part in enumerate(parts) if part in PRODUCT), 0)
    return "/".join(parts[begin:])


def compiled(tree: Path, changed: Path | None = None) -> bool:
    """The extension of this tree; objects of sources that are as they were stay. False where it
    does not compile."""
    (module,) = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["setuptools"][
        "ext-modules"
    ]
    objects = tree / "objects"
    objects.mkdir(exist_ok=True)
    flags = [f for f in module["extra-compile-args"] if f != "-Werror"]
    flags += [f"-D{name}={value}" for name, value in module["define-macros"]]
    include = [f"-I{tree / 'checkers' / 'csrc'}", f"-I{sysconfig.get_path('include')}"]
    made = []
    for source in (tree / one for one in module["sources"]):
        made.append(objects / f"{source.stem}.o")
        if source == changed or not made[-1].exists():
            argv = ["cc", "-fPIC", *flags, *include, "-c", str(source), "-o", str(made[-1])]
            if subprocess.run(argv, capture_output=True, check=False).returncode:
                return False
    (library,) = (tree / "checkers").glob("_core*.so")
    argv = ["cc", "-shared", *map(str, made), "-o", str(library)]
    return not subprocess.run(argv, capture_output=True, check=False).returncode


def killed(
    tree: Path, mutant: Mutant, first: str, tests: list[str], limit_s: float
) -> tuple[bool, str]:
    """Is it, and by what?"""
    path = tree / mutant.path
    was = path.read_text()
    path.write_text(mutant.applied(was))
    try:
        if path.suffix == ".c" and not compiled(tree, path):
            return True, "it does not compile"
        if first and (by := _failing(tree, [first], limit_s)):
            return True, by
        by = _failing(tree, tests, limit_s)
    except subprocess.TimeoutExpired:
        return True, f"no end within {limit_s:g} s"
    finally:
        path.write_text(was)
        if path.suffix == ".c":
            compiled(tree, path)
    return bool(by), by


def _failing(tree: Path, tests: list[str], limit_s: float) -> str:
    """The first test that fails; empty where none does, or none is there."""
    names = tree / "tests.txt"
    names.write_text("\n".join(tests) + "\n")
    words = ["-x", "-q", "--no-header", "--timeout=60", f"@{names}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=limit_s,
        check=False,
    )  # fmt: skip
    missing = done.returncode == pytest.ExitCode.USAGE_ERROR and "ERROR: not found" in done.stdout
    if missing or done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else f"pytest ends with {done.returncode}"


def collected(tree: Path) -> set[str]:
    """The names of all tests there: a map may be of others."""
    words = ["-m", "pytest", "--collect-only", "-q", "--no-header", "-m", LEFT_OUT]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return {line for line in done.stdout.splitlines() if line.startswith("tests/")}


def run(
    tests: Path,
    only: str,
    limit_s: float,
    workers: int,
    first: dict[str, str],
    rows: list[dict[str, Any]],
) -> int:
    found = Map()
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(workers):
        tree = tree_of(tests, f"tree-{number}")
        compiled(tree)
        free.put(tree)
    there = collected(tree)

    def one(mutant: Mutant) -> dict[str, Any]:
        tree, began = free.get(), time.monotonic()
        try:
            line = mutant.line((tree / mutant.path).read_text())
            if line is None:
                return {"area": mutant.area, "name": mutant.name, "killed": None, "by": "gone"}
            by = name if (name := first.get(mutant.name, "")) in there else ""
            names = [name for name in found.tests(mutant, line) if name in there]
            if not names and not by:
                dead, why = False, "no test executes it"
            else:
                dead, why = killed(tree, mutant, by, names, limit_s)
        finally:
            free.put(tree)
        took_s = round(time.monotonic() - began)
        return {
            "area": mutant.area, "name": mutant.name, "killed": dead, "by": why, "took_s": took_s
        }  # fmt: skip

    mutants = [m for m in making.kept() if only in m.name or only in m.area]
    done_before = {row["name"] for row in rows}
    mutants = [m for m in mutants if m.name not in done_before]
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
            rows.append(row := done.result())
            word = {True: "killed", False: "SURVIVED", None: "gone"}[row["killed"]]
            say(f"{len(rows)}/{len(making.kept())} {word} {row['name']}: {row['by']}")
            (BUILD / "result.json").write_text(json.dumps(rows, indent=1))
    finally:
        pool.shutdown(cancel_futures=True)
    say(table(row for row in rows if row["killed"] is not None))
    return 0


def killers(result: Path | None) -> dict[str, str]:
    """The test that killed each mutant in an earlier run."""
    rows = json.loads(result.read_text()) if result else []
    by = {row["name"]: row["by"].split(" ", 1)[-1] for row in rows if row["killed"]}
    return {name: why.split(" - ")[0] for name, why in by.items() if why.startswith("tests/")}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Killed of all, by area."""
    rows = list(rows)
    dead, all_ = Counter(r["area"] for r in rows if r["killed"]), Counter(r["area"] for r in rows)
    lines = [f"{area:16} {dead[area]:4} of {all_[area]:4}" for area in AREAS if all_[area]]
    return "\n".join([*lines, f"{'all':16} {sum(dead.values()):4} of {sum(all_.values()):4}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["make", "map", "run"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose area, file or line has this text")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    parser.add_argument("--first", type=Path, help="the result.json of an earlier run")
    parser.add_argument("--go-on", type=Path, help="a result.json: what it has as killed stays so")
    asked = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if asked.what == "make":
        making.keep(making.filled(making.kept() if making.KEPT.exists() else [], asked.seed))
        return 0
    if asked.what == "map":
        mapped(asked.tests.resolve(), asked.workers)
        return 0
    first = killers(asked.first)
    kept = json.loads(asked.go_on.read_text()) if asked.go_on else []
    rows = [row for row in kept if row["killed"]]
    return run(asked.tests.resolve(), asked.only, asked.limit_s, asked.workers, first, rows)


if __name__ == "__main__":
    sys.exit(main())
