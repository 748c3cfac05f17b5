"""What an ordinary user can do: judge and look, and run a whole test in namespaces of his own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from busy import assert_code
from ordinary_user import User, ordinary_user
from runs import CALM, faults_of, latest, wait_for

from clusters.labs import network
from dstest.core.errors import Exit

pytestmark = [
    pytest.mark.lab,
    pytest.mark.selftest,
    pytest.mark.skipif(os.geteuid() != 0, reason="making a user needs root"),
    pytest.mark.timeout(300),
]

QUIET = ("--lab", "rootless", "--nodes", "3", "--seed", "7")
SPEC = (*QUIET, "-o", "fault_s=4", "-o", "quiet_s=8")


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user() as made:
        yield made


@pytest.fixture
def able(user: User) -> User:
    """Skipped where the host gives an ordinary user no namespaces, with the reason."""
    rows = json.loads(user.dstest("doctor", "--json").stdout)
    (row,) = [one for one in rows if one["name"] == "rootless"]
    if not row["ok"]:
        pytest.skip(row["detail"])
    if shutil.which("lxc-start") is None:
        pytest.skip("LXC is not installed")
    return user


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--help",), 0),
        (("list",), 0),
        (("list", "--capabilities"), 0),
        (("nemeses",), 0),
        (("models",), 0),
        (("findings",), 0),
        (("lab", "list"), 0),
        (("lab", "status"), Exit.HARNESS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_looking_needs_no_root(user: User, words: tuple[str, ...], code: int) -> None:
    done = user.dstest(*words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout or words[0] == "lab"


def test_judging_needs_no_root(user: User) -> None:
    made = user.dstest("generate", "-o", "h.jsonl")
    assert made.returncode == 0, made.stderr
    assert user.dstest("check", "h.jsonl").returncode == 0
    shutil.chown(user.home / "h.jsonl", "root")
    assert user.dstest("check", "h.jsonl").returncode == 0


def test_labs_of_root_are_refused_with_the_reason(user: User) -> None:
    for lab in ("lxc", "podman", "vagrant"):
        done = user.dstest("run", "--lab", lab, "--store", user.home / "s")
        assert done.returncode == Exit.HARNESS
        assert "lacks" in done.stderr
        assert "Traceback" not in done.stderr


def test_the_main_job_without_root(able: User) -> None:
    """A run with landed faults; the user has a report, and this host nothing."""
    links = set(network.lab_links())
    store = able.home / "store"
    main = ("--workload", "register", "--nemesis", "partition,kill")
    words = (*CALM, *SPEC, *main, "--time-limit", "33", "--store", store)
    done = able.dstest(*words, timeout_s=250)
    assert_code(done.returncode, latest(store), done.stderr + done.stdout)
    run = latest(store)
    assert json.loads((run / "run.json").read_text())["lab"] == "rootless"
    faults = faults_of(run)
    assert {fault["nemesis"] for fault in faults} == {"partition", "kill"}
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
    assert (run / "report.html").stat().st_uid == able.uid
    assert able.dstest("report", run).returncode == Exit.PASS
    assert able.processes() == []
    assert set(network.lab_links()) <= links
    assert not list((able.home / ".local/share/dstest/labs").iterdir())


@pytest.mark.parametrize("nemesis", ["memory", "power"])
def test_what_needs_root_is_refused_before_the_load(able: User, nemesis: str) -> None:
    store = able.home / f"store-{nemesis}"
    done = able.dstest(*CALM, *SPEC, "--nemesis", nemesis, "--store", store, timeout_s=100)
    assert done.returncode == Exit.USAGE, done.stderr
    assert "[load]" not in done.stderr
    assert able.processes() == []


@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_a_killed_run_leaves_no_process_and_gc_finds_its_files(able: User, victim: str) -> None:
    log = able.home / f"log-{victim}"
    store = able.home / f"store-{victim}"
    words = (*CALM, *QUIET, "--nemesis", "none", "--time-limit", "60", "--store", store)
    with log.open("wb") as file:
        run = subprocess.Popen(able.words(*words), stderr=file, stdout=file, start_new_session=True)
    labs = able.home / ".local/share/dstest/labs"
    try:
        wait_for("load", lambda: "[load]" in log.read_text(), 60)
        (lab,) = labs.iterdir()
        # What lives is nobody's leftover.
        assert able.dstest("lab", "gc").returncode == 0
        assert lab.exists()
        assert f"{lab.name}  in use" in able.dstest("lab", "list").stdout
        pid = run.pid if victim == "outer" else _inner(run.pid)
        os.kill(pid, signal.SIGKILL)
    finally:
        run.wait(30)
    deadline = time.monotonic() + 15
    while able.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert able.processes() == []
    done = able.dstest("lab", "gc")
    assert done.returncode == 0, done.stderr
    assert not list(labs.iterdir())


def _inner(pid: int) -> int:
    """The control process within: below unshare and the first process there."""
    for _ in range(3):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        python = [c for c in children if "python" in os.readlink(f"/proc/{c}/exe")]
        pid = int((python or children)[0])
    return pid


def test_an_end_on_request_reaches_the_run(able: User) -> None:
    """SIGTERM to the command that the user started: healed, sealed, gone."""
    log = able.home / "log-term"
    store = able.home / "store-term"
    words = (*CALM, *QUIET, "--nemesis", "none", "--time-limit", "60", "--store", store)
    with log.open("wb") as file:
        run = subprocess.Popen(able.words(*words), stderr=file, stdout=file, start_new_session=True)
    try:
        wait_for("load", lambda: "load  " in log.read_text(), 60)
        run.terminate()
        assert run.wait(60) == Exit.INTERRUPTED, log.read_text()
    finally:
        if run.poll() is None:
            run.kill()
            run.wait(30)
    assert able.processes() == []
    assert not list((able.home / ".local/share/dstest/labs").iterdir())


def test_such_a_lab_cannot_outlive_its_command(able: User) -> None:
    up = able.dstest("lab", "up", "--lab", "rootless")
    assert up.returncode == Exit.USAGE
    assert "as long as the command" in up.stderr
    kept = able.dstest("run", *SPEC, "--keep-lab")
    assert kept.returncode == Exit.USAGE
