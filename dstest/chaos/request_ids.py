"""By what a request of the load is known behind the service: headers that many services hand on.

`traceparent` is that of W3C Trace Context, which OpenTelemetry hands on by itself. Its trace id
begins with eight bytes that say it is of a load of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_MARK: Final = b"6473746573740001"
"""`dstest` and a version, in hexadecimal digits."""

_OWN: Final = re.compile(rb"dstest-(\d{1,15})")


def id_headers(n: int) -> bytes:
    """The lines for the n-th request, n from 1."""
    return b"X-Request-Id: dstest-%d\r\ntraceparent: 00-%s%016x-%016x-01\r\n" % (n, _MARK, n, n)


def request_of(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Which request of the load these headers belong to; None where they do not say."""
    for name, value in headers:
        lower = name.lower()
        if lower == b"x-request-id":
            if found := _OWN.fullmatch(value.strip()):
                return int(found[1])
        elif lower == b"traceparent":
            parts = value.strip().split(b"-")
            if len(parts) >= 3 and len(parts[1]) == 32 and parts[1].startswith(_MARK):
                try:
                    return int(parts[1][16:], 16)
                except ValueError:
                    return None
    return None
