"""Runs on a node: leases, the promise that a fault ends when nobody is left to end it.

    <run>/leases/<id>/lease.json    {"heal": [[argv], ...], "step_s": 10.0, "ttl_s": 10.0,
                                     "armed_ns": 1}; each command may take `step_s`
    <run>/leases/<id>/beat          CLOCK_MONOTONIC of the last heartbeat, in nanoseconds
    <run>/leases/<id>/ack           written by the janitor when it has seen the lease
    <run>/firing/<id>/              a lease that ran out; moved here before its commands run
    <run>/healed/<id>.json          when it fired and how each command ended

All moves are renames, so that releasing, renewing and firing exclude one another. `<run>` is
/run/dstest, on memory: a restart of the node ends its faults and its leases alike.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import ENVIRONMENT, Refused, process_info, write_atomic

LEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ACK_TIMEOUT_S = 2.0
JANITOR_START_TIMEOUT_S = 5.0
STEP_S = 10.0
STEP_S_MAX = 600.0
FIRING_SLACK_S = 10.0
TTL_S_MAX = 3600.0

ORPHAN_S = 2.0
"""A lease whose connection has ended runs out after this time at the latest."""


def _folder(run: Path, lease_id: str, state: str = "leases") -> Path:
    if not LEASE_ID.fullmatch(lease_id):
        raise Refused(f"{lease_id!r} cannot be a lease id")
    return run / state / lease_id


def arm(
    run: Path,
    lease_id: str,
    heal: list[list[str]],
    ttl_s: float,
    step_s: float = STEP_S,
    within_s: float = ACK_TIMEOUT_S,
) -> dict[str, Any]:
    """Return when the janitor has confirmed the lease. Raises Refused where there is no janitor, or
    none says so in time."""
    folder = _folder(run, lease_id)
    if not heal or not all(argv and all(isinstance(a, str) for a in argv) for argv in heal):
        raise Refused("a lease needs heal commands, each a list of strings")
    if not 0 < ttl_s <= TTL_S_MAX:
        raise Refused(f"a lease of {ttl_s} s cannot be kept; up to {TTL_S_MAX:g} s can")
    if not 0 < step_s <= STEP_S_MAX:
        raise Refused(f"a command of {step_s} s cannot be waited for; up to {STEP_S_MAX:g} s can")
    if not janitor_alive(run):
        raise Refused("the node's janitor is not running, nobody would heal; connect again")
    if folder.exists() or (run / "firing" / lease_id).exists():
        raise Refused(f"lease {lease_id} is armed already")
    work = run / "tmp" / f"{lease_id}.{os.getpid()}.{threading.get_ident()}"
    work.mkdir(parents=True)
    now_ns = time.monotonic_ns()
    lease = {"heal": heal, "step_s": step_s, "ttl_s": ttl_s, "armed_ns": now_ns}
    (work / "lease.json").write_text(json.dumps(lease), encoding="utf-8")
    (work / "beat").write_text(str(now_ns), encoding="ascii")
    (run / "healed" / f"{lease_id}.json").unlink(missing_ok=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work.rename(folder)
    poke(run)
    deadline_ns = now_ns + int(within_s * 1e9)
    while not (folder / "ack").exists():
        if time.monotonic_ns() > deadline_ns:
            shutil.rmtree(folder, ignore_errors=True)
            raise Refused("the node's janitor did not confirm the lease; nobody would heal")
        time.sleep(0.002)
    return {"armed": lease_id}


def renew(run: Path, lease_ids: list[str]) -> dict[str, list[str]]:
    """Heartbeat for these leases. Returns those that are armed and those that are not any more."""
    renewed, lost = [], []
    for lease_id in lease_ids:
        try:
            write_atomic(_folder(run, lease_id) / "beat", str(time.monotonic_ns()))
            renewed.append(lease_id)
        except FileNotFoundError:
            lost.append(lease_id)
    return {"renewed": renewed, "lost": lost}


def hasten(run: Path, lease_ids: list[str]) -> None:
    """Let these leases run out soon, those of them that are still armed."""
    for lease_id in lease_ids:
        folder = _folder(run, lease_id)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            ttl_s = float(json.loads((folder / "lease.json").read_text(encoding="utf-8"))["ttl_s"])
            beat_ns = int((folder / "beat").read_text(encoding="ascii"))
            soon_ns = time.monotonic_ns() - int((ttl_s - ORPHAN_S) * 1e9)
            write_atomic(folder / "beat", str(min(beat_ns, soon_ns)))


def release(run: Path, lease_id: str) -> dict[str, bool]:
    """Forget a lease. `fired` tells that the janitor was first; its commands have then ended."""
    folder = _folder(run, lease_id)
    trash = run / "tmp" / f"{lease_id}.{os.getpid()}.{threading.get_ident()}.gone"
    trash.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
        return {"released": True, "fired": False}
    deadline_ns = time.monotonic_ns() + int(_firing_s(run, lease_id) * 1e9)
    while _folder(run, lease_id, "firing").exists():
        if time.monotonic_ns() > deadline_ns:
            raise Refused(f"the heal commands of lease {lease_id} do not end")
        time.sleep(0.02)
    return {"released": False, "fired": (run / "healed" / f"{lease_id}.json").exists()}


def _firing_s(run: Path, lease_id: str) -> float:
    """How long the commands of a lease that has fired may take together."""
    try:
        text = (_folder(run, lease_id, "firing") / "lease.json").read_text(encoding="utf-8")
        lease = json.loads(text)
        return len(lease["heal"]) * float(lease["step_s"]) + FIRING_SLACK_S
    except (OSError, ValueError, KeyError, TypeError):
        return FIRING_SLACK_S  # it has just ended


def list_all(run: Path) -> dict[str, Any]:
    """Armed, firing and fired leases, and whether the janitor lives."""
    healed = {}
    for path in _entries(run / "healed"):
        with contextlib.suppress(OSError, ValueError):
            healed[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return {
        "armed": [path.name for path in _entries(run / "leases")],
        "firing": [path.name for path in _entries(run / "firing")],
        "healed": healed,
        "janitor": janitor_alive(run),
    }


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def poke(run: Path) -> None:
    """Wake the janitor up now; without it, it looks twice a second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.sendto(b"!", str(run / "janitor.sock"))


def janitor_alive(run: Path) -> bool:
    """A janitor holds its lock as long as it lives."""
    try:
        with (run / "janitor.lock").open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _janitor(run: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((run / "janitor.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


def ensure_janitor(run: Path, version: str, slowness: float = 1.0) -> None:
    """Return when a janitor of this version lives. Raises Refused where none does in time.

    One of another version is told to end first; leases are files, so the next one finds them.
    """
    deadline_ns = time.monotonic_ns() + int(JANITOR_START_TIMEOUT_S * slowness * 1e9)
    process: subprocess.Popen[bytes] | None = None
    while time.monotonic_ns() < deadline_ns:
        facts = _janitor(run)
        alive = janitor_alive(run)
        if alive and facts.get("version") == version:
            return
        if alive:
            _end(facts)
        elif process is None or process.poll() is not None:
            process = _start(run, version)
        time.sleep(0.005)
    raise Refused(f"the node's janitor does not start; see {run}/janitor.log")


def _end(facts: dict[str, Any]) -> None:
    pid = facts.get("pid")
    if pid and process_info(pid)["start_time"] == facts.get("start_time"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _start(run: Path, version: str) -> subprocess.Popen[bytes]:
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (run / "janitor.log").open("ab", buffering=0) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "clusters.remote.agent_janitor", str(run), version],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    threading.Thread(target=process.wait, daemon=True).start()
    return process
