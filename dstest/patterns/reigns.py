"""Who was a primary, from when until when, by what each server's log says of itself."""

from __future__ import annotations

from typing import Final, NamedTuple

from dstest.logs.scene import Line

KEPT_MAX: Final = 10_000


class Reign(NamedTuple):
    """A server was a primary since `first`, the first line that says so. `until` is the first that
    says otherwise, None where none does; there it became a replica of `successor`. `taken` is the
    line by which it took over from another one; None of one that was a primary from its start."""

    node: str
    log: str
    first: Line
    taken: Line | None
    until: Line | None = None
    successor: str = ""


class Reigns:
    """Gathered line by line, each log in its order. A node may have several servers, with a log
    each."""

    def __init__(self) -> None:
        self.every: list[Reign] = []
        self._open: dict[tuple[str, str], Reign] = {}

    def line(self, line: Line, peer: str) -> None:
        """`peer` is the member that the line is about."""
        record = line.record
        if not record.role and not record.turned:
            return
        key = (line.node, line.place.rpartition(":")[0])
        there = self._open.get(key)
        if record.role == "primary":
            taken = line if record.turned else None
            if there is None or there.until is not None:
                self._end(key)
                self._open[key] = Reign(*key, line, taken)
            elif taken is not None and there.taken is None:
                # It writes what it has turned into, and then that it has.
                self._open[key] = there._replace(taken=taken)
        elif there is not None:
            until = there.until or line
            self._open[key] = there._replace(until=until)
            if not record.role:
                self._end(key)
            elif record.turned and peer:
                self._open[key] = there._replace(until=until, successor=peer)
                self._end(key)

    def _end(self, key: tuple[str, str]) -> None:
        there = self._open.pop(key, None)
        if there is not None and len(self.every) < KEPT_MAX:
            self.every.append(there)

    @property
    def all(self) -> list[Reign]:
        """Those that have ended, and those that had not."""
        return [*self.every, *self._open.values()]
