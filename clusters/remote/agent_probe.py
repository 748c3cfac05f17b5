"""Runs on a node: datagrams that prove which directed paths between nodes carry traffic.

A node listens and counts what arrives by token and source address; another sends. Nothing is
answered, so a count speaks of one direction only. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from typing import Any

__all__ = ["Probes"]

MAGIC = b"dstest-probe:"
TOKENS_MAX = 4096
"""The oldest token is forgotten beyond this."""

COUNT_MAX = 10_000


class Probes:
    """The listening sockets of one agent and what they counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: dict[int, list[str]] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def listen(self, port: int) -> dict[str, Any]:
        """Count datagrams to this port, of both families. Safe to repeat. Raises OSError."""
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
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT:
                    continue
                for opened in sockets:
                    opened.close()
                raise
            sockets.append(sock)
        for sock in sockets:
            threading.Thread(target=self._count, args=(sock,), daemon=True).start()
        return [sock.family.name for sock in sockets]

    def _count(self, sock: socket.socket) -> None:
        while True:
            data, source = sock.recvfrom(2048)
            if not data.startswith(MAGIC):
                continue
            token = data[len(MAGIC) :].decode("utf-8", "replace")
            address = str(source[0]).partition("%")[0]
            with self._lock:
                if token not in self._counts and len(self._counts) >= TOKENS_MAX:
                    self._counts.pop(next(iter(self._counts)))
                by_source = self._counts.setdefault(token, {})
                by_source[address] = by_source.get(address, 0) + 1

    def counts(self, token: str) -> dict[str, int]:
        """Source address -> datagrams with this token that arrived here."""
        with self._lock:
            return dict(self._counts.get(token, {}))


def send(
    targets: list[str], port: int, token: str, count: int = 3, spacing_ms: float = 5.0
) -> dict[str, dict[str, Any]]:
    """Send `count` datagrams to each target, in rounds `spacing_ms` apart.

    Returns target -> `{"sent": n, "errors": {name: n}}`: a rule in this node's own output path
    shows as an error, `EPERM`.
    """
    if not 0 < count <= COUNT_MAX:
        raise ValueError(f"count must be 1 to {COUNT_MAX}, not {count}")
    payload = MAGIC + token.encode()
    result: dict[str, dict[str, Any]] = {t: {"sent": 0, "errors": {}} for t in targets}
    with contextlib.ExitStack() as stack:
        sockets: dict[int, socket.socket] = {}
        for family in {socket.AF_INET6 if ":" in target else socket.AF_INET for target in targets}:
            sockets[family] = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            sockets[family].settimeout(1.0)
        for turn in range(count):
            if turn:
                time.sleep(spacing_ms / 1e3)
            for target in targets:
                family = socket.AF_INET6 if ":" in target else socket.AF_INET
                row = result[target]
                try:
                    sockets[family].sendto(payload, (target, port))
                    row["sent"] += 1
                except OSError as error:
                    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
                    row["errors"][name] = row["errors"].get(name, 0) + 1
    return result
