"""Runs on a node: datagrams that prove which directed paths between nodes carry traffic, and what
/proc says of some processes at one look. Standard library only.

A node listens and counts what arrives by token and source address; another sends. Numbers in the
datagrams tell what came twice and what came late. These are not answered, so a count speaks of one
direction only; an echo is, and its round trip is timed by who asks. Connections are taken on the
same port: whether new ones can be opened is another question than whether datagrams arrive.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import re
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import process_info

MAGIC = b"dstest-probe:"
ECHO = b"dstest-echo:"
BACK = b"dstest-back:"
TOKENS_MAX = 4096
"""The oldest token is forgotten beyond this."""

COUNT_MAX = 10_000

KILLS = ("memory.oom_control", "memory.events")
"""Of version 1 of control groups, and of version 2."""

V1 = re.compile(r"^\d+:(?:[^:]*,)?freezer(?:,[^:]*)?:(.*)$", re.MULTILINE)
V2 = re.compile(r"^0::(.*)$", re.MULTILINE)


class Probes:
    """The listening sockets of one agent and what they counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: dict[int, list[str]] = {}
        self._seen: dict[str, dict[str, list[int]]] = {}

    def listen(self, port: int) -> dict[str, Any]:
        """Count datagrams to this port and take connections there, in both families.

        Safe to repeat. Raises OSError.
        """
        with self._lock:
            if port not in self._ports:
                self._ports[port] = self._open(port)
            return {"port": port, "families": self._ports[port]}

    def _open(self, port: int) -> list[str]:
        sockets: list[socket.socket] = []
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            try:
                sock = socket.socket(family, socket.SOCK_DGRAM)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address, port))
                sockets.append(sock)
                taker = socket.socket(family, socket.SOCK_STREAM)
                sockets.append(taker)
                taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                taker.bind((address, port))
                taker.listen(128)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT:
                    continue
                for opened in sockets:
                    opened.close()
                raise
        for sock in sockets:
            does = self._count if sock.type == socket.SOCK_DGRAM else _take
            threading.Thread(target=does, args=(sock,), daemon=True).start()
        return [sock.family.name for sock in sockets if sock.type == socket.SOCK_DGRAM]

    def _count(self, sock: socket.socket) -> None:
        while True:
            data, source = sock.recvfrom(2048)
            if data.startswith(ECHO):
                with contextlib.suppress(OSError):
                    sock.sendto(BACK + data[len(ECHO) :], source)
            if not data.startswith(MAGIC):
                continue
            token, _, number = data[len(MAGIC) :].decode("utf-8", "replace").rpartition("#")
            if not number.isdigit() or int(number) >= COUNT_MAX:
                continue
            address = str(source[0]).partition("%")[0]
            with self._lock:
                if token not in self._seen and len(self._seen) >= TOKENS_MAX:
                    self._seen.pop(next(iter(self._seen)))
                # Datagrams, those that came late, the highest number, a bit for each number.
                row = self._seen.setdefault(token, {}).setdefault(address, [0, 0, -1, 0])
                row[0] += 1
                row[1] += int(number) < row[2] and not row[3] >> int(number) & 1
                row[2] = max(row[2], int(number))
                row[3] |= 1 << int(number)

    def counts(self, token: str) -> dict[str, int]:
        """Source address -> datagrams with this token that arrived here."""
        with self._lock:
            return {source: row[0] for source, row in self._seen.get(token, {}).items()}

    def arrivals(self, token: str) -> dict[str, dict[str, int]]:
        """Source address -> how many `came`, how many `different` ones, how many of those `late`.

        Late is what came for the first time after one that was sent after it.
        """
        with self._lock:
            return {
                source: {"came": row[0], "different": bin(row[3]).count("1"), "late": row[1]}
                for source, row in self._seen.get(token, {}).items()
            }


def send(
    targets: list[str], port: int, token: str, count: int = 3, spacing_ms: float = 5.0
) -> dict[str, dict[str, Any]]:
    """Send `count` datagrams to each target, in rounds `spacing_ms` apart.

    Returns target -> `{"sent": n, "errors": {name: n}}`: a rule in this node's own output path
    shows as an error, `EPERM`.
    """
    if not 0 < count <= COUNT_MAX:
        raise ValueError(f"count must be 1 to {COUNT_MAX}, not {count}")
    result: dict[str, dict[str, Any]] = {t: {"sent": 0, "errors": {}} for t in targets}
    with contextlib.ExitStack() as stack:
        sockets: dict[int, socket.socket] = {}
        for family in {_family(target) for target in targets}:
            sockets[family] = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            sockets[family].settimeout(1.0)
        for turn in range(count):
            if turn:
                time.sleep(spacing_ms / 1e3)
            payload = MAGIC + f"{token}#{turn}".encode()
            for target in targets:
                family = _family(target)
                row = result[target]
                try:
                    sockets[family].sendto(payload, (target, port))
                    row["sent"] += 1
                except OSError as error:
                    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
                    row["errors"][name] = row["errors"].get(name, 0) + 1
    return result


def round_trips(
    targets: list[str],
    port: int,
    token: str,
    count: int = 9,
    spacing_ms: float = 10.0,
    wait_s: float = 1.0,
) -> dict[str, list[int]]:
    """Send `count` echoes to each target, `spacing_ms` apart; wait `wait_s` for the last answers.

    Returns target -> microseconds of each round trip that ended, in the order of sending.
    """
    if not 0 < count <= COUNT_MAX:
        raise ValueError(f"count must be 1 to {COUNT_MAX}, not {count}")
    sent: dict[bytes, tuple[str, int]] = {}
    took: dict[bytes, int] = {}
    with contextlib.ExitStack() as stack:
        sockets = {
            family: stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            for family in {_family(target) for target in targets}
        }
        for sock in sockets.values():
            sock.setblocking(False)

        def gather(until_ns: int) -> None:
            while len(took) < len(sent) and (left_ns := until_ns - time.monotonic_ns()) > 0:
                for ready in select.select(list(sockets.values()), [], [], left_ns / 1e9)[0]:
                    with contextlib.suppress(OSError):
                        key = ready.recv(2048)[len(BACK) :]
                        if key in sent and key not in took:
                            took[key] = time.monotonic_ns() - sent[key][1]

        began_ns = time.monotonic_ns()
        for turn in range(count):
            for index, target in enumerate(targets):
                key = f"{token}#{turn}#{index}".encode()
                sent[key] = (target, time.monotonic_ns())
                with contextlib.suppress(OSError):
                    sockets[_family(target)].sendto(ECHO + key, (target, port))
            gather(began_ns + int((turn + 1) * spacing_ms * 1e6))
        gather(time.monotonic_ns() + int(wait_s * 1e9))
    result: dict[str, list[int]] = {target: [] for target in targets}
    for key, (target, _) in sent.items():
        if key in took:
            result[target].append(took[key] // 1000)
    return result


def connect(targets: list[str], port: int, wait_s: float = 0.5) -> dict[str, str]:
    """Open a connection to each target and close it; wait `wait_s` for all together.

    Returns target -> empty where it was opened, else the error's name, `ETIMEDOUT` for no answer.
    """
    result: dict[str, str] = dict.fromkeys(targets, "ETIMEDOUT")
    with contextlib.ExitStack() as stack:
        under_way: dict[socket.socket, str] = {}
        for target in targets:
            sock = stack.enter_context(socket.socket(_family(target), socket.SOCK_STREAM))
            sock.setblocking(False)
            code = sock.connect_ex((target, port))
            if code == errno.EINPROGRESS:
                under_way[sock] = target
            else:
                result[target] = errno.errorcode.get(code, str(code)) if code else ""
        until_ns = time.monotonic_ns() + int(wait_s * 1e9)
        while under_way and (left_ns := until_ns - time.monotonic_ns()) > 0:
            for sock in select.select([], list(under_way), [], left_ns / 1e9)[1]:
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                result[under_way.pop(sock)] = errno.errorcode.get(code, str(code)) if code else ""
    return result


def ask(address: str, port: int, send: str, expect: str, wait_s: float = 0.8) -> bool:
    """Does a server answer as it should? `send` and `expect` (its first bytes) are base64."""
    wanted = base64.b64decode(expect)
    message = b""
    deadline_ns = time.monotonic_ns() + int(wait_s * 1e9)
    try:
        with socket.create_connection((address, port), timeout=wait_s) as sock:
            sock.sendall(base64.b64decode(send))
            while len(message) < max(1, len(wanted)):
                sock.settimeout(max(0.001, (deadline_ns - time.monotonic_ns()) / 1e9))
                data = sock.recv(max(1, len(wanted)) - len(message))
                if not data:
                    return False
                message += data
    except OSError:
        return False
    return message.startswith(wanted)


def _take(sock: socket.socket) -> None:
    while True:
        with contextlib.suppress(OSError):
            sock.accept()[0].close()


def _family(target: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in target else socket.AF_INET


def look(idents: list[list[int]]) -> list[dict[str, Any]]:
    """Per process, given by pid and start time, in this order:

    `alive`, `running` (threads that are not in state T, and would not be before they run on),
    `ticks` of CPU, and `frozen`, the control group in which it stands still (empty: in none).
    """
    freezers = _freezers()
    return [_one(pid, start, freezers) for pid, start in idents]


def _one(pid: int, start: int, freezers: list[tuple[str, str]]) -> dict[str, Any]:
    info = process_info(pid)
    states = _threads(pid)
    alive = info["start_time"] == start and bool(states) and (info["alive"] or len(states) > 1)
    if not alive:
        return {"alive": False, "running": 0, "ticks": 0, "frozen": ""}
    return {
        "alive": True,
        "running": sum(state not in "Tt" for state in states),
        "ticks": info["utime"] + info["stime"],
        "frozen": _frozen(pid, freezers),
    }


def _threads(pid: int) -> list[str]:
    """The state of each thread; T for one that waits in the kernel with a SIGSTOP pending.

    Such a one forks by vfork, and its child was stopped before it ran a program.
    """
    threads = []
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for name in names:
        try:
            text = Path(f"/proc/{pid}/task/{name}/stat").read_bytes()
        except OSError:
            continue
        state = text.rpartition(b")")[2].split()[0].decode()
        threads.append("T" if state == "D" and _to_stop(pid, name) else state)
    return threads


def _to_stop(pid: int, thread: str) -> bool:
    try:
        text = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", text, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGSTOP - 1) & 1 for mask in pending)


def _freezers() -> list[tuple[str, str]]:
    """(`v1` or `v2`, mount) of each hierarchy that can freeze."""
    found = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, filesystem, options = line.split()[:4]
        if filesystem == "cgroup" and "freezer" in options.split(","):
            found.append(("v1", mount))
        elif filesystem == "cgroup2":
            found.append(("v2", mount))
    return found


def _frozen(pid: int, freezers: list[tuple[str, str]]) -> str:
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        for kind, mount in freezers:
            match = (V1 if kind == "v1" else V2).search(groups)
            if match is None:
                continue
            folder = Path(mount + match[1])
            if kind == "v1" and (folder / "freezer.state").is_file():
                stands = (folder / "freezer.state").read_text().strip() == "FROZEN"
            else:
                events = folder / "cgroup.events"
                stands = events.is_file() and "frozen 1" in events.read_text().splitlines()
            if stands:
                return match[1]
    except OSError:
        return ""
    return ""


def memory_kills(groups: str = "/sys/fs/cgroup", machine: str = "/proc/vmstat") -> dict[str, int]:
    """Processes that the kernel has killed for lack of memory, by the file that says so: of each
    control group; where no group tells, of the whole machine, which may be too many.

    Read here and without programs: of a slow node they would take more than its servers can spare.
    """
    paths = [
        f"{folder}/{name}"
        for folder, _, names in os.walk(groups)
        for name in KILLS
        if name in names
    ]
    return _counts(paths) or _counts([machine])


def _counts(paths: list[str]) -> dict[str, int]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    found[path] = int(line.split()[1])
    return found
