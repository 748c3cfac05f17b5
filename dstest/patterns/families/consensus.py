"""Consensus: who leads, who votes, what is decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dstest.core.op import Outcome
from dstest.patterns import elections, participation
from dstest.patterns.from_logs import of_check
from dstest.patterns.history import of_ops
from dstest.patterns.judged import judged
from dstest.patterns.model import Found, Pattern, sign
from dstest.patterns.needs import DIGESTS, FAULTS, JOURNAL, LINES, OPERATIONS, ROLES, VOTES
from dstest.patterns.primaries import two_primaries
from dstest.patterns.scene import Scene
from dstest.patterns.tampered import differing_digests, two_claims


def _unanswered(scene: Scene) -> Iterator[Found]:
    """More operations than may be ended without an answer, outside of faults."""
    patience_s = scene.header.options.get("op_timeout_s", 0)
    last_ns = scene.load_end_ns - int(float(patience_s) * 1e9)  # later ones were cut off by the end
    ops = [op for op in scene.load if op.invoke_ts < last_ns and scene.quiet(op.invoke_ts)]
    lost = [op for op in ops if op.outcome is Outcome.UNKNOWN]
    lost = [op for op in lost if scene.quiet(op.complete_ts or op.invoke_ts)]
    if len(lost) >= scene.settings.attempts_least:
        share = len(lost) / len(ops)
        if share > scene.settings.timeouts_most:
            said = f"{share:.1%} of {len(ops):,} operations outside of faults had no answer"
            yield of_ops(scene, lost, said)


PATTERNS: Final = (
    Pattern(
        id="split-brain",
        number=1,
        name="Split-brain",
        family="consensus",
        symptoms="two members lead at once, or both sides of a partition accept writes",
        causes=(
            "a quorum counted of those that answer, and not of all members",
            "a lease that outlives its holder's clock or pause",
            "a member that is listed twice",
        ),
        mitigations=(
            "decide by a majority of all members, and fence old leaders by their term",
            "give leases by a clock that a pause does not stop, and check before each use",
        ),
        measure=("-o journal=yes: terms, votes and commits of each server",),
        signs=(
            sign("two-leaders", "two leaders of one term", JOURNAL, elections.two_leaders),
            sign(
                "conflicting-commits",
                "different entries committed at one index",
                JOURNAL,
                elections.conflicting,
            ),
            sign("commits-alone", "commits that no majority has", JOURNAL, elections.alone),
            sign(
                "two-claims",
                "lines of two that lead in one term",
                LINES,
                two_claims,
                "strong",
                words=True,
            ),
            sign(
                "two-primaries",
                "a primary that took over while its later replica was one still",
                ROLES,
                two_primaries,
                "strong",
                words=True,
            ),
            sign(
                "both-sides",
                "writes acknowledged on both sides of a partition",
                (OPERATIONS, FAULTS),
                participation.both_sides,
                "strong",
                "high",
            ),
            judged(
                (
                    *("overlapping-holds", "fencing-token-reused", "fencing-token-regressed"),
                    *("version-conflict", "event-conflict"),
                ),
            ),
        ),
    ),
    Pattern(
        id="silent-node",
        number=2,
        name="Byzantine silent failure",
        family="consensus",
        symptoms="a member is up and takes no part, or answers nothing",
        causes=("a queue or thread that is stuck", "a wrong list of members", "one-way links"),
        mitigations=("watch participation of each member, not only whether it is up",),
        measure=("-o journal=yes", "logs of all nodes: one without a line is a finding"),
        signs=(
            sign(
                "absent",
                "members that acknowledge less than half as often as the others",
                JOURNAL,
                participation.absent,
                "strong",
                "high",
                excusable=True,
            ),
            sign(
                "dumb",
                "nodes that answer nothing while others do",
                OPERATIONS,
                participation.dumb,
                "strong",
                "high",
                excusable=True,
            ),
            sign(
                "silent-log",
                "nodes without a line in their logs, or with few votes in them",
                LINES,
                participation.silent_logs,
                "indicated",
                "high",
                excusable=True,
            ),
        ),
    ),
    Pattern(
        id="vote-manipulation",
        number=3,
        name="Vote manipulation",
        family="consensus",
        symptoms="who leads or what is decided does not follow from the votes that were given",
        causes=("votes counted twice or of nobody", "a member that votes against all others"),
        mitigations=("count votes by the identity of the member, once, in its term",),
        measure=("-o journal=yes: each vote, and what leaders counted",),
        signs=(
            sign(
                "tally", "leaders that counted other votes than given", JOURNAL, elections.tallies
            ),
            sign(
                "contrary",
                "members that vote against the majority in a row",
                VOTES,
                participation.contrary,
                "indicated",
                "high",
                excusable=True,
            ),
            of_check("high_rejection_rate", "rejections", strength="weak", severity="medium"),
        ),
    ),
    Pattern(
        id="consensus-timeout",
        number=4,
        name="Consensus timeout",
        family="consensus",
        symptoms="proposals wait for a decision that comes late or never",
        causes=("no majority is up or reached", "a slow disk or a busy leader", "short time-outs"),
        mitigations=(
            "time-outs above the p99 of a round trip and a sync; fewer rounds a decision",
        ),
        measure=("-o journal=yes", "-o spans=yes: where the time of a decision goes"),
        signs=(
            sign(
                "late",
                "entries that were not decided in time",
                JOURNAL,
                elections.late_decisions,
                "strong",
                "high",
                excusable=True,
            ),
            sign(
                "unanswered",
                "operations without an answer, outside of faults",
                OPERATIONS,
                _unanswered,
                "indicated",
                "high",
                excusable=True,
            ),
            of_check("consensus_timeout", "told", strength="indicated", words=True),
        ),
    ),
    Pattern(
        id="double-voting",
        number=18,
        name="Double voting",
        family="consensus",
        symptoms="one member votes for two candidates in one term",
        causes=("a vote that is not on disk before it is sent", "two servers with one identity"),
        mitigations=("sync term and vote before the answer; refuse a second member of one id",),
        measure=("-o journal=yes, with --nemesis kill and power: votes across restarts",),
        signs=(
            sign("two-votes", "two votes of one server in one term", JOURNAL, elections.two_votes),
            sign(
                "two-grants",
                "lines of two votes granted in one ballot",
                VOTES,
                participation.forked_votes,
                "strong",
            ),
        ),
    ),
    Pattern(
        id="byzantine-corruption",
        number=27,
        name="Byzantine corruption",
        family="consensus",
        symptoms="two members have been told different things by one source",
        causes=("memory or a link that changes bits", "a buffer that is used again", "an intruder"),
        mitigations=("checksums or signatures from end to end, checked before use",),
        measure=("-o journal=yes", "servers that log a digest of each message"),
        signs=(
            sign(
                "altered",
                "entries that are others than their leader sent",
                JOURNAL,
                elections.altered,
            ),
            sign(
                "two-contents",
                "one message with two contents",
                DIGESTS,
                differing_digests,
                "strong",
            ),
            judged((), ("thin-air-read", "garbage-read", "effect-without-request")),
        ),
    ),
)
