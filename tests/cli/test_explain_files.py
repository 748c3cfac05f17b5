"""`dstest explain --logs`, `dstest kb note` and `dstest monitor scale --table` as commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from forked import Ended, dstests

pytestmark = pytest.mark.slow

REACHES = [
    f"2026-11-28T12:00:{s}Z [WARN]: failed to reach {{}}: i/o timeout" for s in range(20, 40, 2)
]


def ended(folder: Path, *words: str) -> Ended:
    return dstests([words], cwd=folder)[tuple(words)]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for node, other in (("n1", "n2"), ("n2", "n1")):
        rows = ["2026-11-28T12:00:00Z [INFO]: ready", *(row.format(other) for row in REACHES)]
        (tmp_path / "logs" / f"{node}.log").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_logs_of_no_run_are_explained(cluster: Path) -> None:
    done = ended(cluster, "explain", "--logs", "logs", "--nodes", "n1,n2")
    assert done.returncode == 1, done.stderr
    assert "1. Network partition (#28, critical" in done.stdout
    assert "no history: what clients asked" in done.stdout
    told = json.loads(ended(cluster, "explain", "--logs", "logs", "--json").stdout)
    assert told["exit"] == 1 and told["hypotheses"][0]["pattern"] == "network-partition"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a run, or --logs"),
        (("logs", "--logs", "logs"), "give a run, or --logs"),
        (("logs", "--nodes", "n1"), "what stands beside --logs"),
        (("--logs", "logs", "--pattern", "("), "no regular expression"),
        (("--logs", "logs", "--system", "etcd", "--pattern", "(?P<message>.*)"), "both say how"),
        (("--logs", "nowhere"), "is not there"),
        (("--logs", "logs", "--metrics", "nowhere"), "No such file"),
        (("--logs", "logs", "--spans", "nowhere"), "No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: Sequence[str], said: str, cluster: Path) -> None:
    done = ended(cluster, "explain", *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_pattern_of_the_users_own_reads_lines(cluster: Path) -> None:
    (cluster / "logs" / "n1.log").write_text("12:00 <W> out of memory\n")
    pattern = r"(?P<time>\S+) <(?P<level>\w)> (?P<message>.*)"
    done = ended(cluster, "logs", "logs/n1.log", "--pattern", pattern)
    assert "1 pattern; as --pattern says" in done.stdout, done.stdout
    assert "critical out_of_memory" in done.stdout


def test_a_note_is_told_where_it_fits(cluster: Path) -> None:
    kb = ("--kb", "kb.sqlite")
    words = ("kb", "note", "network partition of n1, i/o timeout", "--mended", "new switch", *kb)
    assert ended(cluster, *words).stdout.startswith("N1  network partition")
    found = ended(cluster, "kb", "notes", "partition", "timeout", *kb)
    assert "mended by: new switch" in found.stdout
    assert ended(cluster, "kb", "notes", "deadlock", *kb).stdout == "nothing like it\n"
    assert ended(cluster, "kb", "note", "x", "--health", "fine", *kb).returncode == 2
    assert ended(cluster, "kb", "note", "N7", "--tried", "x", *kb).returncode == 2


def test_growth_of_a_table(cluster: Path) -> None:
    (cluster / "t.csv").write_text("n,messages\n3,9\n5,25\n9,81\n15,225\n")
    scale = ("monitor", "scale", "--table", "t.csv", "--expect")
    done = ended(cluster, *scale, "n2")
    assert done.returncode == 0 and "over 4 rows of sizes 3, 5, 9, 15: O(n²)" in done.stdout
    assert ended(cluster, *scale, "n").returncode == 1
    both = ended(cluster, "monitor", "scale", "logs", "--table", "t.csv")
    assert both.returncode == 2 and "one of the two" in both.stderr
