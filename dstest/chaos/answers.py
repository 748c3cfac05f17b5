"""What a proxy writes to its client by itself, and how it ends a connection."""

from __future__ import annotations

import socket
import struct
from typing import Any


def own_answer(
    status: bytes, text: bytes, header: bytes, *, keep: bool, head: bool = False
) -> bytes:
    lines = [
        b"HTTP/1.1 " + status,
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: %d" % len(text),
    ]
    lines += [header] if header else []
    lines += [] if keep else [b"Connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if head else text)


def reset(transport: Any) -> None:
    """Close with RST: what was sent and not read is thrown away, as by a host that crashed."""
    found = transport.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
