"""Runs on a node: the agent, which carries out verbs that arrive as frames on standard input.

A frame is four bytes of length, most significant first, and that many bytes of JSON.

    -> {"id": 7, "verb": "exec", "args": {"argv": ["nft", "list", "ruleset"], "timeout_s": 5}}
    <- {"id": 7, "ok": {"status": 0, "stdout": "...", "stderr": "", "duration_ns": 1200000}}
    <- {"id": 8, "error": {"kind": "refused", "message": "process 7 is gone"}}

The first frame is ours: `{"hello": {"version", "pid", "boot_id", ...}}`. Error kinds: `refused`
(the state of the node forbids it), `timeout`, `os` (with `errno`), `usage`. Verbs that may take
time run in threads, so answers come in any order. When input ends, programs under way are killed;
daemons and leases stay. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clusters.remote import (
    agent_exec,
    agent_groups,
    agent_lease,
    agent_probe,
    agent_samples,
    agent_services,
)
from clusters.remote.agent_exec import Refused, TimedOut

FRAME_BYTES_MAX = 16 * 1024 * 1024
THREADS_MAX = 64
FILES_MAX = 65536
"""Open files that a spawned database may have."""


class Agent:
    """The verbs of one agent process."""

    def __init__(self, run: Path, marker: Path, version: str, slowness: float = 1.0) -> None:
        self.run = run
        self.slowness = slowness
        self.marker_path = marker
        self.version = version
        self.probes = agent_probe.Probes()
        groups = agent_groups.Groups()
        self.running = agent_exec.Running()
        self.sampling = agent_samples.Sampling(groups)
        self._write_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(THREADS_MAX)
        self._janitor_ready = threading.Event()
        self._janitor_trouble = ""
        self._leases: set[str] = set()
        self.quick: dict[str, Callable[..., Any]] = {
            "ping": lambda: {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()},
            "marker": self.marker,
            "procinfo": agent_exec.process_info,
            "signal": agent_exec.send_signal,
            "signal_services": partial(agent_services.signal_services, groups=groups),
            "stat": stat,
            "statvfs": statvfs,
            "counters": counters,
            "probe_listen": self.probes.listen,
            "probe_counts": self.probes.counts,
            "probe_arrivals": self.probes.arrivals,
            "lease_renew": lambda ids: agent_lease.renew(self.run, ids),
            "lease_list": lambda: agent_lease.list_all(self.run),
            "samples_start": self.sampling.start,
        }
        self.slow: dict[str, Callable[..., Any]] = {
            "exec": self.exec,
            "spawn": agent_exec.spawn,
            "read": read,
            "write": write,
            "probe_ask": agent_probe.ask,
            "probe_send": agent_probe.send,
            "probe_round_trips": agent_probe.round_trips,
            "probe_connect": agent_probe.connect,
            "lease_arm": self.lease_arm,
            "lease_release": self.lease_release,
            "services": partial(agent_services.rows, groups=groups),
            "strike": partial(agent_services.strike, groups=groups),
            "processes": agent_probe.look,
            "memory_kills": agent_probe.memory_kills,
            "samples": self.sampling.take,
        }

    def start(self) -> None:
        """Say hello; see to the janitor meanwhile."""
        threading.Thread(target=self._start_janitor, daemon=True).start()
        self.send({"hello": {"version": self.version, "pid": os.getpid(), **self.marker()}})

    def _start_janitor(self) -> None:
        try:
            agent_lease.ensure_janitor(self.run, self.version, self.slowness)
        except (Refused, OSError) as error:
            self._janitor_trouble = str(error)
        self._janitor_ready.set()

    def finish(self) -> None:
        """Kill programs under way; leave no janitor half started.

        Whoever sent us heartbeats is gone for good: what he promised to heal need not wait long.
        """
        self.running.kill()
        agent_lease.hasten(self.run, sorted(self._leases))
        self._janitor_ready.wait(agent_lease.JANITOR_START_TIMEOUT_S * self.slowness)

    def send(self, message: dict[str, Any]) -> None:
        """Write one frame; an answer that is too large becomes an error."""
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        if len(data) > FRAME_BYTES_MAX:
            text = f"an answer of {len(data)} bytes is larger than a frame may be"
            self.send({"id": message.get("id"), "error": {"kind": "usage", "message": text}})
            return
        with self._write_lock:
            view = memoryview(struct.pack(">I", len(data)) + data)
            while view:
                view = view[os.write(1, view) :]

    def handle(self, request: dict[str, Any]) -> None:
        """Carry one request out, here where it is quick, else in a thread."""
        verb = request.get("verb")
        if verb in self.quick:
            self._answer(self.quick[verb], request)
        elif verb in self.slow:
            if not self._slots.acquire(blocking=False):
                self._error(request, "refused", f"{THREADS_MAX} requests are under way already")
                return
            threading.Thread(target=self._slowly, args=(request,), daemon=True).start()
        else:
            self._error(request, "usage", f"no verb {verb!r}")

    def _slowly(self, request: dict[str, Any]) -> None:
        try:
            self._answer(self.slow[request["verb"]], request)
        finally:
            self._slots.release()

    def _answer(self, verb: Callable[..., Any], request: dict[str, Any]) -> None:
        try:
            result = verb(**request.get("args", {}))
        except Refused as error:
            self._error(request, "refused", str(error))
        except TimedOut as error:
            self._error(request, "timeout", str(error))
        except OSError as error:
            self._error(request, "os", str(error), errno=error.errno or 0)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            self._error(request, "usage", f"{type(error).__name__}: {error}")
        else:
            self.send({"id": request.get("id"), "ok": result})

    def _error(self, request: dict[str, Any], kind: str, message: str, **more: Any) -> None:
        error = {"kind": kind, "message": message, **more}
        self.send({"id": request.get("id"), "error": error})

    def marker(self) -> dict[str, Any]:
        """Whose lab this node says it is in; `lab_id` is None for a host that is in none."""
        try:
            lab_id = self.marker_path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            lab_id = None
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return {"lab_id": lab_id, "hostname": os.uname().nodename, "boot_id": boot_id}

    def exec(
        self,
        argv: list[str],
        timeout_s: float = 10.0,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run a program; see `agent_exec.run_program`."""
        data = b"" if stdin is None else stdin.encode()
        return agent_exec.run_program(
            argv, timeout_s=timeout_s, stdin=data, env=env, running=self.running
        )

    def lease_arm(
        self, id: str, heal: list[list[str]], ttl_s: float, step_s: float = agent_lease.STEP_S
    ) -> dict[str, Any]:
        """See `agent_lease.arm`."""
        self._janitor_ready.wait(agent_lease.JANITOR_START_TIMEOUT_S * 2 * self.slowness)
        if self._janitor_trouble:
            raise Refused(self._janitor_trouble)
        self._leases.add(id)
        within_s = agent_lease.ACK_TIMEOUT_S * self.slowness
        return agent_lease.arm(self.run, id, heal, ttl_s, step_s, within_s)

    def lease_release(self, id: str) -> dict[str, bool]:
        """See `agent_lease.release`."""
        self._leases.discard(id)
        return agent_lease.release(self.run, id)


def read(path: str, offset: int = 0, bytes_max: int = 1 << 20) -> dict[str, Any]:
    """Bytes of a file, base64, with its `size`. A negative offset counts from the end."""
    with open(path, "rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        handle.seek(max(0, size + offset) if offset < 0 else offset)
        data = handle.read(bytes_max)
    return {"data": base64.b64encode(data).decode("ascii"), "size": size}


def write(path: str, data: str, mode: int = 0o644, append: bool = False) -> dict[str, Any]:
    """Write base64 `data` to a file, atomically; directories that lack are made. Or `append` it."""
    content = base64.b64decode(data, validate=True)
    if append:
        with open(path, "ab") as handle:
            handle.write(content)
        return {"bytes": len(content)}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.dstest.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(temporary, "wb") as handle:
            handle.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return {"bytes": len(content)}


def stat(path: str) -> dict[str, Any]:
    """Facts about a path, links not followed."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"exists": False}
    return {
        "exists": True,
        "size": status.st_size,
        "mode": status.st_mode,
        "uid": status.st_uid,
        "inode": status.st_ino,
        "mtime_ns": status.st_mtime_ns,
    }


def statvfs(path: str) -> dict[str, int]:
    """Sizes of the file system that holds `path`, in bytes."""
    found = os.statvfs(path)
    return {
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bfree * found.f_frsize,
        "available": found.f_bavail * found.f_frsize,
        "inodes_free": found.f_ffree,
    }


def counters() -> dict[str, dict[str, int]]:
    """The kernel's network counters: protocol -> name -> value."""
    tables: dict[str, dict[str, int]] = {}
    for path in ("/proc/net/snmp", "/proc/net/netstat"):
        lines = Path(path).read_text(encoding="ascii").splitlines()
        for names, values in zip(lines[::2], lines[1::2]):  # noqa: B905 (Python 3.9)
            protocol, _, rest = names.partition(":")
            numbers = map(int, values.partition(":")[2].split())
            tables[protocol] = dict(zip(rest.split(), numbers))  # noqa: B905
    with contextlib.suppress(FileNotFoundError):
        rows = [
            line.split()
            for line in Path("/proc/net/snmp6").read_text(encoding="ascii").splitlines()
        ]
        tables["Ipv6"] = {name: int(value) for name, value in rows}
    return tables


def frames(descriptor: int) -> Iterator[bytes]:
    """Frames from a descriptor until it ends. Raises ValueError for one that is too large."""
    pending = bytearray()
    while True:
        while len(pending) >= 4:
            (size,) = struct.unpack_from(">I", pending)
            if size > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {size} bytes is larger than {FRAME_BYTES_MAX}")
            if len(pending) < 4 + size:
                break
            yield bytes(pending[4 : 4 + size])
            del pending[: 4 + size]
        data = os.read(descriptor, 1 << 16)
        if not data:
            return
        pending += data


def main(run: str, marker: str, version: str, slowness: float = 1.0) -> int:
    """Serve standard input until it ends; 2 where it is not made of frames."""
    os.chdir("/")
    os.umask(0o022)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    agent = Agent(Path(run), Path(marker), version, slowness)
    agent.start()
    status = 0
    try:
        for frame in frames(0):
            request = json.loads(frame)
            if not isinstance(request, dict):
                raise ValueError("a request must be an object")
            agent.handle(request)
    except ValueError as error:
        # What follows a broken frame cannot be told apart from its rest: nothing more is done.
        agent.send({"id": None, "error": {"kind": "usage", "message": str(error)}})
        status = 2
    except BrokenPipeError:
        pass
    finally:
        agent.finish()
    # Threads that still wait for something must not keep the process.
    sys.stdout.flush()
    os._exit(status)
