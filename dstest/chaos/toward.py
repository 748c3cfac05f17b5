"""Hands an answer's bytes on as they come, with one header more."""

from __future__ import annotations

from collections.abc import Callable

from dstest.chaos.exchange import Connection


class Toward:
    """Where the bytes of an answer go; the header is put behind its first line."""

    def __init__(self, hand_on: Callable[[bytes, Connection], None], header: bytes) -> None:
        self._hand_on = hand_on
        self._header = header
        self._first = b""
        self.begun = False

    def __call__(self, data: bytes, source: Connection) -> None:
        if self.begun or not self._header:
            self.begun = True
            self._hand_on(data, source)
            return
        self._first += data
        passed = b""
        while self._first.startswith(b"HTTP/1.1 1"):  # comes before the answer itself
            early, end, rest = self._first.partition(b"\r\n\r\n")
            if not end:
                break
            passed, self._first = passed + early + end, rest
        line, end, rest = self._first.partition(b"\r\n")
        if end and not line.startswith(b"HTTP/1.1 1"):
            self.begun = True
            passed += line + end + self._header + end + rest
        if passed:
            self._hand_on(passed, source)
