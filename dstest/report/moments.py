"""Each anomaly with what belongs beside it: where it lies among the faults, what it means, the
counters of those faults, the logs of that moment, how often it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.check import Anomaly, CheckResult
from dstest.core.op import Op, who
from dstest.core.words import quoted, sentences
from dstest.report.logs import LogLines, NodeLog, around
from dstest.report.loops import is_cycle
from dstest.report.meanings import Meaning, gravity, meaning_of
from dstest.report.model import FaultView, RunReport
from dstest.report.over_seeds import Arm, often
from dstest.report.places import Place, last_ns, place_of
from dstest.report.sentences import culprit_of, stuck_of
from dstest.report.stale import read_wrongly
from dstest.report.timeline import told
from dstest.report.twins import twins

DETAILED_MAX: Final = 8
"""Anomalies with logs and counters beside them: of more of one kind nobody reads, and the page has
a bound. The others are listed."""

_KEY_MAX: Final = 60
_BETWEEN_MAX: Final = 3
"""Faults that stood between the operations of a witness: whose counters are beside it, the last."""

_NOWHERE: Final = "The witness names no operation of this history."


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly ready to show. `start_ns` to `end_ns` is its witness, None where that names no
    operation of the history; `culprit` the op_id of the answer that gave it away. `logs` and
    `beside` are empty for those that are not `detailed`. `twin_of` is the number of the one that
    it repeats, which another checker found."""

    number: int
    checker: str
    anomaly: Anomaly
    meaning: Meaning
    ops: list[Op]
    start_ns: int | None
    end_ns: int | None
    culprit: int | str | None
    place: Place | None
    beside: list[FaultView]
    logs: list[LogLines]
    often: list[str]
    detailed: bool
    twin_of: int | None = None

    @property
    def id(self) -> str:
        return f"anomaly-{self.number}"

    @property
    def where(self) -> str:
        return _NOWHERE if self.place is None else self.place.said

    @property
    def told_ns(self) -> int | None:
        """When it showed."""
        return None if self.place is None else self.place.told_ns

    @property
    def inside(self) -> list[FaultView]:
        """The faults that an operation of the witness met."""
        return [] if self.place is None else self.place.touched

    @property
    def title(self) -> str:
        key = "" if self.anomaly.key is None else f" on key {self.anomaly.key}"
        return f"{self.anomaly.type}{key}"


def _culprit(anomaly: Anomaly, ops: Sequence[Op]) -> int | str | None:
    """The operation whose answer cannot be: the one that its checker names, or the last to
    complete. None in a cycle, where each has its part."""
    if is_cycle(anomaly):
        return None
    named = culprit_of(anomaly, ops)
    return named if named is not None or not ops else max(ops, key=last_ns).op_id


def _beside(place: Place, faults: Sequence[FaultView], end_ns: int) -> list[FaultView]:
    """The faults whose counters belong to the moment: those that its witness met or that stood
    between its operations, or the last before."""
    if place.touched or place.between:
        return [*place.touched, *place.between[-_BETWEEN_MAX:]]
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
    result: CheckResult = report.results[checker]
    meaning = meaning_of(checker, anomaly.type)
    ops = sorted(
        (by_id[id] for id in dict.fromkeys(anomaly.ops) if id in by_id), key=lambda o: o.invoke_ts
    )
    culprit = _culprit(anomaly, ops)
    place: Place | None = None
    if ops:
        telling = next((op for op in ops if op.op_id == culprit), max(ops, key=last_ns))
        place = place_of(anomaly, meaning.shape, ops, telling, report.faults)
        if culprit is not None:
            culprit = place.told.op_id
    end = max(map(last_ns, ops)) if ops else None
    return Moment(
        number=number,
        checker=checker,
        anomaly=anomaly,
        meaning=meaning,
        ops=ops[-limits.WITNESS_OPS_MAX :],
        start_ns=min(op.invoke_ts for op in ops) if ops else None,
        end_ns=end,
        culprit=culprit,
        place=place,
        beside=_beside(place, report.faults, end) if place and end is not None and detailed else [],
        logs=around(logs, place.from_ns, place.at_ns) if place and detailed else [],
        often=often(checker, anomaly.type, result, report.evidence.rerun, arms),
        detailed=detailed,
    )


def rank(checker: str, anomaly: Anomaly) -> tuple[bool, int]:
    """What is told first of two kinds: what was seen, before a circle, which stands on an order
    that was inferred, also where elements are lost; of these what most models forbid."""
    return is_cycle(anomaly), -gravity(checker, anomaly.type)


def _ordered(
    report: RunReport, by_id: Mapping[int | str, Op]
) -> list[tuple[str, Anomaly, int | None]]:
    """One of each kind first, so that many of one do not hide the others, those of a checker by
    `rank`; each with the number of the one that it repeats."""
    found = report.anomalies
    repeats = twins(found, lambda checker, kind: meaning_of(checker, kind).shape, by_id)
    seen: set[tuple[str, str]] = set()
    checkers = list(dict.fromkeys(checker for checker, _ in found))
    ranked = []
    for at, (checker, anomaly) in enumerate(found):
        first = at not in repeats and (checker, anomaly.type) not in seen
        if first:
            seen.add((checker, anomaly.type))
        ranked.append(
            (not first, checkers.index(checker), rank(checker, anomaly) if first else (), at)
        )
    order = [at for *_, at in sorted(ranked)]
    number = {at: n for n, at in enumerate(order, 1)}
    return [(*found[at], number[repeats[at]] if at in repeats else None) for at in order]


def moments(
    report: RunReport, logs: Sequence[NodeLog], arms: list[Arm] | None = None
) -> list[Moment]:
    """All anomalies of a run: one of each kind first."""
    wanted = {id for _, anomaly in report.anomalies for id in anomaly.ops}
    by_id = {op.op_id: op for op in report.history.ops if op.op_id in wanted}
    return [
        msgspec.structs.replace(
            _moment(report, n, checker, anomaly, logs=logs, arms=arms or [], by_id=by_id),
            twin_of=twin_of,
        )
        for n, (checker, anomaly, twin_of) in enumerate(_ordered(report, by_id), 1)
    ]


def _system(report: RunReport) -> str:
    header = report.history.header
    return " ".join(part for part in (header.system or "The system", header.system_version) if part)


def _short(key: Any) -> str:
    text = key if isinstance(key, str) else quoted(key)
    return text if len(text) <= _KEY_MAX else text[: _KEY_MAX - 1] + "…"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    told = sentences(text)
    return told[:1].upper() + told[1:]


def _exactly(moment: Moment) -> str:
    """What the answer was that cannot be, as exactly as it is known."""
    found = stuck_of(moment.anomaly)
    culprit = next((op for op in moment.ops if op.op_id == moment.culprit), None)
    if found is None or culprit is None:
        return sentence(moment.anomaly.explanation)
    at = f" at {culprit.node_seen}" if culprit.node_seen else ""
    by = who(culprit.process_id)
    exact = (
        f"{by[0].upper()}{by[1:]}{at} was answered “{told(culprit)}” at "
        f"{last_ns(culprit) / 1e9:.2f} s: {found.needs}"
    )
    if found.held:
        exact += f", and the {found.noun} could only be {found.held}"
    return f"{exact}."


def in_a_line(system: str, did: str, key: Any) -> str:
    """What the database did wrong, as a sentence; `key` is None where it is about none."""
    return f"{system or 'The system'} {did}{'' if key is None else f', on key {_short(key)}'}."


def headline(report: RunReport, found: Sequence[Moment]) -> tuple[str, str]:
    """(What the database did wrong in a sentence, what exactly); two empty texts where the verdict
    does not say that it did, whatever was found, and where nothing is known of it."""
    if not found or not report.state.failed:
        return "", ""
    first = found[0]
    culprit = next((op for op in first.ops if op.op_id == first.culprit), None)
    stuck = stuck_of(first.anomaly) is not None
    did = read_wrongly(culprit, report.history.ops) if culprit is not None and stuck else ""
    said = in_a_line(_system(report), did or first.meaning.did, first.anomaly.key)
    return said, _exactly(first)
