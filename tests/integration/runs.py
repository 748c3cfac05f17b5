"""Helpers: a run in this process, a run as a user starts it, and looks at the nodes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import assert_passed

from clusters.labs import container, state
from clusters.remote import connect_all
from clusters.systems.etcd.system import SYSTEM as ETCD
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.protocols import Nemesis, NemesisContext
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session

SHORT = ("fault_s=4", "quiet_s=8")
"""A shorter partition than the default of six seconds."""

SHORT_S = 21.0
"""Enough for one partition, and for the smoke budget of twenty seconds."""

RATE = 100.0
"""Operations per second: what a fault does must show in a load that leaves the host idle time."""

MUCH = 400.0
"""Operations per second that leave behind whoever is slow."""

CALM = ("run", "--rate", str(RATE))
"""How a user starts such a run."""


def run_here(
    lab: LabInfo,
    store: Path,
    *,
    nemesis: Nemesis | None = None,
    options: tuple[str, ...] = SHORT,
    **spec: Any,
) -> Finished:
    """A run on the shared lab through the API, so that a test can sabotage a part of it."""
    wanted = RunSpec(**{"time_limit_s": SHORT_S, "seed": 11, "rate": RATE, **spec})
    plugins = resolve(wanted, list(options), nemesis=nemesis)
    return run_session(plugins, store=store, lab_id=lab.lab_id, ui=Quiet())


def etcd(ctx: NemesisContext) -> Any:
    """The deployment, with all that etcd's has."""
    return ctx.deployment


def command(*args: str | Path) -> list[str]:
    """The command line of `dstest`."""
    return [sys.executable, "-m", "dstest", *map(str, args)]


def start(log: Path, *args: str | Path) -> subprocess.Popen[bytes]:
    """`dstest ARGS` in the background, as a process group of its own; its output goes to `log`."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command(*args),
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def dstest(
    *args: str | Path, env: dict[str, str] | None = None, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """`dstest ARGS` to its end."""
    return subprocess.run(
        command(*args), capture_output=True, text=True, timeout=timeout_s, check=False, env=env
    )


def from_outside(lab: LabInfo, node: str, tool: str, *args: str, stdin: str = "") -> None:
    """Run an LXC tool on a node's container: somebody else's hand, not through our connections."""
    lab_state = state.load(lab.lab_id)
    assert lab_state is not None
    path, name = container.lxc_path(lab.lab_id), lab_state.container(node)
    argv = [tool, "-P", str(path), "-n", name, *args]
    subprocess.run(argv, input=stdin, text=True, check=True, timeout=30, capture_output=True)


def wait_for(what: str, found: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until `found()`; AssertionError after `timeout_s`. Half of the time at most is spent
    on looking: what is waited for needs the host, too."""
    began = time.monotonic()
    while (look := time.monotonic()) - began < timeout_s:
        if found():
            return time.monotonic() - began
        time.sleep(max(0.1, time.monotonic() - look))
    raise AssertionError(f"{what}: not within {timeout_s} s")


def on_nodes(lab: LabInfo, ask: Callable[[dict[str, Any]], Any]) -> Any:
    """Connect to all nodes, await `ask(nodes)`, close."""

    async def go() -> Any:
        nodes = await connect_all(lab)
        try:
            return await ask(nodes)
        finally:
            for node in nodes.values():
                await node.close()

    return asyncio.run(go())


def frozen(lab: LabInfo) -> list[str]:
    """Nodes on which a service stands still."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        rows = {name: await node.call("services") for name, node in nodes.items()}
        return [n for n, row in rows.items() if any(one["frozen"] for one in row.values())]

    found: list[str] = on_nodes(lab, ask)
    return found


def fault_tables(lab: LabInfo) -> list[str]:
    """Nodes that still have a fault table."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        found = []
        for name, node in nodes.items():
            listing = await node.run(["nft", "list", "tables"])
            if "dstest_fault" in listing.stdout:
                found.append(name)
        return found

    tables: list[str] = on_nodes(lab, ask)
    return tables


def latest(store: Path) -> Path:
    return (store / "latest").resolve()


def verdict_of(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((path / "verdict.json").read_text())
    return loaded


def faults_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "faults.jsonl").read_text().splitlines()]


def landed_and_healed(done: Finished) -> dict[str, Any]:
    """The one fault of a run that passed: it landed and its heal is proven."""
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert_passed(done)
    assert not fault["residue"]
    return fault


def not_proven(done: Finished) -> dict[str, Any]:
    """The one fault of a run whose fault was sabotaged: nobody may count it as tested."""
    (fault,) = faults_of(done.path)
    assert fault["landed"] != "yes", fault
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    return fault


def killed_in_mid_fault(
    lab: LabInfo,
    folder: Path,
    args: tuple[str, ...],
    healed: Callable[[], bool],
    within_s: float,
    judged: tuple[Exit, ...] = (Exit.NOT_PROVEN,),
) -> None:
    """Start a run as a user does, kill -9 it once its fault has landed: the nodes heal themselves,
    and what is recovered of the run passes in no case."""
    log, store = folder / "log", folder / "store"
    process = start(
        log, *CALM, "--time-limit", "60", *args, "--lab-id", lab.lab_id, "--store", store
    )
    try:
        wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
        assert not healed()
    finally:
        process.kill()
        process.wait(timeout=10)
    wait_for("healing without us", healed, within_s)
    assert dstest("recover", latest(store)).returncode in judged
    assert not verdict_of(latest(store))["verdict"].startswith("PASS")


def deployed(lab: LabInfo, ask: Callable[[Any], Any], **options: Any) -> Any:
    """Await `ask(deployment)` of the etcd that a run has left or is running on the lab."""

    async def go(nodes: dict[str, Any]) -> Any:
        return await ask(ETCD.deploy(list(nodes.values()), options))

    return on_nodes(lab, go)


def healed_by_all(lab: LabInfo, fault_id: str = "f1") -> bool:
    """Has the lease of this fault run out on every node, and have its commands ended?"""

    async def ask(nodes: dict[str, Any]) -> bool:
        leases = [await node.call("lease_list") for node in nodes.values()]
        return all(fault_id in row["healed"] for row in leases)

    found: bool = on_nodes(lab, ask)
    return found


def assert_not_proven(done: Finished) -> dict[str, Any]:
    """The only fault of the run did not land, and the run says so."""
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    (fault,) = faults_of(done.path)
    assert fault["landed"] != "yes"
    return fault
