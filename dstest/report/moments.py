"""Each anomaly with what belongs beside it: where it lies among the faults, what it means, the
counters of those faults, the logs of that moment, how often it came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.check import Anomaly, CheckResult
from dstest.core.op import Op
from dstest.core.words import quoted
from dstest.report.logs import LogLines, NodeLog, around
from dstest.report.loops import is_cycle
from dstest.report.meanings import Meaning, meaning_of
from dstest.report.model import FaultView, RunReport
from dstest.report.over_seeds import Arm, often
from dstest.report.stale import read_wrongly
from dstest.report.timeline import told

__all__ = ["DETAILED_MAX", "Moment", "headline", "moments"]

DETAILED_MAX: Final = 8
"""Anomalies with logs and counters beside them: of more of one kind nobody reads, and the page has
a bound. The others are listed."""

_KEY_MAX: Final = 60

_NEXT: Final = re.compile(
    r"(?:There the (?P<object>[\w -]+) can(?: \w+)?: (?P<held>[^.]*)\. )?"
    r"Next completes (?P<what>.+?) \(op (?P<op>[^,)]+), process [^)]*\): (?P<why>it needs [^.]*)\."
)
"""How the linearizability checker says which answer cannot be, and what could have been."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly ready to show. `start_ns` to `end_ns` is its witness, None where that names no
    operation of the history; `culprit` the op_id of the answer that gave it away, at `told_ns`.
    `logs` and `beside` are empty for those that are not `detailed`."""

    number: int
    checker: str
    anomaly: Anomaly
    meaning: Meaning
    ops: list[Op]
    start_ns: int | None
    end_ns: int | None
    culprit: int | str | None
    told_ns: int | None
    where: str
    inside: list[FaultView]
    beside: list[FaultView]
    logs: list[LogLines]
    often: list[str]
    detailed: bool

    @property
    def id(self) -> str:
        return f"anomaly-{self.number}"

    @property
    def title(self) -> str:
        key = "" if self.anomaly.key is None else f" on key {self.anomaly.key}"
        return f"{self.anomaly.type}{key}"


def _last_ns(op: Op) -> int:
    return op.invoke_ts if op.complete_ts is None else op.complete_ts


def _culprit(anomaly: Anomaly, ops: Sequence[Op]) -> int | str | None:
    """The operation whose answer cannot be: the one that the explanation speaks of first, or the
    last to complete. None in a cycle, where each has its part."""
    if is_cycle(anomaly):
        return None
    by_id = {str(op.op_id): op.op_id for op in ops}
    found = _NEXT.search(anomaly.explanation)
    if found is not None and found["op"] in by_id:
        return by_id[found["op"]]
    types = "|".join(sorted({re.escape(op.op_type) for op in ops}))
    for match in re.finditer(rf"(?:\b(?:ops?|{types}) |\bT)(\d+)\b", anomaly.explanation):
        if match[1] in by_id:
            return by_id[match[1]]
    return max(ops, key=_last_ns).op_id if ops else None


def _stands(fault: FaultView, start_ns: int, end_ns: int) -> bool:
    if fault.start_ns is None or fault.start_ns > end_ns:
        return False
    return fault.end_ns is None or fault.end_ns >= start_ns


def _named(faults: Sequence[FaultView]) -> str:
    return " and ".join(
        f"fault window {f.id} ({f.nemesis}{f' {f.kind}' if f.kind else ''} on {f.targets})"
        for f in faults
    )


def _s(time_ns: int) -> str:
    return f"{time_ns / 1e9:.1f} s"


def _around(end_ns: int, faults: Sequence[FaultView]) -> list[str]:
    """How far from the fault before and the fault after."""
    healed = [f for f in faults if f.end_ns is not None and f.end_ns <= end_ns]
    coming = [f for f in faults if f.start_ns is not None and f.start_ns > end_ns]
    said = []
    if healed:
        last = max(healed, key=lambda f: f.end_ns or 0)
        said.append(
            f"{_s(end_ns - (last.end_ns or 0))} after {last.id} ({last.nemesis}) was healed"
        )
    if coming:
        first = min(coming, key=lambda f: f.start_ns or 0)
        name = f"{first.id} ({first.nemesis})"
        said.append(f"{_s((first.start_ns or 0) - end_ns)} before {name} was injected")
    return said


def _where(
    ops: Sequence[Op], culprit: Op, faults: Sequence[FaultView]
) -> tuple[str, list[FaultView]]:
    """In a sentence whether the anomaly shows inside a fault window, and those that it touches."""
    if not any(f.start_ns is not None for f in faults):
        return "No fault was injected in this run.", []
    begin, end = min(op.invoke_ts for op in ops), max(map(_last_ns, ops))
    touched = [f for f in faults if _stands(f, begin, end)]
    shown = [f for f in faults if _stands(f, culprit.invoke_ts, _last_ns(culprit))]
    at = f"It shows at {_last_ns(culprit) / 1e9:.2f} s"
    if shown:
        return f"{at}, inside {_named(shown)}.", touched
    near = " and ".join(_around(_last_ns(culprit), faults))
    said = f"{at}, outside every fault window{f': {near}' if near else ''}."
    if touched:
        said += f" Earlier operations of its witness ran inside {_named(touched)}."
    return said, touched


def _beside(
    inside: Sequence[FaultView], faults: Sequence[FaultView], end_ns: int
) -> list[FaultView]:
    """The faults whose counters belong to the moment: those that it touches, or the last before."""
    if inside:
        return list(inside)
    healed = [f for f in faults if f.end_ns is not None and f.end_ns <= end_ns]
    return [max(healed, key=lambda f: f.end_ns or 0)] if healed else []


def _moment(
    report: RunReport,
    number: int,
    checker: str,
    anomaly: Anomaly,
    *,
    logs: Sequence[NodeLog],
    arms: list[Arm],
    by_id: dict[int | str, Op],
) -> Moment:
    detailed = number <= DETAILED_MAX
    everything = sorted(
        (by_id[id] for id in dict.fromkeys(anomaly.ops) if id in by_id), key=lambda o: o.invoke_ts
    )
    where = "The witness names no operation of this history."
    inside: list[FaultView] = []
    beside: list[FaultView] = []
    lines: list[LogLines] = []
    start: int | None = None
    end: int | None = None
    told_ns: int | None = None
    culprit: int | str | None = None
    if everything:
        start = min(op.invoke_ts for op in everything)
        end = max(map(_last_ns, everything))
        culprit = _culprit(anomaly, everything)
        telling = next(
            (op for op in everything if op.op_id == culprit), max(everything, key=_last_ns)
        )
        told_ns = _last_ns(telling)
        where, inside = _where(everything, telling, report.faults)
        if detailed:
            beside = _beside(inside, report.faults, end)
            lines = around(logs, telling.invoke_ts, told_ns)
    result: CheckResult = report.results[checker]
    return Moment(
        number=number,
        checker=checker,
        anomaly=anomaly,
        meaning=meaning_of(checker, anomaly.type),
        ops=everything[-limits.WITNESS_OPS_MAX :],
        start_ns=start,
        end_ns=end,
        culprit=culprit,
        told_ns=told_ns,
        where=where,
        inside=inside,
        beside=beside,
        logs=lines,
        often=often(checker, anomaly.type, result, report.evidence.rerun, arms),
        detailed=detailed,
    )


def _ordered(report: RunReport) -> list[tuple[str, Anomaly]]:
    """One of each kind first, so that many of one do not hide the others."""
    seen: dict[tuple[str, str], int] = {}
    ranked = []
    for at, (checker, anomaly) in enumerate(report.anomalies):
        nth = seen[checker, anomaly.type] = seen.get((checker, anomaly.type), -1) + 1
        ranked.append((nth > 0, at, checker, anomaly))
    return [(checker, anomaly) for _, _, checker, anomaly in sorted(ranked, key=lambda r: r[:2])]


def moments(
    report: RunReport, logs: Sequence[NodeLog], arms: list[Arm] | None = None
) -> list[Moment]:
    """All anomalies of a run: one of each kind first, in the order that they were found in."""
    wanted = {id for _, anomaly in report.anomalies for id in anomaly.ops}
    by_id = {op.op_id: op for op in report.history.ops if op.op_id in wanted}
    return [
        _moment(report, n, checker, anomaly, logs=logs, arms=arms or [], by_id=by_id)
        for n, (checker, anomaly) in enumerate(_ordered(report), 1)
    ]


def _system(report: RunReport) -> str:
    header = report.history.header
    return " ".join(part for part in (header.system or "The system", header.system_version) if part)


def _short(key: Any) -> str:
    text = key if isinstance(key, str) else quoted(key)
    return text if len(text) <= _KEY_MAX else text[: _KEY_MAX - 1] + "…"


def _exactly(moment: Moment) -> str:
    """What the answer was that cannot be, as exactly as it is known."""
    found = _NEXT.search(moment.anomaly.explanation)
    culprit = next((op for op in moment.ops if op.op_id == moment.culprit), None)
    if found is None or culprit is None:
        exact = moment.anomaly.explanation.strip()
        exact = exact[:1].upper() + exact[1:]
        return exact + ("" if not exact or exact.endswith((".", "!", "?")) else ".")
    at = f" at {culprit.node_seen}" if culprit.node_seen else ""
    exact = (
        f"Process {culprit.process_id}{at} was answered “{told(culprit)}” at "
        f"{_last_ns(culprit) / 1e9:.2f} s: {found['why']}"
    )
    if found["held"]:
        exact += f", and the {found['object']} could only be {found['held']}"
    return f"{exact}."


def headline(report: RunReport, found: Sequence[Moment]) -> tuple[str, str]:
    """(What the database did wrong in a sentence, what exactly), for a run with a violation; two
    empty texts where nothing is known of it."""
    if not found:
        return "", ""
    first = found[0]
    key = "" if first.anomaly.key is None else f", on key {_short(first.anomaly.key)}"
    culprit = next((op for op in first.ops if op.op_id == first.culprit), None)
    placed = _NEXT.search(first.anomaly.explanation)
    did = read_wrongly(culprit, report.history.ops) if culprit is not None and placed else ""
    return f"{_system(report)} {did or first.meaning.did}{key}.", _exactly(first)
