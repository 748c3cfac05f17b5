"""Each anomaly with what belongs beside it: where it lies among the faults, what it means, the
counters of those faults, the logs of that moment, how often it came.

One and the same anomaly that several checkers found is told once, with all who found it. All of one
kind are told in a sentence or two, and how much was found in a line by checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from dstest.core import limits
from dstest.core.check import Anomaly, CheckResult, Sightings, Spread, kinds_of
from dstest.core.evidence import Rerun
from dstest.core.history import FaultWindow
from dstest.core.op import NULL_IS_RESULT, Op, Outcome, last_ns, who
from dstest.core.words import quoted, sentences
from dstest.report.logs import LogLines, NodeLog, around
from dstest.report.meanings import Meaning, culprit_of, gravity, meaning_of, stuck_of
from dstest.report.model import FaultView, RunReport
from dstest.report.numbers import number, tenths
from dstest.report.places import LOST, Damage, aged_ns, damage_of, last_shown, read_wrongly
from dstest.report.settings import promised
from dstest.report.timeline import full_label, is_cycle

_FOLDER: Final = "arms"

_NOT_KNOWN: Final = ""

DETAILED_MAX: Final = 8
"""Anomalies with logs and counters beside them, one of each kind. The others are listed."""

_KEY_MAX: Final = 60

_BETWEEN_MAX: Final = 3
"""Faults that stood between the operations of a witness: whose counters are beside it, the last."""

_NO_FAULT: Final = "No fault was injected"
_NOWHERE: Final = "The witness names no operation of this history."

_NAMED_MAX: Final = 3
"""Nodes, keys and fault windows that are named, those with most."""

_SPREAD_KEY_MAX: Final = 40

_OUTSIDE: Final = "outside faults"
_BY_EPOCH: Final = "anomalies_by_epoch"

_TENTH_NS: Final = 100_000_000
_PARTS_MAX: Final = 3
"""Of a count by fault or by kind the largest parts; a run can have hundreds of faults."""


class Arm(NamedTuple):
    """One arm of the session: what its last run found, by checker and type of anomaly."""

    id: str
    seed: int
    nodes: int
    found: frozenset[tuple[str, str]]


def _anomaly_pairs(verdict: Any) -> frozenset[tuple[str, str]]:
    checkers = verdict.get("checkers", {}) if isinstance(verdict, dict) else {}
    return frozenset((name, kind) for name, result in checkers.items() for kind in kinds_of(result))


def arms_of(run: Path) -> list[Arm]:
    """The arms of the session that a run belongs to, of those that were judged; none where it
    belongs to no session."""
    folder = run.parent.parent
    file = folder.parent / "session.json"
    if folder.name != _FOLDER or not file.is_file():
        return []
    arms = []
    try:
        for arm in msgspec.json.decode(file.read_bytes())["arms"]:
            verdict = folder.parent / arm["attempts"][-1] / "verdict.json"
            if arm["done"] and verdict.is_file():
                found = _anomaly_pairs(msgspec.json.decode(verdict.read_bytes()))
                arms.append(Arm(arm["id"], arm["seed"], arm["nodes"], found))
    except (KeyError, IndexError, TypeError, OSError, msgspec.DecodeError):
        return []
    return arms


def often(checker: str, kind: str, result: CheckResult, rerun: Rerun, arms: list[Arm]) -> list[str]:
    """Sentences that say it."""
    shown = len(result.anomalies.get(kind, ()))
    n = result.counted.get(kind, 0)
    times = "once" if n == 1 else f"{n:,} times"
    said = [f"In this run: {times}" + (f", {shown} with a witness." if n > shown else ".")]
    if rerun.same_seed_runs:
        told = (
            f"{rerun.reproduced} of {rerun.same_seed_runs} showed the violation again"
            if rerun.identical is msgspec.UNSET
            else rerun.said
        )
        said.append(f"Runs of the same seed: {told}.")
    else:
        said.append("The same seed has not been run again.")
    if arms:
        having = [arm for arm in arms if (checker, kind) in arm.found]
        which = ", ".join(f"{arm.id}" for arm in having[:12])
        said.append(
            f"Over the {len(arms)} judged arms of its session, each a seed and a size of its own: "
            f"in {len(having)}" + (f" ({which})." if which else ".")
        )
    else:
        said.append("This run belongs to no session, so no other seed tells how often it comes.")
    return said


def element_of(anomaly: Anomaly, shape: str, by_id: Mapping[int | str, Op]) -> str:
    """What it is about, as JSON; empty where nobody knows. Runs of before checkers said so are read
    by their witness: what is lost is what its acknowledged write wrote."""
    if anomaly.element is not UNSET:
        return quoted(anomaly.element)
    wrote: list[Any] = [
        op.input
        for op in (by_id[id] for id in anomaly.ops if id in by_id)
        if op.outcome is Outcome.OK and op.op_type not in NULL_IS_RESULT and op.input is not None
    ]
    known = shape == LOST and len({quoted(value) for value in wrote}) == 1
    return quoted(wrote[0]) if known else _NOT_KNOWN


def twins(
    anomalies: Sequence[tuple[str, Anomaly]],
    shape_of: Callable[[str, str], str],
    by_id: Mapping[int | str, Op],
) -> dict[int, int]:
    """Of (checker, anomaly), by place: which one repeats which earlier one of another checker.

    What is lost is the same where the kind, the key and the element are; anything else where its
    witness holds the same operations as well. `shape_of` is asked with checker and kind. Two of one
    checker are never the same: an element that was put in twice can be lost twice.
    """
    firsts: dict[tuple[Any, ...], list[int]] = {}
    seen: dict[tuple[Any, ...], int] = {}
    found: dict[int, int] = {}
    for at, (checker, anomaly) in enumerate(anomalies):
        shape = shape_of(checker, anomaly.type)
        element = element_of(anomaly, shape, by_id)
        lost = shape == LOST and element != _NOT_KNOWN
        ops = frozenset() if lost else frozenset(anomaly.ops)
        if not lost and not ops:
            continue
        same = (anomaly.type, quoted(anomaly.key), element, ops)
        rows = firsts.setdefault(same, [])
        nth = seen[checker, *same] = seen.get((checker, *same), -1) + 1
        if nth < len(rows):
            found[at] = rows[nth]
        else:
            rows.append(at)
    return found


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
    place: Damage | None
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
    def below(self) -> str:
        """`where`, of one that is drawn below."""
        said = self.where
        if said.startswith("It "):
            return f"The one below {said.removeprefix('It ')}"
        if said.startswith(_NO_FAULT):
            return said
        return f"The one below: {said[:1].lower()}{said[1:]}"

    @property
    def told_ns(self) -> int | None:
        """When it showed."""
        return None if self.place is None else self.place.told_ns

    @property
    def inside(self) -> list[FaultWindow]:
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


def _beside(place: Damage, report: RunReport, end_ns: int) -> list[FaultView]:
    """The faults whose counters belong to the moment: those that its witness met or that stood
    between its operations, or the last before."""
    shown = [*place.touched, *place.between[-_BETWEEN_MAX:]]
    if not shown:
        healed = [f for f in report.windows if f.healed_ns is not None and f.healed_ns <= end_ns]
        shown = [max(healed, key=lambda f: f.healed_ns or 0)] if healed else []
    return [view for window in shown for view in report.faults if view.window == window]


def _moment(
    report: RunReport,
    number: int,
    checker: str,
    anomaly: Anomaly,
    *,
    detailed: bool,
    logs: Sequence[NodeLog],
    arms: list[Arm],
    by_id: dict[int | str, Op],
) -> Moment:
    result: CheckResult = report.results[checker]
    meaning = meaning_of(checker, anomaly.type)
    ops = sorted(
        (by_id[id] for id in dict.fromkeys(anomaly.ops) if id in by_id), key=lambda o: o.invoke_ts
    )
    culprit = _culprit(anomaly, ops)
    place: Damage | None = None
    if ops:
        telling = next((op for op in ops if op.op_id == culprit), max(ops, key=last_ns))
        place = damage_of(anomaly, meaning.shape, ops, telling, report.windows)
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
        beside=_beside(place, report, end) if place and end is not None and detailed else [],
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
    ordered = _ordered(report, by_id)
    first: dict[str, int] = {}
    for n, (_, anomaly, twin_of) in enumerate(ordered, 1):
        if twin_of is None:
            first.setdefault(anomaly.type, n)
    detailed = set([*first.values()][:DETAILED_MAX])
    return [
        msgspec.structs.replace(
            _moment(
                report,
                n,
                checker,
                anomaly,
                detailed=n in detailed,
                logs=logs,
                arms=arms or [],
                by_id=by_id,
            ),
            twin_of=twin_of,
        )
        for n, (checker, anomaly, twin_of) in enumerate(ordered, 1)
    ]


def _system(report: RunReport) -> str:
    header = report.history.header
    return " ".join(part for part in (header.system or "The system", header.system_version) if part)


def _short(key: Any, most: int) -> str:
    text = key if isinstance(key, str) else quoted(key)
    return text if len(text) <= most else text[: most - 1] + "…"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    told = sentences(text)
    return told[:1].upper() + told[1:]


def _exactly(moment: Moment, ops: Sequence[Op]) -> str:
    """What the answer was that cannot be, as exactly as it is known; `ops` are all of the run."""
    found = stuck_of(moment.anomaly)
    culprit = next((op for op in moment.ops if op.op_id == moment.culprit), None)
    if found is None or culprit is None:
        return sentence(moment.anomaly.explanation)
    at = f" at {culprit.node_seen}" if culprit.node_seen else ""
    by = who(culprit.process_id)
    exact = (
        f"{by[0].upper()}{by[1:]}{at} was answered “{full_label(culprit)}” at "
        f"{last_ns(culprit) / 1e9:.2f} s: {found.needs}"
    )
    if found.held:
        exact += f", and the {found.noun} could only be {found.held}"
    if (aged := aged_ns(culprit, ops)) is not None:
        exact += f"; it had been overwritten {_age(aged)} before it was asked"
    return f"{exact}."


def in_a_line(system: str, did: str, key: Any) -> str:
    """What the database did wrong, as a sentence; `key` is None where it is about none."""
    where = "" if key is None else f", on key {_short(key, _KEY_MAX)}"
    return f"{system or 'The system'} {did}{where}."


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
    return f"{said[:-1]}{promised(report)}.", _exactly(first, report.history.ops)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`many` is `count` in words: where several checkers counted, there may be more. `said` follows
    the name of the kind. `when` says how many they are, when and where they came, among which
    faults, as a sentence without its end; empty where there is one alone. `first` is the number of
    its first anomaly in time, whichever is told on top; `shown` are all of them as they are drawn
    over time, called `drawn`, what was lost by when it was acknowledged."""

    type: str
    drawn: str
    count: int
    many: str
    said: str
    when: str
    first: int
    shown: Sightings | None


_FIRST_OF: Final = {
    "": "",
    "key": "the first on each key ",
    "any-of-key": "one for each key ",
    "cycle": "one of all that depend on one another ",
}


class Whole(NamedTuple):
    """All of a kind that one checker has found; times and places are known of `placed` of them."""

    spread: Spread
    placed: int


def others(found: Sequence[Moment], together: Sequence[Kind]) -> list[tuple[str, str]]:
    """(kind, how many) of each kind but that of the first anomaly."""
    counts = Counter(moment.anomaly.type for moment in found)
    many = {name: number(count) for name, count in counts.items()}
    many |= {kind.type: kind.many for kind in together}
    first = found[0].anomaly.type if found else None
    return [(name, said) for name, said in many.items() if name != first]


def _sightings(ops: Sequence[Op], faults: Sequence[FaultWindow]) -> Sightings | None:
    if not ops:
        return None
    ends = [last_ns(op) for op in ops]
    met = [next((f.epoch for f in faults if f.met_by(op)), None) for op in ops]
    beyond = [end for end, epoch in zip(ends, met, strict=True) if epoch is None]
    after = (last_shown(faults, end, end) for end in beyond)
    return Sightings(
        first_ns=min(ends),
        last_ns=max(ends),
        nodes=dict(Counter(op.node_seen for op in ops if op.node_seen is not None)),
        epochs=dict(Counter(epoch for epoch in met if epoch is not None)),
        outside=len(beyond),
        after=dict(Counter(last.epoch for last in after if last is not None)),
        over_time=Sightings.parts_of(ends),
    )


def _of_witnesses(found: Sequence[Moment], count: int, faults: Sequence[FaultWindow]) -> Whole:
    """What the anomalies with a witness tell, where their checker has counted no more than them."""
    places = [m.place for m in found if m.place is not None]
    keys = Counter(quoted(m.anomaly.key) for m in found if m.anomaly.key is not None)
    names = {quoted(m.anomaly.key): m.anomaly.key for m in found}
    spread = Spread(
        count=count,
        told=_sightings([place.told for place in places], faults),
        known=_sightings([p.by for p in places if p.by is not p.told], faults),
        keys=[(names[key], n) for key, n in keys.most_common(_NAMED_MAX)],
        keys_total=len(keys),
    )
    return Whole(spread, len(places))


def whole(
    result: CheckResult, kind: str, found: Sequence[Moment], faults: Sequence[FaultWindow]
) -> Whole:
    """As its checker has counted them; of one that does not say where and when, as far as its
    witnesses tell."""
    spread = (result.spreads or {}).get(kind)
    if spread is None or spread.told is None:
        return _of_witnesses(found, result.counted.get(kind, 0), faults)
    return Whole(spread, sum(spread.told.epochs.values()) + spread.told.outside)


def _largest(counts: Iterable[tuple[str, int]], more: str) -> str:
    """`n1 (200), n2 (100) and 3 more`; a single one without its number."""
    rows = sorted(counts, key=lambda row: -row[1])
    if len(rows) == 1:
        return rows[0][0]
    named = [f"{name} ({number(n)})" for name, n in rows[:_NAMED_MAX]]
    rest = rows[_NAMED_MAX:]
    if rest:
        named.append(f"{len(rest)} more {more if len(rest) > 1 else more.removesuffix('s')}")
    return f"{', '.join(named[:-1])} and {named[-1]}"


def _on_keys(spread: Spread) -> str:
    rows = [(_short(key, _SPREAD_KEY_MAX), n) for key, n in spread.keys]
    if not rows:
        return ""
    if spread.keys_total == 1:
        return f" All are on key {rows[0][0]}."
    most = _largest(rows[:_NAMED_MAX], "keys")
    which = f", most on {most}" if rows[0][1] > 1 else f", {', '.join(k for k, _ in rows[:3])}"
    which += "" if rows[0][1] > 1 or spread.keys_total <= _NAMED_MAX else " and others"
    return f" They are on {number(spread.keys_total)} keys{which}."


def _until(fault: FaultWindow) -> str:
    return "" if fault.until_ns is None else f", until {fault.until_ns / 1e9:.1f} s"


def _windows(sightings: Sightings, faults: Sequence[FaultWindow]) -> str:
    """`87 inside f2 (kill), 53 after the heal of f2 (kill), until 21.1 s and 257 outside every
    fault`: outside is what came in no window, and not before the load had recovered from one."""
    if not faults:
        return ""
    names = {f.epoch: f.name for f in faults}
    healed_names = {f.epoch: f"{f.name}{_until(f)}" for f in faults}
    rows = sorted(sightings.epochs.items(), key=lambda row: -row[1])
    known = sightings.after is not UNSET
    after = sightings.after or {}
    outside = sightings.outside - sum(after.values())
    nowhere = "outside every fault" if known else "outside every fault window"
    if not rows and not after:
        return f"all {nowhere}"
    if not rows and len(after) == 1 and not outside:
        return f"all after the heal of {healed_names.get(*[*after] * 2)}"
    if len(rows) == 1 and not outside and not after:
        return f"all inside fault window {names.get(rows[0][0], rows[0][0])}"
    parts = [f"{number(n)} inside {names.get(epoch, epoch)}" for epoch, n in rows[:_NAMED_MAX]]
    if rest := rows[_NAMED_MAX:]:
        inside = number(sum(n for _, n in rest))
        parts.append(f"{inside} inside {len(rest)} more fault window{'s' * (len(rest) > 1)}")
    healed = sorted(after.items(), key=lambda row: -row[1])
    parts += [
        f"{number(n)} after the heal of {healed_names.get(epoch, epoch)}"
        for epoch, n in healed[:_NAMED_MAX]
    ]
    if more := healed[_NAMED_MAX:]:
        parts.append(f"{number(sum(n for _, n in more))} after the heals of {len(more)} more")
    if outside:
        parts.append(f"{number(outside)} {nowhere}")
    elif not after:
        parts.append(f"none {nowhere}")
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _seen_at(sightings: Sightings, faults: Sequence[FaultWindow]) -> str:
    """`from 1.20 s to 3.40 s by n1 (3) and n2 (1), all outside every fault window`."""
    first, last = f"{sightings.first_ns / 1e9:.2f} s", f"{sightings.last_ns / 1e9:.2f} s"
    said = f"at {first}" if first == last else f"from {first} to {last}"
    if sightings.nodes:
        said += f" by {_largest(sightings.nodes.items(), 'nodes')}"
    where = _windows(sightings, faults)
    return f"{said}, {where}" if where else said


def _whole_text(whole: Whole, shape: str, faults: Sequence[FaultWindow]) -> str:
    spread = whole.spread
    if spread.told is None:
        return " No operation of this history is named for them."
    few = whole.placed < spread.count
    lead = f" Of the {whole.placed} with a witness: " if few else " "
    if shape == LOST and spread.known is not None:
        what = f"acknowledged or first read {_seen_at(spread.known, faults)}; seen to be missing"
    else:
        what = "answers that gave them away came"
    what = what if few else what[:1].upper() + what[1:]
    return f"{lead}{what} {_seen_at(spread.told, faults)}.{_on_keys(spread)}"


def _when(whole: Whole, shape: str, faults: Sequence[FaultWindow], since_ns: int) -> str:
    """When they came and among which faults, of all or of those with a witness; of what was lost
    when it was acknowledged, and since when some checker saw that it is missing."""
    spread = whole.spread
    if spread.told is None:
        return ""
    few = whole.placed < spread.count
    shown = f"the {whole.placed} with a witness " if few else ""
    if shape != LOST or spread.known is None:
        return shown + _seen_at(spread.told, faults)
    since = f"{since_ns / 1e9:.2f} s"
    known = _seen_at(spread.known, faults)
    return f"{shown}acknowledged or first read {known}; seen to be missing since {since}"


def _in_time(moment: Moment) -> tuple[float, int]:
    """Those that no operation shows come last."""
    return inf if moment.told_ns is None else moment.told_ns, moment.number


def kinds(report: RunReport, found: Sequence[Moment]) -> list[Kind]:
    """A row for each kind, in the order of the page. Where several checkers found it, times and
    places are those of the one that counted most."""
    groups: dict[str, dict[str, list[Moment]]] = {}
    for moment in found:
        groups.setdefault(moment.anomaly.type, {}).setdefault(moment.checker, []).append(moment)
    rows = []
    for kind, by_checker in groups.items():
        wholes = {
            checker: whole(report.results[checker], kind, group, report.windows)
            for checker, group in by_checker.items()
        }
        main = max(wholes, key=lambda checker: wholes[checker].spread.count)
        most = wholes[main]
        counts = [(checker, one.spread.count) for checker, one in wholes.items()]
        shown = len(by_checker[main])
        few = f", {shown} of them with a witness" if shown < most.spread.count else ""
        said = f"found by {_largest(counts, 'checkers')}{few}."
        shape, spread = meaning_of(main, kind).shape, most.spread
        firsts = [one.spread.told.first_ns for one in wholes.values() if one.spread.told]
        since_ns = min(firsts, default=0)
        said += _whole_text(most, shape, report.windows)
        first = min((one for group in by_checker.values() for one in group), key=_in_time).number
        least = len(counts) > 1 or most.spread.first_of
        many = f"{'at least ' if least else ''}{number(most.spread.count)}"
        when = _FIRST_OF[spread.first_of] + _when(most, shape, report.windows, since_ns)
        lead = f"{many[:1].upper()}{many[1:]} of this kind"
        stale = report.results[main].stale
        rows.append(
            Kind(
                type=kind,
                drawn="stale read" if stale else kind,
                count=most.spread.count,
                many=many,
                said=said,
                when=_stale(stale, most.spread, report.windows) or _joined(lead, when, spread),
                first=first,
                shown=(stale or spread).told
                if shape != LOST or spread.known is None
                else spread.known,
            )
        )
    return rows


def _joined(lead: str, when: str, spread: Spread) -> str:
    if spread.count < 2:
        return ""
    return f"{lead}: {when}" if when else lead


def _stale(stale: Spread | msgspec.UnsetType, spread: Spread, faults: Sequence[FaultWindow]) -> str:
    """All reads of old values, and how old; empty where there is at most one, or nobody knows."""
    if stale is UNSET or stale.told is None or stale.oldest_ns is UNSET or stale.count < 2:
        return ""
    keys = f"{number(stale.keys_total)} key{'s' * (stale.keys_total > 1)}"
    if spread.count > stale.keys_total:
        all_keys = number(spread.count)
        keys = f"{number(stale.keys_total)} of the {all_keys} keys that are not linearizable"
    return (
        f"{number(stale.count)} stale reads on {keys}: {_seen_at(stale.told, faults)}; the oldest "
        f"value had been overwritten {_age(stale.oldest_ns)} before"
    )


def _age(aged_ns: int) -> str:
    return tenths(aged_ns) if aged_ns >= _TENTH_NS else f"{aged_ns / 1e6:.1f} ms"


def tallies(results: Mapping[str, CheckResult]) -> list[str]:
    """`no-lost-ack: 224,232 acknowledged, 127,728 lost, ...`, of those that found something."""
    lines = []
    for name, result in results.items():
        known = {word: value for word, value in result.stats.items() if _counted(value)}
        if _BY_EPOCH in known and result.spreads:
            known[_BY_EPOCH] = {kind: _fell(kind, s, name) for kind, s in result.spreads.items()}
        told = {word.replace("_", " "): value for word, value in known.items() if value}
        if result.valid is not False or not told:
            continue
        plain = [f"{number(n)} {word}" for word, n in told.items() if not isinstance(n, Mapping)]
        parts = [f"{word}: {_parts(n)}" for word, n in told.items() if isinstance(n, Mapping)]
        lines.append(f"{name}: {'; '.join([*filter(None, [', '.join(plain)]), *parts])}")
    return lines


def _fell(kind: str, spread: Spread, checker: str) -> dict[str, int]:
    """Where anomalies fell, as the page has it: of what was lost by when it was acknowledged."""
    lost = spread.known is not None and meaning_of(checker, kind).shape == LOST
    seen, lead = (spread.known, "acknowledged ") if lost else (spread.told, "")
    if seen is None:
        return {"none": spread.count}
    rows = {f"{lead}in {epoch}": n for epoch, n in seen.epochs.items()}
    after = seen.after or {}
    rows |= {f"{lead}after the heal of {epoch}": n for epoch, n in after.items()}
    if rest := seen.outside - sum(after.values()):
        rows[f"{lead}{_OUTSIDE}"] = rest
    return rows


def _counted(value: Any) -> bool:
    """Is it a number, or numbers by name? A checker of one's own may tell anything."""
    if isinstance(value, Mapping):
        return all(map(_counted, value.values()))
    return isinstance(value, int | float | str)


def _parts(value: Mapping[str, Any]) -> str:
    if any(isinstance(part, Mapping) for part in value.values()):
        return "; ".join(f"{name} ({_parts(part)})" for name, part in value.items())
    numbers = [row for row in value.items() if isinstance(row[1], int | float)]
    largest = sorted(numbers, key=lambda row: -row[1])
    told = [
        f"{number(n)} {_OUTSIDE if name == 'none' else name}" for name, n in largest[:_PARTS_MAX]
    ]
    if more := largest[_PARTS_MAX:]:
        told.append(f"{number(sum(n for _, n in more))} in {len(more)} more")
    return ", ".join(told)
