"""The house rules of `.ci/rules.py`: each sees what breaks it, and nothing of ours does."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.remote import bundle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RULES: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "rules.py"))

CHORES = ("agent_chore", "agent_send")
LONG = "def long():\n" + "    pass\n" * 71
SIZE = "x = 1\n" * 1001


def by_script(*words: str) -> tuple[int, str]:
    script = [sys.executable, str(ROOT / ".ci" / "rules.py"), *words]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def test_nothing_of_ours_breaks_a_rule() -> None:
    assert by_script() == (0, "")
    assert ".ci/rules.py" in (ROOT / ".ci" / "lint").read_text()


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("checkers/a.py", "def f():\n    import nemeses.mix", "checkers does not import nemeses"),
        ("dstest/history/a.py", "from dstest.judge import x", "does not import dstest.judge"),
        ("dstest/newroom/a.py", "import dstest.core", "dstest.newroom does not import dstest.core"),
        ("nemeses/tools/a.py", "from nemeses.disk import x", "does not import nemeses.disk"),
        ("clusters/labs/a.py", "import clusters.sql", "clusters.labs does not import clusters.sql"),
        ("clusters/remote/agent_a.py", "import dstest.core.clock", "no dstest.core.clock"),
        ("clusters/remote/agent_a.py", "import clusters.remote.agent_client", "agent_client"),
        ("dstest/a.py", SIZE, "1001 lines, 1000 at most"),
        ("clusters/systems/memcached.py", "x = 1\n" * 101, "101 lines, 100 at most"),
        ("clusters/systems/a.py", "x = 1  # fmt: skip", "as the formatter writes it"),
        (
            "dstest/a.py",
            f"class A:\n    {LONG.replace(chr(10), chr(10) + '    ')}",
            "long: 72 lines",
        ),
        (
            "nemeses/a.py",
            "def left(): ...\ndef f(xs):\n    left = {x: left() for x in xs}",
            "f: left is a function of this module, and bound there",
        ),
        ("workloads/a.py", "import time\nt = time.time()", "reads time.time"),
        ("workloads/a.py", "import time as t\nt.monotonic_ns()", "reads time.monotonic_ns"),
        ("workloads/a.py", "from time import perf_counter as p", "reads time.perf_counter"),
        ("workloads/a.py", "from datetime import datetime as d\nx = d.now", "datetime.now"),
        ("workloads/a.py", "import datetime as dt\ndt.date.today()", "reads date.today"),
        ("nemeses/a.py", "x = ctx.lab.facts['made']", "the facts of a lab"),
    ],
)
def test_what_breaks_a_rule_is_named(tmp_path: Path, place: str, text: str, said: str) -> None:
    for folder in ("clusters/remote", "clusters/sql", "nemeses/disk"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (found,) = RULES["breaches"](tmp_path)
    assert found.startswith(f"{place}: ")
    assert said in found


def test_what_does_not_belong_on_top_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=30)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True, timeout=30)
    assert RULES["breaches"](tmp_path) == ["notes.txt: does not belong on top"]


def test_programs_that_are_sent_to_nodes_are_known_as_such() -> None:
    def is_sent(path: Path) -> bool:
        return bool(RULES["Source"](path.relative_to(ROOT), "").is_sent_to_nodes)

    remote = Path(bundle.__file__).parent
    assert all(is_sent(remote / f"{name}.py") for name in (*bundle.FILES, *CHORES))
    assert not is_sent(remote / "agent_client.py")


def test_a_breach_fails_the_lint(tmp_path: Path) -> None:
    (tmp_path / "dstest").mkdir()
    (tmp_path / "dstest" / "a.py").write_text("from time import time\n")
    said = "dstest/a.py: reads time.time; clocks are read in dstest.core.clock\n"
    assert by_script(str(tmp_path)) == (1, said)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        (
            "checkers.linearizable",
            {"asyncssh", "paramiko", "fabric", "grpc", "matplotlib", "typer", "clusters"},
        ),
        (
            "dstest.cli.entry",
            {
                *("asyncssh", "paramiko", "fabric", "grpc", "numpy", "networkx", "matplotlib"),
                *("jinja2", "google.protobuf"),
            },
        ),
    ],
)
def test_what_is_heavy_is_not_imported(module: str, heavy: set[str]) -> None:
    """Checkers need no cluster, and help needs hardly anything."""
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout.strip() == "[]"
