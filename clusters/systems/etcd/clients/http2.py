"""Requests on the wire of an HTTP/2 client, counted from the bytes that it sends.

A request is a HEADERS frame that opens a stream (RFC 9113, sections 4.1 and 6.2): gRPC sends one
for each call, whether the program or the library itself asked for it.
"""

from __future__ import annotations

from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD: Final = 9
_HEADERS: Final = 1


class Http2Requests:
    """`feed` takes what one connection sends, in any pieces; `requests` counts so far.

    What does not begin as HTTP/2 does is not counted: `known` is false then.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._head = bytearray()
        self._skip = 0
        self._begun = False
        self._streams_max = 0

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            wanted = _FRAME_HEAD if self._begun else len(_PREFACE)
            step = min(wanted - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == wanted:
                self._whole(bytes(self._head))
                self._head.clear()

    def _whole(self, head: bytes) -> None:
        if not self._begun:
            self._begun = True
            self.known = head == _PREFACE
            return
        self._skip = int.from_bytes(head[:3], "big")
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        # Streams of a client are opened in rising order: a lower one is a trailer of an old stream.
        if head[3] == _HEADERS and stream > self._streams_max:
            self._streams_max = stream
            self.requests += 1
