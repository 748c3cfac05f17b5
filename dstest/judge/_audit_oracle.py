"""RF2: the checkers judged all of the run, and were shown to bite (discipline 5.2 and 5.3).

A checker bites when it rejects every broken copy of this very history, and when among those copies
there is, for each weaker judge, one that this judge would have accepted: else nobody knows by which
model it judged. And what a fault could have destroyed must have been looked at again.
"""

from __future__ import annotations

from dstest.core.evidence import AuditRow
from dstest.judge._audit_again import KEYS_MIN, not_read_again
from dstest.judge.facts import Canary, RunFacts
from dstest.judge.rows import ok, short


def _judged(facts: RunFacts) -> str | None:
    """What the checkers did not judge, None where they judged everything."""
    absent = [name for name in facts.checkers_declared if name not in facts.results]
    if absent or not facts.checkers_declared:
        return f"checkers without a result: {', '.join(absent) or 'none was declared'}"
    for name, result in facts.results.items():
        if result.ops.consumed == 0:
            return f"{name} judged none of {result.ops.total} operations"
        if result.keys.decided < result.keys.total:
            return f"{name} decided {result.keys.decided} of {result.keys.total} keys"
    return None


def _bite(canary: Canary, declared: list[str]) -> str | None:
    """Why the checkers were not shown to bite, None where they were."""
    if canary.total == 0:
        return "no mutant of this history could be made, so the checker was not shown to bite"
    if canary.killed == 0:
        return f"the checker accepted all {canary.total} broken copies of this history"
    missed = [
        row for row in canary.details if row.get("sure", True) and row.get("valid") is not False
    ]
    if missed:
        row = missed[0]
        message = "accepted" if row.get("valid") is True else "left undecided"
        first = f"{row.get('checker')} {message} {row.get('kind')}: {row.get('mutant')}"
        return f"{len(missed)} of {canary.total} broken copies were not rejected; {first}"
    for row in canary.undistinguished:
        kinds = " or ".join(row["kinds"])
        return (
            f"{row['checker']} under {row['model']} cannot be told from {row['weaker']}: this"
            f" history offers nothing to make {kinds} of"
        )
    killers = {row["checker"] for row in canary.details if row.get("valid") is False}
    untried = [name for name in declared if canary.details and name not in killers]
    if untried:
        return f"{', '.join(untried)} rejected no broken copy of this history"
    return None


def oracle(facts: RunFacts) -> AuditRow:
    """The row RF2."""
    weak = _judged(facts) or _bite(facts.canary, facts.checkers_declared)
    if weak is not None:
        return short(weak)
    if unread := not_read_again(facts):
        return short(
            f"{', '.join(unread)}: fewer than {KEYS_MIN} keys written before it were read after"
            " it, so that what it destroyed would not show"
        )
    consumed = sum(r.ops.consumed for r in facts.results.values())
    killed, total = facts.canary.killed, facts.canary.total
    return ok(f"{consumed:,} operations judged; {killed} of {total} broken copies were rejected")
