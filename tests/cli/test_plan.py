"""`dstest plan`: exit codes, what is printed, and what is written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from forked import Ended, dstest
from plan_mutations import MUTATIONS, PLAN, SOUND, changed

pytestmark = pytest.mark.slow

PATCH = """diff --git a/{name} b/{name}
--- a/{name}
+++ b/{name}
@@ -1 +1 @@
-x = 1
+x = 2
"""


def plan(*words: str | Path, cwd: Path | None = None) -> Ended:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return dstest("plan", *words, cwd=cwd, env=env)


def written(tmp_path: Path, name: str) -> Path:
    """A plan with this change; beside a copy of what it refers to."""
    path = tmp_path / "plans" / "etcd.md"
    path.parent.mkdir()
    (tmp_path / "reference").mkdir()
    for page in PLAN.parents[1].glob("**/*.md"):
        if page.parent.name in ("docs", "reference"):
            (tmp_path / page.relative_to(PLAN.parents[1])).write_text("")
    path.write_text(changed(SOUND, MUTATIONS[name]) if name else SOUND)
    return path


def test_a_clean_plan() -> None:
    done = plan("lint", PLAN, "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("0 errors, 0 warnings; 11 scenarios, 9 claims\n")


def test_an_error_has_place_rule_and_remedy(tmp_path: Path) -> None:
    path = written(tmp_path, "L19 logs")
    done = plan("lint", path)
    assert done.returncode == 2
    first, remedy, last = done.stdout.splitlines()
    line = next(n for n, row in enumerate(path.read_text().splitlines(), 1) if "logs look" in row)
    assert first.startswith(f"{path}:{line}: error L19: S5: 'logs look'")
    assert remedy.startswith("  remedy: name a checker")
    assert last.endswith("1 error, 0 warnings; 11 scenarios, 9 claims")


def test_warnings_alone_are_no_error_unless_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "L33 nothing")
    assert plan("lint", path).returncode == 0
    done = plan("lint", path, "--strict", "--json")
    assert done.returncode == 2
    said = json.loads(done.stdout)
    assert (said["sound"], said["clean"]) == (True, False)
    assert [finding["rule"] for finding in said["findings"]] == ["L33"]
    assert {*said["findings"][0]} == {"rule", "severity", "line", "what", "remedy"}


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# notes\n")
    for command in ("lint", "show"):
        done = plan(command, path)
        assert done.returncode == 2 and not done.stdout
        assert f"{path}:1: no front matter" in done.stderr and "remedy" in done.stderr


def test_show_has_a_command_for_each_budget() -> None:
    done = plan("show", PLAN)
    assert done.returncode == 0
    assert "  S1 smoke: dstest run --system etcd --workload register" in done.stdout
    assert "  S11/by-member smoke: dstest run" in done.stdout
    assert "S11/by-lease" not in done.stdout
    said = json.loads(plan("show", PLAN, "--json").stdout)
    assert said["commands"]["S4"]["S4"]["smoke"][:3] == ["run", "--system", "etcd"]
    assert said["front"]["slug"] == "etcd-consistency-and-durability-under-faults"
    assert [claim["id"] for claim in said["claims"]] == [f"C{n}" for n in range(1, 10)]


def test_new_writes_a_plan_that_lint_can_read(tmp_path: Path) -> None:
    done = plan("new", "--system", "memcached", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "testing-plans" / "memcached-claims-under-faults.md"
    assert done.stdout.startswith(f"written: {path.relative_to(tmp_path)}; ")
    assert "<fill: " in path.read_text()
    before = path.read_text()
    again = plan("new", "--system", "memcached", cwd=tmp_path)
    assert again.returncode == 2 and "would be overwritten" in again.stderr
    assert path.read_text() == before
    assert "L12" in plan("lint", path).stdout


@pytest.mark.parametrize(("name", "small"), [("README.md", True), ("src/a.py", False)])
def test_new_for_a_change(name: str, small: bool, tmp_path: Path) -> None:
    patch = tmp_path / "a.diff"
    patch.write_text(PATCH.format(name=name))
    done = plan("new", "--system", "etcd", "--diff", patch, "--repo", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("L35" in done.stdout and "none was written" in done.stdout) is small
    assert (tmp_path / "testing-plans").exists() is not small


def test_new_for_a_system_of_ones_own(tmp_path: Path) -> None:
    made = dstest("new", "system", "my-store", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = plan("new", "--system", "./my_store.py", "--output", "plan.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'plugin = ["./my_store.py"]' in (tmp_path / "plan.md").read_text()
    found = json.loads(plan("lint", "plan.md", "--json", cwd=tmp_path).stdout)["findings"]
    assert {finding["rule"] for finding in found} <= {"L12", "L15"}, found


REFUSED = {
    "both": (("--change", "a..b", "--diff", "x"), "both say what has changed"),
    "no directory": (("--repo", "absent"), "no directory"),
    "no repository": (("--change", "a..b"), "git diff"),
    "no diff": (("--diff", "absent"), "--diff absent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_new_refuses(name: str, tmp_path: Path) -> None:
    words, message = REFUSED[name]
    done = plan("new", "--system", "etcd", *words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not [*tmp_path.iterdir()]


def test_toolbox_names_what_is_missing() -> None:
    done = plan("toolbox", "--system", "etcd", "--category", "boundary")
    assert done.returncode == 0 and "boundary" in done.stdout and "missing" not in done.stdout
    said = json.loads(plan("toolbox", "--system", "etcd", "--json").stdout)
    assert {"system", "tools", "refused", "untested"} == {*said}
    assert any("register" in tool["workloads"] for tool in said["tools"])
    assert plan("toolbox", "--system", "etcd", "--category", "quality").returncode == 2
