"""The Python tests of the C core, on an extension built with ASan and UBSan.

`sanitized.py [PYTEST ARGUMENTS]` compiles the sources that pyproject.toml names into
build/sanitized, then runs pytest with the sanitizers' libraries loaded before Python. Leaks are not
looked for: Python itself leaks on purpose. What the sanitizers say is printed at the end, since
pytest holds back what a test writes. Exit code: pytest's, or 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORE = ROOT / "build" / "sanitized" / "_core.abi3.so"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-g", "-O1", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-pthread", *SANITIZE]
UNIT = ("ingest", "checkers_linearizable", "canary", "lin_budget", "txn_*")
PROPERTY = ("linearizable", "models", "tables", "txn_differential")
DETECTION = ("linearizable_detection", "txn_detection", "model_canaries")
ROUNDS = "200"
"""Random histories per model; the sanitizers make each one many times as dear."""


def tests() -> list[str]:
    """The files whose code under test is in C; checkers of whole histories are Python alone."""
    named = {"unit": UNIT, "property": PROPERTY, "detection": DETECTION}
    found = [
        path
        for folder, names in named.items()
        for name in names
        for path in sorted((ROOT / "tests" / folder).glob(f"test_{name}.py"))
    ]
    return [str(path.relative_to(ROOT)) for path in found]


def build() -> None:
    """Compiles the extension as pyproject.toml says, but for the optimisation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    flags = [f for f in extension["extra-compile-args"] if not f.startswith("-O")]
    flags += [f"-D{name}={value}" for name, value in extension["define-macros"]]
    flags += [f"-I{folder}" for folder in extension["include-dirs"]]
    flags.append(f"-I{sysconfig.get_path('include')}")
    CORE.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", *FLAGS, *flags, *extension["sources"], "-o", str(CORE)]
    subprocess.run(command, check=True, cwd=ROOT)


def library(name: str) -> str:
    """Where gcc keeps a sanitizer's library."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    build()
    for old in CORE.parent.glob("report.*"):
        old.unlink()
    report = f"log_path={CORE.parent / 'report'}"
    env = os.environ | {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": f"detect_leaks=0:{report}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{report}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(HERE),
        "DSTEST_CORE": str(CORE),
        "DSTEST_ROUNDS": ROUNDS,
    }
    options = ["-p", "sanitized_core", "-m", "not slow and not long", "--timeout=600"]
    command = [sys.executable, "-m", "pytest", *options, *tests()]
    code = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=env).returncode
    reports = sorted(CORE.parent.glob("report.*"))
    for path in reports:
        sys.stderr.write(path.read_text(errors="replace"))
    return code or bool(reports)


if __name__ == "__main__":
    sys.exit(main())
