"""Counters of requests in what a client sends, for protocols that many systems speak.

Each takes the bytes of one connection in any pieces; `requests` counts so far, and `known` is false
from where they cannot be read as requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LINE_MAX: Final = 1 << 16


class _Lines:
    """What lines of a protocol have in common: `_take` reads each, and may set `_skip`, the bytes
    behind it that are none."""

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._line = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            self._line += data[at:stop]
            at = stop
            if end >= 0:
                self._take(bytes(self._line))
                self._line.clear()
            self.known = self.known and len(self._line) <= _LINE_MAX

    def _take(self, line: bytes) -> None:
        raise NotImplementedError


class LineRequests(_Lines):
    """Commands that are lines, some with a block of data behind (memcached, beanstalk).

    `sizes` has for each of these verbs which word of its line is the size of the block in bytes;
    the block ends with CR LF, which the size does not count.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = {verb.encode(): word for verb, word in sizes.items()}

    def _take(self, line: bytes) -> None:
        words = line.split()
        self.requests += 1
        word = self._sizes.get(words[0]) if words else None
        if word is not None:
            try:
                self._skip = int(words[word]) + 2
            except (IndexError, ValueError):
                self.known = False


class HttpRequests(_Lines):
    """Requests of HTTP/1.0 and 1.1 on connections that are kept or not, with bodies of a given
    length or in chunks. What comes after an upgrade to another protocol is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self._next = self._request
        self._size = 0
        self._chunked = False

    def _take(self, line: bytes) -> None:
        self._next(line.rstrip(b"\r\n"))

    def _request(self, line: bytes) -> None:
        words = line.split(b" ")
        if len(words) == 3 and words[2] in (b"HTTP/1.1", b"HTTP/1.0"):
            self.requests += 1
            self._size, self._chunked, self._next = 0, False, self._header
        elif line:  # an empty one may come before a request
            self.known = False

    def _header(self, line: bytes) -> None:
        name, _, value = (part.strip().lower() for part in line.partition(b":"))
        if not line:
            self._skip = 0 if self._chunked else self._size
            self._next = self._chunk if self._chunked else self._request
        elif name == b"content-length":
            self.known = value.isdigit()
            self._size = int(value) if self.known else 0
        elif name == b"transfer-encoding":
            self._chunked = self.known = value == b"chunked"
        elif name == b"upgrade":
            self.known = False

    def _chunk(self, line: bytes) -> None:
        """Its size, in front of it; that of the last one is zero."""
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            self.known = False
            return
        self._skip = size and size + len(b"\r\n")
        self._next = self._chunk if size else self._trailer

    def _trailer(self, line: bytes) -> None:
        if not line:
            self._next = self._request


class RespRequests(_Lines):
    """Commands of the Redis serialization protocol: arrays of bulk strings."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0

    def _take(self, line: bytes) -> None:
        """`*N` begins a command of N strings, `$N` a string of N bytes and CR LF."""
        line = line.strip()
        begins, size = (b"$" if self._left else b"*"), line[1:]
        if line[:1] != begins or not size.isdigit():
            self.known = False
        elif self._left:
            self._left -= 1
            self._skip = int(size) + 2
        else:
            self._left = int(size)
            self.requests += 1


class FramedRequests:
    """Messages that say how long they are: `frame` gives, of the bytes from a message's beginning,
    its whole length and whether it is a request; None where they do not say yet, ValueError where
    they are no message. `number` is how many messages came before."""

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._head = bytearray()
        self._skip = 0
        self._number = 0

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        raise NotImplementedError

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            try:
                found = self.frame(bytes(self._head), self._number)
            except ValueError:
                self.known = False
                return
            if found is not None:
                length, request = found
                self.requests += request
                self._number += 1
                self._skip = length - len(self._head)
                self.known = self._skip >= 0
                self._head.clear()
