"""Terms, votes, leaders and commits, as servers wrote them down. Source: Ongaro and Ousterhout, "In
Search of an Understandable Consensus Algorithm" (2014), figures 2 and 3."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from dstest.debug.patterns.journal import Entry, Step, replicas
from dstest.debug.patterns.model import EvidenceRow, Match, Strength
from dstest.debug.patterns.scene import Scene


def _sure(scene: Scene) -> Strength:
    """What is missing in a journal may have been in the lines that it lacks."""
    return "strong" if scene.protocol.lost else "proven"


def two_leaders(scene: Scene) -> Iterator[Match]:
    """Two servers lead in one term."""
    led: dict[int, dict[Any, Step]] = defaultdict(dict)
    for step in scene.protocol.of("lead"):
        led[step.term].setdefault(step.server, step)
    for term, by in led.items():
        if len(by) > 1:
            steps = list(by.values())
            names = [step.node for step in steps]
            yield Match(
                said=f"{' and '.join(names)} both lead in term {term}",
                rows=[step.row() for step in steps],
                nodes=names,
                at_ns=steps[-1].time_ns,
            )


def _other_than_sent(scene: Scene) -> Callable[[int, Entry], bool]:
    """Is an entry at an index another one than the only leader of its term appended there?"""
    sent: dict[tuple[int, int], set[tuple[Any, Any]]] = defaultdict(set)
    for step in scene.protocol.of("append"):
        entry = step.fields["row"]
        sent[int(entry[0]), step.index].add((step.server, entry[1]))

    def other(index: int, entry: Entry) -> bool:
        by = sent.get((entry[0], index), set())
        return len({server for server, _ in by}) == 1 and entry[1] not in {mark for _, mark in by}

    return other


def conflicting(scene: Scene) -> Iterator[Match]:
    """Two servers know different entries to be committed at one index, and neither was altered on
    its way from the leader of its term: that is another trouble (`altered`)."""
    is_altered = _other_than_sent(scene)
    known: dict[int, tuple[Entry, Step]] = {}
    found: dict[tuple[str, str], list[tuple[int, Step, Step]]] = defaultdict(list)
    for step, mine, _ in replicas(scene.protocol):
        if step.kind not in ("commit", "learn"):
            continue
        for index in range(mine.commit + 1, step.index + 1):
            entry = mine.at(index)
            if entry is None:
                continue
            before = known.setdefault(index, (entry, step))
            if is_altered(index, entry) or is_altered(index, before[0]):
                continue
            if before[0] != entry and before[1].node != step.node:
                first, second = sorted((before[1].node, step.node))
                found[first, second].append((index, before[1], step))
    for (one, other), cases in found.items():
        index, a, b = cases[0]
        yield Match(
            said=f"{one} and {other} committed different entries from index {index} on",
            rows=[a.row(f"commits up to {a.index}"), b.row(f"commits another entry {index}")],
            count=len(cases),
            nodes=sorted({one, other}),
            at_ns=b.time_ns,
        )


def alone(scene: Scene) -> Iterator[Match]:
    """A leader commits what most voters have not acknowledged."""
    acks: dict[tuple[int, Any], int] = defaultdict(int)
    found: dict[str, list[tuple[Step, int, int]]] = defaultdict(list)
    for step, mine, _ in replicas(scene.protocol):
        if step.kind == "ack":
            key = (step.term, step.server)
            acks[key] = max(acks[key], step.index)
        elif step.kind == "commit":
            voters = set(mine.who_votes())
            have = {one for one in voters if acks[step.term, one] >= step.index}
            if voters and 2 * len(have) <= len(voters):
                found[step.node].append((step, len(have), len(voters)))
    for node, cases in found.items():
        yield Match(
            said=f"{node} committed {len(cases)} times what no majority had acknowledged",
            rows=[
                step.row(f"term {step.term}: commits {step.index}, which {have} of {of} have")
                for step, have, of in cases[:6]
            ],
            count=len(cases),
            nodes=[node],
            at_ns=cases[0][0].time_ns,
            strength=_sure(scene),
        )


def tallies(scene: Scene) -> Iterator[Match]:
    """A leader counts votes that nobody gave it, one vote twice, or too few; or a member stands in
    the list of voters twice."""
    given: set[tuple[int, Any, Any]] = set()
    found: dict[str, list[tuple[Step, str]]] = defaultdict(list)
    for step, mine, _ in replicas(scene.protocol):
        if step.kind == "vote":
            given.add((step.term, step.server, step.fields.get("candidate")))
        elif step.kind == "campaign":
            given.add((step.term, step.server, step.server))
        elif step.kind == "lead":
            if said := _tally(scene, step, mine.who_votes(), given):
                found[step.node].append((step, said))
        elif (said := _doubled(step)) and not found[step.node]:
            found[step.node].append((step, said))
    for node, cases in found.items():
        if cases:
            yield Match(
                said=f"{node}: {cases[0][1]}",
                rows=[step.row(said) for step, said in cases[:6]],
                count=len(cases),
                nodes=[node],
                at_ns=cases[0][0].time_ns,
                strength=_sure(scene),
            )


def _tally(scene: Scene, step: Step, voters: list[Any], given: set[tuple[int, Any, Any]]) -> str:
    counted: list[Any] = step.fields.get("votes") or []
    who = {scene.protocol.node(one) for one in counted}
    if len(set(counted)) < len(counted):
        return f"term {step.term}: a vote is counted twice of {', '.join(sorted(who))}"
    lacking = [one for one in counted if (step.term, one, step.server) not in given]
    if lacking:
        names = ", ".join(scene.protocol.node(one) for one in lacking)
        return f"term {step.term}: counts votes of {names}, which they did not write down"
    members = set(voters)
    if members and 2 * len(set(counted) & members) <= len(members):
        return f"term {step.term}: leads by {len(set(counted))} of {len(members)} votes"
    return ""


def _doubled(step: Step) -> str:
    """Does the line add an entry about members that names one twice?"""
    rows = [step.fields.get("row"), *(step.fields.get("rows") or [])]
    for entry in rows:
        if entry and len(entry) > 2 and len(set(entry[2])) < len(entry[2]):
            return f"{step.kind}: a member stands in the list of voters twice"
    return ""


def two_votes(scene: Scene) -> Iterator[Match]:
    """A server votes for two candidates in one term; who campaigns votes for itself."""
    votes: dict[tuple[Any, int], tuple[Any, Step]] = {}
    for step in scene.protocol.of("vote", "campaign"):
        candidate = step.server if step.kind == "campaign" else step.fields.get("candidate")
        before = votes.setdefault((step.server, step.term), (candidate, step))
        if before[0] != candidate:
            names = [scene.protocol.node(before[0]), scene.protocol.node(candidate)]
            yield Match(
                said=f"{step.node} voted for {names[0]} and {names[1]} in term {step.term}",
                rows=[before[1].row(), step.row()],
                nodes=[step.node],
                at_ns=step.time_ns,
            )


def late_decisions(scene: Scene) -> Iterator[Match]:
    """Entries that a leader appended, and of which it did not know for long that they are
    committed; where it leads no longer, entries at whose index nobody knew one to be committed."""
    limit_ns = int(scene.settings.decision_s * 1e9)
    open_: dict[Any, dict[int, Step]] = defaultdict(dict)
    left: dict[int, Step] = {}
    late: list[tuple[Step, int | None]] = []
    decided = 0

    def settle(of: dict[int, Step], step: Step) -> None:
        for index in [i for i in of if i <= step.index]:
            was = of.pop(index)
            if step.time_ns is not None and step.time_ns - (was.time_ns or 0) > limit_ns:
                late.append((was, step.time_ns))

    for step in scene.protocol.steps:
        mine = open_[step.server]
        if step.kind == "append" and step.time_ns is not None:
            mine[step.index] = step
        elif step.kind in ("commit", "learn"):
            decided = max(decided, step.index)
            settle(mine, step)
            settle(left, step)
        elif step.kind in ("start", "resign", "term"):
            # Another leader is to decide, and may have done so already
            for index, was in mine.items():
                if index > decided:
                    left.setdefault(index, was)
            mine.clear()
    end_ns = scene.protocol.silent_to(scene.load_end_ns)
    for rest in (*open_.values(), left):
        late += [(was, None) for was in rest.values() if (was.time_ns or 0) + limit_ns < end_ns]
    yield from _late(scene, late, limit_ns)


def _late(scene: Scene, late: list[tuple[Step, int | None]], limit_ns: int) -> Iterator[Match]:
    """By what explains them: a fault that stood at any time while a decision was due."""
    groups: dict[tuple[str, bool], list[tuple[Step, int | None, str]]] = defaultdict(list)
    for was, decided in late:
        start = was.time_ns or 0
        end = decided if decided is not None else scene.load_end_ns
        said = scene.why(start)
        for fault in scene.faults:
            begins, until = fault.start_ns, fault.until_ns
            if begins <= end and (until is None or until >= start):
                said = scene.why(max(start, begins))
        groups[said.window, said.expected].append((was, decided, said.why))
    for (window, expected), cases in groups.items():
        never = sum(decided is None for _, decided, _ in cases)
        seconds = limit_ns / 1e9
        yield Match(
            said=f"{len(cases)} entries were not decided within {seconds:g} s, {never} never",
            rows=[was.row(f"term {was.term}: entry {was.index}") for was, _, _ in cases[:6]],
            count=len(cases),
            nodes=sorted({was.node for was, _, _ in cases}),
            at_ns=cases[0][0].time_ns,
            window=window,
            expected=expected,
            why=cases[0][2],
        )


def unsettled_terms(scene: Scene) -> Iterator[Match]:
    """Term after term in which nothing is committed."""
    run: list[Step] = []
    worst: list[Step] = []
    for step in scene.protocol.steps:
        if step.kind == "campaign" and step.time_ns is not None:
            if scene.quiet(step.time_ns):
                run.append(step)
            else:
                run = []
        elif step.kind == "commit":
            run = []
        if len({one.term for one in run}) > len({one.term for one in worst}):
            worst = list(run)
    terms = {one.term for one in worst}
    if len(terms) > scene.settings.terms_most:
        yield Match(
            said=f"{len(terms)} terms followed one another, and nothing was committed in them",
            rows=[step.row() for step in worst[:6]],
            count=len(worst),
            nodes=sorted({step.node for step in worst}),
            at_ns=worst[0].time_ns,
        )


def altered_entries(scene: Scene) -> Iterator[Match]:
    """A follower has another entry of a term and index than the leader of that term appended."""
    sent: dict[tuple[int, int], tuple[Any, Step]] = {}
    found: dict[tuple[str, str], list[tuple[Step, Step, int]]] = defaultdict(list)
    for step in scene.protocol.of("append", "accept"):
        rows = [step.fields["row"]] if step.kind == "append" else step.fields.get("rows") or []
        first = step.index if step.kind == "append" else int(step.fields.get("first") or 1)
        for index, entry in enumerate(rows, first):
            key = (int(entry[0]), index)
            if step.kind == "append":
                sent.setdefault(key, (entry[1], step))
            elif key in sent and sent[key][0] != entry[1]:
                found[sent[key][1].node, step.node].append((sent[key][1], step, index))
    for (leader, node), cases in found.items():
        a, b, index = cases[0]
        yield Match(
            said=f"{node} has another entry {index} than {leader} sent in the same term",
            rows=[a.row(), b.row(f"accepts another entry {index}")],
            count=len(cases),
            nodes=[leader, node],
            at_ns=b.time_ns,
        )


def sums_differ(scene: Scene) -> Iterator[Match]:
    """What two servers had after applying all up to one index."""
    known: dict[int, tuple[Any, Step]] = {}
    found: dict[tuple[str, str], tuple[int, Step, Step]] = {}
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for step in scene.protocol.of("apply"):
        first = int(step.fields.get("first") or 1)
        for index, total in enumerate(step.fields.get("sums") or [], first):
            before = known.setdefault(index, (total, step))
            if before[0] != total and before[1].node != step.node:
                first_, second = sorted((before[1].node, step.node))
                key = (first_, second)
                found.setdefault(key, (index, before[1], step))
                counts[key] += 1
    for (one, other), (index, a, b) in found.items():
        rows: list[EvidenceRow] = [
            a.row(f"applies entry {index}"),
            b.row(f"applies it otherwise: {index}"),
        ]
        yield Match(
            said=f"{one} and {other} answer differently from applied index {index} on",
            rows=rows,
            count=counts[one, other],
            nodes=sorted({one, other}),
            at_ns=b.time_ns,
        )
