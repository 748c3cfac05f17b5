"""The probes of who is to blame that need no cluster: asked whenever a run with a violation is
judged, from what lies in its directory.

One of them tries the checker on small histories that are right, and on such that are wrong
(`specimens`). No checker has a part in what is called wrong; they depend on checker, model,
workload and seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec

from checkers.second.judges import OfTransactions
from checkers.second.specimens import PERMITS, object_histories
from dstest.core import registry, rng
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.evidence import BlameProbe, Canary, LandingRecord, Lint
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import NOT_LISTED, System
from dstest.history.generator.histories import GADGETS, LEVELS, Spec, events, lines
from dstest.history.generator.true_histories import KINDS
from dstest.history.generator.true_histories import history as true_history
from dstest.history.jsonl import read_stream
from dstest.history.layout import RunDir
from dstest.judge import blame
from dstest.judge.checker_answers import ask_checker, model_of
from dstest.judge.facts import RunFacts
from dstest.judge.host_events import HOST, HostEvent, HostSample, events_of, near, watched
from dstest.judge.mutants.families import family_of
from dstest.judge.relaxations import weaker_promises
from dstest.judge.symptom import first_anomaly, spans_of

OBJECTS_EACH: Final = 20
STORES: Final = 3
"""Right histories of transactions."""

COPIES_MAX: Final = 8
"""Wrong ones of each right history of other systems."""

_TXNS: Final = 40
_OPERATIONS: Final = 200

MALFORMED_SHARE: Final = 0.01
"""From this share of operations on that are refused as malformed, the generator made them so."""

STEPS_MAX: Final = 300_000
"""Of a second judge."""

SHOWN_MAX: Final = 5

HEALED_NS: Final = 5_000_000_000
"""So long after its heal the host may still show what a fault did to it."""

_NO_MODEL: Final = (
    "no weaker consistency model is documented for these settings; whatever else is documented of"
    " them stands under Why"
)

_UNSUPPORTED: Final = "unsupported operation"


class Specimens(NamedTuple):
    """`wrong` ones with what is wrong in them."""

    right: list[History]
    wrong: list[tuple[str, History]]


def specimens(checker: Any, model: str, workload: str, seed: int) -> Specimens:
    """Both kinds for a checker and a model; none where nobody here knows them.

    Of objects they come from `checkers.second.specimens`, of transactions from the simulated store
    of `dstest generate`, wrong ones with an anomaly planted in them. For other checkers true
    systems are simulated, and wrong ones are the copies that canaries make of their histories,
    those of which each is a violation for certain.
    """
    dice = rng.stream(seed, "specimens", model)
    right, wrong = object_histories(model, dice, OBJECTS_EACH)
    if right:
        header = Header(workload=workload, model=model, options={"permits": PERMITS})
        return Specimens(
            [History(header=header, ops=ops) for ops in right],
            [("another answer", History(header=header, ops=ops)) for ops in wrong],
        )
    judge = checker.second
    if not isinstance(judge, OfTransactions) or workload not in GADGETS:
        return _simulated(checker, model, seed)
    stores = [_store(workload, seed + number, None) for number in range(STORES)]
    return Specimens(stores, _planted(judge, model, workload, seed))


def _simulated(checker: Any, model: str, seed: int) -> Specimens:
    """True systems of the kinds that this checker judges by this model."""
    made = Specimens([], [])
    for name, kind in KINDS.items():
        if (kind.checker, kind.model) != (checker.name, model):
            continue
        for number in range(STORES):
            history = true_history(name, seed + number, _OPERATIONS)
            made.right.append(history)
            family = family_of(checker, model, history)
            if family.sure:
                copies = family.make(history, seed, COPIES_MAX)
                made.wrong.extend((mutant.kind, mutant.history) for mutant in copies)
    return made


def _planted(
    judge: OfTransactions, model: str, workload: str, seed: int
) -> list[tuple[str, History]]:
    found = []
    for name in GADGETS[workload]:
        history = _store(workload, seed, name)
        try:
            if judge.finds(history, model):
                found.append((name, history))
        except KeyError:
            return []
    return found


def _store(workload: str, seed: int, gadget: str | None) -> History:
    """A strictly serializable store, with one anomaly in it or none."""
    spec = Spec(
        workload=workload,
        txns=_TXNS,
        concurrency=4,
        level=LEVELS[0],
        seed=seed,
        inject={} if gadget is None else {gadget: 1},
    )
    return read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))


class _FirstViolation(NamedTuple):
    """The first violation. `checker` is None for what is built in, whose word is about logs."""

    checker: Any
    model: str
    anomaly: Anomaly | None
    ops: list[Op]


def offline_probes(
    run: RunDir, facts: RunFacts, lint: Lint, results: Mapping[str, CheckResult], model: str
) -> dict[str, BlameProbe]:
    """What each of them came to; nothing without a violation. `model` is what the run demands."""
    first = first_anomaly(results.values(), facts.history)
    if first is None:
        return {}
    result, anomaly, ops = first
    known = result.checker in registry.names("checkers")
    checker = registry.load("checkers", result.checker) if known else None
    found = _FirstViolation(
        checker, "" if checker is None else model_of(checker, model), anomaly, ops
    )
    system = registry.load("systems", facts.history.header.system or "")
    probes: dict[str, Callable[[], BlameProbe]] = {
        blame.LINTS: lambda: _lints(facts.history, lint, system),
        blame.SELF_TEST: lambda: _self_test(found, facts.history, facts.canary),
        blame.INDEPENDENT: lambda: _independent(found, facts.history),
        blame.RELAXED: lambda: _relaxed(found, facts, system),
        blame.HOST_EVENTS: lambda: _host_events(run, facts, found),
    }
    return {name: _of(probe) for name, probe in probes.items()}


def _of(probe: Callable[[], BlameProbe]) -> BlameProbe:
    """A checker's answer, and a second judge, may be anyone's: the verdict needs no probe."""
    try:
        return probe()
    except Exception as error:
        return BlameProbe(said=f"it failed: {registry.error_line(error)}")


def _lints(history: History, lint: Lint, system: System) -> BlameProbe:
    broken = {**lint.corrupt, **{k: v for k, v in lint.weak.items() if k == "H16"}}
    if broken:
        said = "; ".join(f"{name}: {what}" for name, what in broken.items())
        return BlameProbe(fired=True, said=said)
    codes = (*system.malformed_errors, _UNSUPPORTED)
    refused = sum(1 for op in history.ops if op.error is not None and _says(op.error, codes))
    total = len(history.ops)
    said = f"{refused:,} of {total:,} operations were refused as malformed"
    return BlameProbe(fired=bool(total) and refused >= MALFORMED_SHARE * total, said=said)


def _says(error: str, codes: Sequence[str]) -> bool:
    """Is it one of these, also where it was not believed to be definite?"""
    words = error.removeprefix(NOT_LISTED)
    return words.startswith(tuple(codes))


def _self_test(found: _FirstViolation, history: History, canary: Canary) -> BlameProbe:
    checker = found.checker
    if checker is None:
        return BlameProbe(said="its word is about logs, and no history can try it")
    made = specimens(checker, found.model, history.header.workload or "", history.header.seed or 0)
    flagged, undecided = [], 0
    for right in made.right:
        answer = ask_checker(checker, right, found.model, Budget()).valid
        flagged += ["a right history is flagged"] if answer is False else []
        undecided += answer == "unknown"
    for what, wrong in made.wrong:
        answer = ask_checker(checker, wrong, found.model, Budget()).valid
        flagged += [f"a wrong one passes ({what})"] if answer is True else []
        undecided += answer == "unknown"
    flagged += [
        f"a broken copy of the run passes ({row['kind']})"
        for row in canary.details
        if row["checker"] == checker.name and row["valid"] is True and row.get("sure")
    ]
    tried = f"{len(made.right)} right and {len(made.wrong)} wrong histories"
    if flagged:
        shown = "; ".join(dict.fromkeys(flagged))
        return BlameProbe(fired=True, said=f"of {tried}: {shown}")
    if not made.right or not made.wrong:
        return BlameProbe(said=f"there are no small histories of {found.model} to try it on")
    if undecided == len(made.right) + len(made.wrong):
        return BlameProbe(said=f"it decides none of {tried}")
    open_ = f", {undecided} undecided" if undecided else ""
    return BlameProbe(fired=False, said=f"{tried} are told apart{open_}")


def _independent(found: _FirstViolation, history: History) -> BlameProbe:
    second = None if found.checker is None else found.checker.second
    if second is None or found.anomaly is None:
        return BlameProbe(said="there is no second judge of this")
    answer = second.look(history, found.model, found.anomaly, STEPS_MAX)
    fired = None if answer.valid == "unknown" else answer.valid is True
    return BlameProbe(fired=fired, said=answer.said)


def _relaxed(found: _FirstViolation, facts: RunFacts, system: System) -> BlameProbe:
    """It fires where all that found a violation find none by what is promised; a judge that cannot
    say is no answer."""
    known = weaker_promises(system.relaxations, facts.options, found.model)
    if not known or found.checker is None:
        return BlameProbe(fired=False, said=_NO_MODEL)
    names = ", ".join(row.model for row in known)
    failed = {name for name, result in facts.results.items() if result.valid is False}
    if failed - {found.checker.name}:
        others = ", ".join(sorted(failed - {found.checker.name}))
        return BlameProbe(said=f"{others} found a violation as well, which {names} may not explain")
    able = [row for row in known if row.model in found.checker.models]
    if not able:
        return BlameProbe(said=f"the checker does not judge {names}, which is documented")
    answers = [ask_checker(found.checker, facts.history, row.model, Budget()) for row in able]
    for row, answer in zip(able, answers, strict=True):
        if answer.valid is True:
            said = f"it is in order by {row.model}, which is what is promised ({row.source})"
            return BlameProbe(fired=True, said=said)
    told = ", ".join(row.model for row in able)
    if any(answer.valid is not False for answer in answers):
        return BlameProbe(said=f"whether it is in order by {told} could not be decided")
    return BlameProbe(fired=False, said=f"it is not in order by {told} either")


def read_samples(run: RunDir) -> list[HostSample]:
    """The samples of the control host, in order. A line that was cut off is none."""
    path = run.path / HOST
    found = []
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            found.append(msgspec.json.decode(line, type=HostSample))
        except msgspec.MsgspecError:
            continue
    return sorted(found, key=lambda sample: sample.time_ns)


def _host_events(run: RunDir, facts: RunFacts, found: _FirstViolation) -> BlameProbe:
    samples = read_samples(run)
    spans = spans_of(found.ops, facts.history, facts.op_timeout_s)
    if not samples or not watched(samples, spans):
        return BlameProbe(said=f"{HOST} has no samples of that time")
    every = near(events_of(samples), spans)
    own = [event for event in every if _by_fault(event, facts.records)]
    other = [event for event in every if event not in own]
    if other:
        shown = "; ".join(f"{e.start_ns / 1e9:.1f} s {e.said}" for e in other[:SHOWN_MAX])
        more = f"; {len(other) - SHOWN_MAX} more" if len(other) > SHOWN_MAX else ""
        return BlameProbe(fired=True, said=shown + more)
    ours = f"; {len(own)} came of the run's own faults" if own else ""
    return BlameProbe(fired=False, said=f"nothing in {len(samples)} samples{ours}")


def _by_fault(event: HostEvent, records: Sequence[LandingRecord]) -> bool:
    """Did one of the run's own faults do that to the host?"""
    return any(
        record.injected_at is not None
        and event.end_ns >= record.injected_at
        and (record.healed_at is None or event.start_ns <= record.healed_at + HEALED_NS)
        and record.nemesis in registry.names("nemeses")
        and event.kind in registry.load("nemeses", record.nemesis).disturbs_host
        for record in records
    )
