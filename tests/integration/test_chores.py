"""`dstest lab exec`, `put`, `get`, `logs` on real nodes: one is gone, one hangs, others go on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from runs import CALM, dstest

from clusters.labs.lxc import LAB
from clusters.remote.chores import Stop, run_everywhere, run_on
from dstest.core.errors import Exit
from dstest.core.node import LabInfo

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def small(lab_packages: tuple[str, ...]) -> Iterator[LabInfo]:
    lab_id = f"chores-{os.getpid()}"
    yield LAB.up(lab_id, 3, packages=lab_packages)
    LAB.down(lab_id)


def chore(lab: LabInfo, word: str, *words: str | Path) -> Any:
    done = dstest("lab", word, "--lab-id", lab.lab_id, "--json", *words)
    return done.returncode, json.loads(done.stdout)["nodes"]


def test_a_command_on_all_nodes_with_limits(small: LabInfo) -> None:
    code, said = chore(small, "exec", "--", "hostname; test $(hostname) != n2")
    assert code == Exit.HARNESS
    assert {name: (row["status"], row["ok"]) for name, row in said.items()} == {
        "n1": (0, True), "n2": (1, False), "n3": (0, True),
    }  # fmt: skip
    code, said = chore(small, "exec", "--node", "n1,n3", "--", "true")
    assert (code, sorted(said)) == (0, ["n1", "n3"])


def test_endless_output_is_cut_and_its_program_ended(small: LabInfo) -> None:
    words = ("--max-kb", "1", "--timeout", "2", "--", "test $(hostname) = n1 || exit 0; yes")
    began = time.monotonic()
    code, said = chore(small, "exec", *words)
    assert time.monotonic() - began < 8
    assert code == Exit.HARNESS
    assert "no end within 2 s" in said["n1"]["error"]
    assert len(said["n1"]["stdout"]) == 1000
    assert said["n1"]["cut_bytes"] > 1000
    assert said["n2"]["ok"]
    left = run_everywhere(small.nodes[:1], "pgrep -x yes")["n1"]
    assert left.stdout == ""


def test_what_has_detached_itself_ends_after_the_time(small: LabInfo) -> None:
    """By setsid, without its environment, by nohup: found and ended, and said."""
    script = (
        "(env -i setsid sleep 4321 </dev/null >/dev/null 2>&1 &); "
        "nohup sleep 4322 </dev/null >/dev/null 2>&1 & sleep 4323"
    )
    code, said = chore(small, "exec", "--timeout", "2", "--", script)
    assert code == Exit.HARNESS
    for row in said.values():
        assert row["error"] == "no end within 2 s"
        assert "dstest: no end within 2 s; ended: " in row["stderr"]
        assert row["stderr"].count("sleep (") == 3
    left = run_everywhere(small.nodes, "pgrep -f '^sleep 432'; :")
    assert [row.stdout for row in left.values()] == ["", "", ""]


def test_what_cannot_come_does_not_stop_the_rest(small: LabInfo, tmp_path: Path) -> None:
    """A file beyond all limits; files of /proc, whose size is 0; a log that grows."""
    run_everywhere(
        small.nodes,
        "mkdir -p /opt/odd; cd /opt/odd; truncate -s 1T a-huge; echo x >b; "
        "setsid sh -c 'for i in $(seq 600); do head -c 100000 /dev/zero >>/opt/odd/c-log; "
        "sleep 0.02; done' </dev/null >/dev/null 2>&1 & sleep 1",
    )
    code, got = chore(small, "get", "/opt/odd", tmp_path / "got")
    assert code == Exit.HARNESS
    for name, row in got.items():
        assert row["left_out"] == [f"'odd/a-huge': {1 << 40} bytes, more than 64000000"]
        assert (row["files"], row["error"]) == (2, None)
        log = tmp_path / "got" / name / "odd" / "c-log"
        assert log.stat().st_size >= 100_000
    run_everywhere(small.nodes, "rm -rf /opt/odd")
    code, got = chore(small, "get", "/proc/meminfo", tmp_path / "proc")
    assert (code, [row["files"] for row in got.values()]) == (0, [1, 1, 1])
    assert "MemTotal" in (tmp_path / "proc/n1/meminfo").read_text()


def test_what_is_no_utf_8_and_what_goes_on_behind_a_command(small: LabInfo) -> None:
    said = run_everywhere(small.nodes, r"printf 'a\377b'; setsid sleep 20 & exit 0", timeout_s=5)
    assert all(row.ok and row.stdout == "a\ufffdb" for row in said.values())
    assert all(row.seconds < 4 for row in said.values())


def test_a_node_that_is_gone_or_another_one(small: LabInfo, tmp_path: Path) -> None:
    """Only the pinned machine is asked."""
    gone = msgspec.structs.replace(small.nodes[1], port=1)
    wrong = msgspec.structs.replace(small.nodes[2], known_hosts_path=str(tmp_path / "none"))
    (tmp_path / "none").write_text("")
    said = run_everywhere([small.nodes[0], gone, wrong], "true", timeout_s=5)
    assert [row.ok for row in said.values()] == [True, False, False]
    assert all(row.error for row in list(said.values())[1:])


def test_a_frozen_node_is_given_up(small: LabInfo) -> None:
    LAB.cut(small.lab_id, ["n3"])
    try:
        code, said = chore(small, "exec", "--timeout", "3", "--", "true")
        assert code == Exit.HARNESS
        assert {name: row["ok"] for name, row in said.items()} == {
            "n1": True, "n2": True, "n3": False,
        }  # fmt: skip
    finally:
        LAB.boot(small.lab_id, ["n3"])


def test_files_go_there_and_come_back(small: LabInfo, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(3 << 20))
    sent.chmod(0o750)
    assert chore(small, "put", sent, "/opt/chores/x")[0] == Exit.HARNESS
    run_everywhere(small.nodes, "mkdir -p /opt/chores; ln -s /etc/passwd /opt/chores/link")
    assert chore(small, "put", sent, "/opt/chores/")[0] == 0
    code, got = chore(small, "get", "/opt/chores", tmp_path / "got")
    assert code == Exit.HARNESS
    for name, row in got.items():
        back = tmp_path / "got" / name / "chores" / "sent"
        assert back.read_bytes() == sent.read_bytes()
        assert back.stat().st_mode & 0o777 == 0o750
        assert row["left_out"] == ["'chores/link': a link"]
        assert sorted(p.name for p in back.parent.iterdir()) == ["sent"]
    assert chore(small, "get", "/opt/chores", tmp_path / "got")[0] == Exit.HARNESS
    small_only = chore(small, "get", "--file-mb", "1", "/opt/chores/sent", tmp_path / "less")
    assert "more than 1000000" in small_only[1]["n1"]["left_out"][0]


def test_a_transfer_that_hangs_ends(small: LabInfo) -> None:
    came: list[bytes] = []
    argv = ["sh", "-c", "echo begun; sleep 20"]
    said = run_on(small.nodes[0], argv, Stop(), timeout_s=1, take=came.extend)
    assert (b"".join(came), said.status, said.error) == (b"begun\n", None, "no end within 1 s")
    assert said.seconds < 5


def test_words_that_shells_would_read_are_names(small: LabInfo, tmp_path: Path) -> None:
    odd = "/root/-a $(touch no); 'b\""
    made = tmp_path / "file"
    made.write_text("x")
    assert chore(small, "put", made, odd)[0] == 0
    code, _ = chore(small, "get", odd, tmp_path / "odd")
    assert code == 0
    assert (tmp_path / "odd" / "n1" / odd.rpartition("/")[2]).read_text() == "x"


def test_logs_of_what_a_run_has_started(small: LabInfo, tmp_path: Path) -> None:
    none = dstest("lab", "logs", "--lab-id", small.lab_id)
    assert none.returncode == Exit.HARNESS
    assert "knows of no service" in none.stderr
    words = ("--nodes", "3", "--nemesis", "none", "--time-limit", "5", "--lab-id", small.lab_id)
    dstest(*CALM, *words, "--store", tmp_path)
    code, said = chore(small, "logs", "--role", "etcd", "--max-kb", "2")
    assert code == 0
    assert all("etcd" in row["stdout"] and len(row["stdout"]) < 4000 for row in said.values())
    code, said = chore(small, "exec", "--role", "etcd", "--", "true")
    assert (code, len(said)) == (0, 3)


def test_ctrl_c_ends_all(small: LabInfo) -> None:
    from threading import Timer

    stop = Stop()
    Timer(0.7, stop.set).start()
    said = run_on(small.nodes[0], ["sleep", "20"], stop, timeout_s=20)
    assert said.error == "stopped"
    assert said.seconds < 5
