"""What members of a cluster say of themselves, one look at a time.

A sample is `{NAME: answer or null}`: an object for who answered, null for who did not. Recorded
ones are lines of JSON; live ones are asked for over TCP, a line there and a line of JSON back.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Final

from dstest.core import clock
from dstest.core.errors import ConfigError, HistoryError
from dstest.spec.log_file import once

Sample = dict[str, Any]

WAIT_S: Final = 1.0
"""For an answer, to its end."""

ANSWER_BYTES: Final = 1 << 20
"""Of an answer, at most."""


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def recorded(lines: Iterable[bytes] | IO[bytes], name: str) -> Iterator[Sample]:
    """Lines of a file. Raises HistoryError for one that is no sample."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sample = json.loads(line, object_pairs_hook=once, parse_constant=_no_number)
        except (ValueError, RecursionError):
            sample = None
        good = isinstance(sample, dict) and sample
        if not good or not all(v is None or isinstance(v, dict) for v in sample.values()):
            raise HistoryError(
                f"{name}, line {number}: no sample",
                remedy='{"n1": {..}, "n2": null}: what each has answered',
            )
        yield sample


def asked(
    endpoints: Sequence[str], line: str, every_s: float, count: int | None
) -> Iterator[Sample]:
    """Samples of those at HOST:PORT, all asked at once, so many or for ever. Raises ConfigError for
    what is no address."""
    places = {one: _place(one) for one in endpoints}
    with ThreadPoolExecutor(len(places)) as asking:
        taken = 0
        while count is None or taken < count:
            begun_ns = clock.monotonic_ns()
            answers = asking.map(lambda place: _answer(place, line), places.values())
            yield dict(zip(places, answers, strict=True))
            taken += 1
            if taken != count:
                spent_s = (clock.monotonic_ns() - begun_ns) / 1e9
                clock.sleep_s(max(0.0, every_s - spent_s))


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is no address", remedy="--ask HOST:PORT")
    return host, int(port)


def _answer(place: tuple[str, int], line: str) -> Any:
    """None for who does not answer in time, or no object."""
    try:
        said = json.loads(_line_of(place, line), object_pairs_hook=once, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _line_of(place: tuple[str, int], line: str) -> bytes:
    """What is answered, up to the first end of a line. Raises OSError where it takes too long or
    is too much."""
    end_ns = clock.monotonic_ns() + int(WAIT_S * 1e9)
    found = bytearray()
    with socket.create_connection(place, WAIT_S) as link:
        link.sendall(line.encode() + b"\n")
        while b"\n" not in found:
            left_s = (end_ns - clock.monotonic_ns()) / 1e9
            if left_s <= 0 or len(found) > ANSWER_BYTES:
                raise TimeoutError
            link.settimeout(left_s)
            more = link.recv(1 << 16)
            if not more:
                break
            found += more
    return bytes(found.partition(b"\n")[0] or b"null")
