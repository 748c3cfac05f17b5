"""New plans: from the registry, a repository, and a change of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.plans.draft.new import Request, too_small, write
from dstest.plans.draft.sources import (
    Change,
    category_of,
    change_from_diff,
    change_from_git,
    modules_of,
    scan,
)
from dstest.plans.lint import lint
from dstest.plans.model import Plan
from dstest.plans.reader import read_plan

pytestmark = pytest.mark.slow

README = """# demo

The store must never lose an acknowledged
write. The web server always answers within 50 ms.

Each write to the store is idempotent: a retry has its effect once.
"""
LOG = '''"""The log."""
import os


class TornEntryError(Exception):
    pass


# An append must be durable before it is acknowledged.
def append(x):
    return x
'''
FILES = {
    "README.md": README,
    "src/store/log.py": LOG,
    "src/web/http.py": "class Refused(RuntimeError):\n    pass\n\n\ndef serve():\n    return 1\n",
    "tests/test_log.py": "def test_append_survives_a_crash():\n    pass\n",
    "tests/test_http.py": "def test_page_is_served_quickly():\n    pass\n",
}


def git(repo: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=repo, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def commit(repo: Path, *edits: tuple[str, str, str]) -> Change:
    for name, old, new in edits:
        text = (repo / name).read_text()
        assert old in text
        (repo / name).write_text(text.replace(old, new))
    git(repo, "commit", "-q", "-am", "append returns the next offset")
    return change_from_git(repo, "HEAD~1..HEAD")


def plan_of(repo: Path, change: Change | None) -> Plan:
    path = repo.parent / "plan.md"
    write(Request(system="etcd", repo=repo, change=change, output=path))
    return read_plan(path)


def test_a_change_of_one_module_is_about_its_claims_alone(repo: Path) -> None:
    change = commit(repo, ("src/store/log.py", "return x", "return x + 1"))
    plan = plan_of(repo, change)
    assert [(c.text, c.category, c.source, c.inferred) for c in plan.claims] == [
        ("The store must never lose an acknowledged write.", "durability", "`README.md:3`", False),
        ("Each write to the store is idempotent: a retry has its effect once.", "idempotency",
         "`README.md:6`", False),
        ("An append must be durable before it is acknowledged.", "durability",
         "`src/store/log.py:9`", True),
        ("`test_append_survives_a_crash`: append survives a crash", "durability",
         "`tests/test_log.py:1`", True),
        ("callers are told of `TornEntryError`", "safety", "`src/store/log.py:5`", True),
    ]  # fmt: skip
    assert (plan.front.mode, plan.front.change) == ("change-scoped", "HEAD~1..HEAD")
    assert plan.slug == "etcd-append-returns-the-next-offset"
    assert "src/store/log.py" in plan.sections["1"].field("Files touched")
    assert [row.source for row in plan.missing] == ["`src/store/log.py:5`"]
    cited = {id for scenario in plan.scenarios for id in scenario.falsifies}
    assert cited == {claim.id for claim in plan.claims}


def test_a_change_is_tested_under_several_faults_of_each_pitfall(repo: Path) -> None:
    plan = plan_of(repo, commit(repo, ("src/store/log.py", "return x", "return x + 1")))
    runs = [scenario.run for scenario in plan.scenarios if scenario.run is not None]
    tested = {(run.workload, run.nemesis, run.options.get("direction")) for run in runs}
    assert tested >= {
        ("ledger", "kill", None), ("ledger", "partition", "in"), ("append-log", "power", None),
        ("append-log", "fsync-error", None),
    }  # fmt: skip


def test_a_whole_repository_is_about_everything_in_it(repo: Path) -> None:
    plan = plan_of(repo, None)
    said = " ".join(claim.text for claim in plan.claims)
    assert "web server" in said and "`Refused`" in said and "page is served quickly" in said
    assert plan.front.mode == "project-wide" and plan.front.change == "none"
    assert {row.test for row in plan.inventory} == {"`tests/test_log.py`", "`tests/test_http.py`"}
    assert any("isolation" in row.behaviour for row in plan.missing)


QUIET = {
    "a document": (("README.md", "demo", "Demo"),),
    "a docstring": (("src/store/log.py", "The log.", "All of the log."),),
    "a comment": (("src/store/log.py", "# An append", "# Every append"),),
    "an import": (("src/store/log.py", "import os\n", "import sys\n"),),
    "blanks": (("src/store/log.py", "return x", "return (\n        x\n    )"),),
    "a test": (("tests/test_log.py", "pass", "assert True"),),
}


@pytest.mark.parametrize("name", QUIET)
def test_a_change_without_behaviour_needs_no_plan(name: str, repo: Path) -> None:
    change = commit(repo, *QUIET[name])
    assert too_small(change).startswith("L35: HEAD~1..HEAD changes no behaviour: 1 file")
    with pytest.raises(ConfigError, match="L35"):
        plan_of(repo, change)
    assert not (repo.parent / "plan.md").exists()


LOUD = {
    "code": (("src/store/log.py", "return x", "return -x"),),
    "beside a document": (("README.md", "demo", "x"), ("src/web/http.py", "1", "2")),
    "another function of the same name": (
        ("src/store/log.py", "import os\n", "from posixpath import join\n"),
        ("src/store/log.py", "return x", "return join(x)"),
    ),
    "a message": (("src/web/http.py", "return 1", "return 'one'"),),
}


@pytest.mark.parametrize("name", LOUD)
def test_a_change_of_behaviour_is_one(name: str, repo: Path) -> None:
    assert too_small(commit(repo, *LOUD[name])) == ""


def test_who_imports_a_name_from_elsewhere_changes_behaviour(repo: Path) -> None:
    commit(repo, ("src/store/log.py", "import os\n", "from posixpath import join\n"))
    change = commit(repo, ("src/store/log.py", "from posixpath", "from ntpath"))
    assert too_small(change) == ""


def test_a_diff_without_its_repository_is_read_line_by_line(tmp_path: Path) -> None:
    head = "diff --git a/src/a.go b/src/a.go\n--- a/src/a.go\n+++ b/src/a.go\n@@ -1 +1 @@\n"
    path = tmp_path / "a.diff"
    for text, quiet in (
        ("-// a commment\n+// a comment\n", True),
        ("-import x\n", False),
        ("-ack()\n+fsync()\n+ack()\n-fsync()\n", False),
        ("-* count = fsync(fd);\n+* count = 0;\n", False),
        ("-x := 1\n+x  :=  1\n", True),
        ("-x := 1\n+x := 2\n", False),
        ("+import y\n", False),
    ):
        path.write_text(head + text)
        assert bool(too_small(change_from_diff(path))) is quiet, text
    path.write_text("nothing\n")
    with pytest.raises(ConfigError, match="changes no file"):
        change_from_diff(path)


def test_a_file_that_is_renamed_or_is_no_text_may_behave_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "a.diff"
    path.write_text(
        "diff --git a/a.so b/a.so\nBinary files a/a.so and b/a.so differ\n"
        "diff --git a/b.go b/c.go\nsimilarity index 100%\nrename from b.go\nrename to c.go\n"
        "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n"
    )
    change = change_from_diff(path)
    assert [file.path for file in change.behaviour] == ["a.so", "c.go"]


def test_revisions_that_are_none_are_refused(repo: Path) -> None:
    for text in ("nowhere..HEAD", "..", "--output=x"):
        with pytest.raises(ConfigError) as caught:
            change_from_git(repo, text)
        assert "--change OLD..NEW" in str(caught.value.remedy)


def test_a_module_is_a_folder_or_a_file_of_a_common_one(repo: Path) -> None:
    (repo / "src" / "main.py").write_text("x = 1\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "main")
    change = commit(repo, ("src/main.py", "1", "2"), ("src/web/http.py", "1", "2"))
    assert [module.path for module in modules_of(change)] == ["src/main.py", "src/web"]
    assert {one.kind for one in scan(repo, modules_of(change))} == {"document", "test", "error"}


def test_a_part_of_a_repository_is_one(repo: Path) -> None:
    commit(repo, ("src/store/log.py", "return x", "return x + 1"), ("README.md", "demo", "x"))
    change = change_from_git(repo / "src", "HEAD")
    assert [file.path for file in change.behaviour] == ["store/log.py"]
    quiet = commit(repo, ("src/store/log.py", "The log.", "A log."))
    assert too_small(change_from_git(repo / "src", "HEAD")) and quiet.files
    assert {one.source.split(":")[0] for one in scan(repo / "src")} == {
        "`store/log.py", "`web/http.py",
    }  # fmt: skip


def test_a_directory_that_git_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "README.md").write_text("- **Keys:** they must never be lost.\n")
    (tmp_path / "a" / "plan.md").write_text(f"---\nslug: a-b\n---\n{README}")
    (tmp_path / "a" / ".hidden.md").write_text("A value must never be lost by anybody.\n")
    assert [one.text for one in scan(tmp_path / "a")] == ["Keys: they must never be lost."]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("an acknowledged write is never lost", "durability"),
        ("a retry is applied exactly once", "idempotency"),
        ("events arrive in the same order", "ordering"),
        ("a member that joins holds all keys", "membership"),
        ("no user sees the keys of another tenant", "boundary"),
        ("a read returns the newest value", "safety"),
    ],
)
def test_words_tell_the_category(text: str, category: str) -> None:
    assert category_of(text) == category


@pytest.mark.parametrize("system", ["etcd", "memcached", "postgresql-standby", "redis-cluster"])
def test_a_new_plan_lacks_what_a_person_knows_and_nothing_else(system: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    write(Request(system=system, output=path))
    plan = read_plan(path)
    assert plan.scenarios and plan.claims
    rules = {finding.rule for finding in lint(plan)}
    assert rules <= {"L12", "L15"}, rules
    assert not any("TBD" in row for row in plan.text.splitlines())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="would be overwritten"):
        write(Request(system="memcached", output=path))
    assert path.read_text() == "mine"
