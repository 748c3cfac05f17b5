"""Consensus: who leads, who votes, what is decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dstest.core.op import Outcome
from dstest.debug.patterns import elections, participation
from dstest.debug.patterns.anomalies import differing_digests, of_anomalies, of_check, two_claims
from dstest.debug.patterns.history import of_ops
from dstest.debug.patterns.model import (
    DIGESTS,
    FAULTS,
    JOURNAL,
    LINES,
    OPERATIONS,
    ROLES,
    VOTES,
    Match,
    Pattern,
    Sign,
)
from dstest.debug.patterns.participation import two_primaries
from dstest.debug.patterns.scene import Scene


def _unanswered(scene: Scene) -> Iterator[Match]:
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
            Sign("two-leaders", "two leaders of one term", elections.two_leaders, (JOURNAL,)),
            Sign(
                "conflicting-commits",
                "different entries committed at one index",
                elections.conflicting,
                (JOURNAL,),
            ),
            Sign("commits-alone", "commits that no majority has", elections.alone, (JOURNAL,)),
            Sign(
                "two-claims",
                "lines of two that lead in one term",
                two_claims,
                (LINES,),
                "strong",
                words=True,
            ),
            Sign(
                "two-primaries",
                "a primary that took over while its later replica was one still",
                two_primaries,
                (ROLES,),
                "strong",
                words=True,
            ),
            Sign(
                "both-sides",
                "writes acknowledged on both sides of a partition",
                participation.both_sides,
                (OPERATIONS, FAULTS),
                "strong",
                "high",
            ),
            of_anomalies(
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
            Sign(
                "absent",
                "members that acknowledge less than half as often as the others",
                participation.absent,
                (JOURNAL,),
                "strong",
                "high",
                excusable=True,
            ),
            Sign(
                "dumb",
                "nodes that answer nothing while others do",
                participation.dumb,
                (OPERATIONS,),
                "strong",
                "high",
                excusable=True,
            ),
            Sign(
                "silent-log",
                "nodes without a line in their logs, or with few votes in them",
                participation.silent_logs,
                (LINES,),
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
            Sign(
                "tally",
                "leaders that counted other votes than given",
                elections.tallies,
                (JOURNAL,),
            ),
            Sign(
                "contrary",
                "members that vote against the majority in a row",
                participation.contrary,
                (VOTES,),
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
            Sign(
                "late",
                "entries that were not decided in time",
                elections.late_decisions,
                (JOURNAL,),
                "strong",
                "high",
                excusable=True,
            ),
            Sign(
                "unanswered",
                "operations without an answer, outside of faults",
                _unanswered,
                (OPERATIONS,),
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
            Sign(
                "two-votes", "two votes of one server in one term", elections.two_votes, (JOURNAL,)
            ),
            Sign(
                "two-grants",
                "lines of two votes granted in one ballot",
                participation.forked_votes,
                (VOTES,),
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
            Sign(
                "altered",
                "entries that are others than their leader sent",
                elections.altered_entries,
                (JOURNAL,),
            ),
            Sign(
                "two-contents",
                "one message with two contents",
                differing_digests,
                (DIGESTS,),
                "strong",
            ),
            of_anomalies((), ("thin-air-read", "garbage-read", "effect-without-request")),
        ),
    ),
)
