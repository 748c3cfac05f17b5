"""Our own death and the world's: nodes heal, nothing recorded is lost, the exit code says why."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from runs import (
    CALM,
    dstest,
    fault_tables,
    faults_of,
    from_outside,
    latest,
    on_nodes,
    start,
    verdict_of,
    wait_for,
)

from clusters.labs.lxc import LAB
from clusters.systems.etcd.clients.connection import Stub
from clusters.systems.etcd.system import SYSTEM
from clusters.systems.etcd.wire import message
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.processes import children_of
from dstest.history.segment import Succeeded, event_of, read_lines

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

RUN = (*CALM, "--time-limit", "60", "-o", "fault_s=30", "-o", "shape=one", "-o", "direction=both")


Started = Callable[[LabInfo], tuple[subprocess.Popen[bytes], Path]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Start a run in the background and wait until it is in the middle of its first partition.

    A run that its test leaves behind is killed: the next one wants the lab for itself.
    """
    processes = []

    def go(lab: LabInfo) -> tuple[subprocess.Popen[bytes], Path]:
        log = tmp_path / "log"
        process = start(log, *RUN, "--lab-id", lab.lab_id, "--store", tmp_path / "store")
        processes.append(process)
        wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
        return process, log

    yield go
    for process in processes:
        process.kill()
        process.wait(timeout=10)


def acknowledged(run: Path) -> set[int]:
    """op_ids that a worker saw answered, read from the raw segments."""
    files = (run / "segments").glob("worker-*.seg")
    events = (event_of(text) for path in files for text in read_lines(path, []))
    return {event.op_id for event in events if isinstance(event, Succeeded)}


async def _stop_etcd(nodes: dict[str, Any]) -> None:
    await SYSTEM.deploy(list(nodes.values()), {}).stop()


async def _stored(nodes: dict[str, Any]) -> set[tuple[str, Any]]:
    """All (key, value) pairs that etcd holds now; it may still be electing a leader."""
    stub = Stub(next(iter(nodes.values())).info.address)
    request = message("RangeRequest")(key=b"/dstest/", range_end=b"/dstest0")
    for _ in range(20):
        with contextlib.suppress(grpc.aio.AioRpcError):
            found = await stub.range(request, timeout=5.0, wait_for_ready=True)
            break
        await asyncio.sleep(1.0)
    await stub.close()
    return {(kv.key.decode().removeprefix("/dstest/"), json.loads(kv.value)) for kv in found.kvs}


def test_kill_9_in_mid_partition(lab: LabInfo, tmp_path: Path, started: Started) -> None:
    process, _ = started(lab)
    assert fault_tables(lab)
    workers = children_of(process.pid)
    process.kill()
    process.wait(timeout=10)
    healed_s = wait_for("healing without us", lambda: not fault_tables(lab), 15)
    assert healed_s <= 15
    for worker in workers:
        wait_for("the end of a worker", lambda w=worker: not Path(f"/proc/{w}").exists(), 5)  # type: ignore[misc]
    run = latest(tmp_path / "store")
    assert (run / "status").read_text().strip() == "running"
    done = dstest("recover", run)
    assert done.returncode == Exit.NOT_PROVEN, done.stdout + done.stderr
    assert not verdict_of(run)["verdict"].startswith("PASS")
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()[1:]]
    assert acknowledged(run) <= {r["op_id"] for r in rows if r["complete_ts"] is not None}
    writes = {(r["key"], r["input"]) for r in rows if r["op_type"] == "write"}
    stored = on_nodes(lab, _stored)
    assert stored
    assert stored <= writes, "etcd holds a write that the history does not know"
    assert not verdict_of(run)["evidence"]["history_lint"]["corrupt"]
    on_nodes(lab, _stop_etcd)


def test_ctrl_c_heals_and_seals(lab: LabInfo, tmp_path: Path, started: Started) -> None:
    process, log = started(lab)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == Exit.INTERRUPTED, log.read_text()
    assert not fault_tables(lab)
    run = latest(tmp_path / "store")
    assert faults_of(run)[0]["heal_verified"]
    assert acknowledged(run)
    assert (run / "history.jsonl").stat().st_size > 0
    assert not verdict_of(run)["verdict"].startswith("PASS")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", mount], check=True, timeout=10
    )
    yield mount
    subprocess.run(["umount", mount], check=True, timeout=10)


def test_a_full_disk_of_the_control_node(lab: LabInfo, tmp_path: Path, small_disk: Path) -> None:
    log = tmp_path / "log"
    process = start(log, *RUN, "--lab-id", lab.lab_id, "--store", small_disk)
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"x" * (free - 4096 * 8))
    assert process.wait(timeout=90) == Exit.HARNESS, log.read_text()
    text = log.read_text()
    assert "no space left" in text
    assert "remedy: free space" in text
    assert not fault_tables(lab)
    (small_disk / "filler").unlink()
    saved = tmp_path / "saved"
    shutil.copytree(latest(small_disk), saved)
    done = dstest("recover", saved)
    assert done.returncode == Exit.NOT_PROVEN, done.stdout + done.stderr
    rows = [json.loads(line) for line in (saved / "history.jsonl").read_text().splitlines()[1:]]
    assert acknowledged(saved) <= {r["op_id"] for r in rows if r["complete_ts"] is not None}


def test_a_container_that_stops_in_mid_run(
    lab_packages: tuple[str, ...], tmp_path: Path, started: Started
) -> None:
    lab = LAB.up("pytest-stop", 5, packages=lab_packages)
    try:
        process, log = started(lab)
        from_outside(lab, "n3", "lxc-stop", "-k")
        assert process.wait(timeout=120) == Exit.HARNESS, log.read_text()
        assert "n3 is lost" in log.read_text()
        assert "dstest lab" in log.read_text()
        run = latest(tmp_path / "store")
        assert acknowledged(run)
        assert not verdict_of(run)["verdict"].startswith("PASS")
    finally:
        LAB.down("pytest-stop")


@pytest.mark.selftest
def test_ssh_to_one_node_is_cut(lab: LabInfo, tmp_path: Path, started: Started) -> None:
    rules = (
        "table inet testcut { chain c { type filter hook input priority -400; policy accept; "
        f"ip saddr {lab.control} tcp dport 22 drop; }}; }}"
    )
    process, log = started(lab)
    from_outside(lab, "n2", "lxc-attach", "--", "nft", "-f", "-", stdin=rules)
    began = time.monotonic()
    try:
        assert process.wait(timeout=120) == Exit.HARNESS, log.read_text()
        time.sleep(max(0.0, 15 - (time.monotonic() - began)))
    finally:
        from_outside(lab, "n2", "lxc-attach", "--", "nft", "delete", "table", "inet", "testcut")
    assert "n2 is lost" in log.read_text()
    assert not fault_tables(lab), "n2 healed itself when our heartbeats stopped"


def test_without_root(tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable]
    readable = subprocess.run([*nobody, "-c", "import dstest"], cwd="/", timeout=30, check=False)
    if readable.returncode != 0:
        pytest.skip("this checkout is not readable by another user")
    done = subprocess.run(
        [*nobody, "-m", "dstest", "run", "--store", "/tmp/dstest-nobody"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert done.returncode == Exit.HARNESS, done.stderr
    assert "root" in done.stderr
    assert "remedy:" in done.stderr


def test_without_a_debian_package(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for tool in Path(folder).glob("*"):
            if tool.name != "mmdebstrap" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    done = dstest("run", "--store", tmp_path, env={**os.environ, "PATH": str(tools)})
    assert done.returncode == Exit.HARNESS, done.stderr
    assert "mmdebstrap" in done.stderr
    assert "apt-get install" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "--nodez", "5"], "No such option"),
        (["run", "--workload", "regster"], "did you mean register"),
        (["run", "-o", "kees=3"], "did you mean keys"),
        (["run", "--time-limit", "3"], "no room"),
        (["run", "--nodes", "many"], "--nodes 'many': not a whole number"),
        (["check", "/nonexistent"], "/nonexistent"),
        (["recover", "/tmp"], "not a run directory"),
    ],
)
def test_wrong_usage(args: list[str], message: str) -> None:
    done = dstest(*args)
    assert done.returncode == Exit.USAGE, done.stderr
    assert message in done.stderr
