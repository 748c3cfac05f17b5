"""Do the logs of a run fit one another and its settings?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dstest.chaos.records import HOUR_NS, Entry, Passed
from dstest.chaos.settings import Settings
from dstest.core.errors import EvidenceError


def sane(settings: Settings, entries: Sequence[Entry], passes: Sequence[Passed]) -> None:
    """Raises EvidenceError where they contradict themselves."""
    allowed = {one.name: one.status for one in settings.endpoint}
    proxies = {one.name for one in settings.proxy}
    for entry in entries:
        where = f"request {entry.n}"
        _times(where, entry.due_ns, entry.begin_ns, entry.end_ns)
        status = allowed.get(entry.endpoint)
        if status is None:
            _refuse(f"{where} is of {entry.endpoint!r}, which the settings do not have")
        elif entry.ok and (entry.why or entry.trouble or entry.status not in status):
            _refuse(f"{where} is a success, and says {entry.why or entry.trouble or entry.status}")
        elif not entry.ok and not entry.why:
            _refuse(f"{where} is a failure, and does not say why")
    _once("request", [one.n for one in entries])
    for one in passes:
        where = f"request {one.n} of the proxy {one.proxy}"
        _times(where, one.begin_ns, one.begin_ns, one.end_ns)
        if one.proxy not in proxies:
            _refuse(f"{where}: the settings have no such proxy")
        if (one.kind is None) != (one.id is None):
            _refuse(f"{where} has half a fault")
    _once("request of a proxy", [(one.proxy, one.n) for one in passes])


def _once(what: str, names: Sequence[Any]) -> None:
    if len(set(names)) != len(names):
        _refuse(f"a {what} stands there twice")


def _times(where: str, due_ns: int, begin_ns: int, end_ns: int) -> None:
    if not 0 <= due_ns <= begin_ns <= end_ns <= due_ns + HOUR_NS:
        _refuse(f"the times of {where} are none")


def _refuse(why: str) -> None:
    raise EvidenceError(
        f"the logs of this run are no evidence: {why}",
        remedy="run `dstest chaos` again into a new directory",
    )
