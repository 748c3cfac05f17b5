"""Messages and order: cause before effect, loss, delay, duplicates, one order for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dstest.debug.patterns import elections, order
from dstest.debug.patterns.anomalies import able, match_of, of_anomalies, of_check
from dstest.debug.patterns.model import (
    BOTH_SIDES,
    EFFECTS,
    JOURNAL,
    SPANS,
    Match,
    Pattern,
    Sign,
    operations,
)
from dstest.debug.patterns.scene import Scene

_SENDS: Final = frozenset({"enqueue", "send", "push", "put", "publish"})
"""Operations that hand a message to somebody else."""


_LOSSES: Final = ("lost", "lost-write", "skipped")


def _of_messages(scene: Scene) -> Iterator[Match]:
    """What was sent and never came out: of a queue or a log, `lost` is a message."""
    for one in scene.findings:
        types = {op.get("op_type") for anomaly in one.anomalies for op in anomaly.witness}
        if one.kind in _LOSSES and types & _SENDS:
            yield match_of(scene, one, lost=True, acknowledged=False)


PATTERNS: Final = (
    Pattern(
        id="causal-violation",
        number=5,
        name="Causal ordering violation",
        family="messages",
        symptoms="an effect is seen before its cause, or a read goes behind what was confirmed",
        causes=("reads of followers that nobody has confirmed", "answers to older requests"),
        mitigations=(
            "read at the leader or after its confirmed index; carry versions in sessions",
            "pair answers with requests by id",
        ),
        measure=("-o spans=yes: which node answered the read, and whom it asked",),
        signs=(
            of_anomalies(
                (
                    *("stale", "causal-reverse", "own-write-missed", "nonmonotonic-read"),
                    *("nonmonotonic-write", "nonmonotonic-view", "non-monotonic-read"),
                    *("write-before-read", "write-co-init-read", "write-co-read"),
                    *("causal-stale-read", "future-read", "G-monotonic"),
                ),
                (
                    *("nonlinearizable", "long-fork", "strong-session-serializable", "PL-SS"),
                    *("strong-snapshot-isolation", "strong-session-snapshot-isolation"),
                ),
            ),
            Sign(
                "read-behind",
                "a read of a register that shows what had been overwritten for certain",
                order.reads_behind,
                (operations("read|get", "write|put"),),
            ),
            Sign(
                "clocks-contradict",
                "spans whose vector clocks say that they were not begun by their parent",
                order.clock_contradictions,
                (SPANS,),
                "proven",
                "high",
            ),
            of_check(
                "causal_ordering_violation",
                "answers",
                strength="strong",
                only=lambda finding: finding.severity == "high",
            ),
        ),
    ),
    Pattern(
        id="message-loss",
        number=6,
        name="Message loss",
        family="messages",
        symptoms="what was sent does not arrive, and nobody sends it again",
        causes=("a full buffer that drops", "no retry over a new connection", "acked too early"),
        mitigations=("acknowledge after it is kept, send again until then, drop doubles by id",),
        measure=("servers that log the id of each message at both ends", "-o spans=yes"),
        signs=(
            Sign(
                "never-received",
                "messages that were sent and never received",
                order.never_received,
                (BOTH_SIDES,),
                "strong",
                "high",
                excusable=True,
            ),
            of_anomalies(("poll-skip", "missed-event"), ("skipped", "lost-write")),
            Sign(
                "elements-lost",
                "a checker found messages lost",
                _of_messages,
                (operations("enqueue|send|push|put|publish"), able(_LOSSES)),
            ),
        ),
    ),
    Pattern(
        id="reordering",
        number=7,
        name="Message delay or reordering",
        family="messages",
        symptoms="messages of one link come in another order than sent, or some very late",
        causes=("several connections for one link", "retries", "a count that begins anew"),
        mitigations=("numbers by link and epoch; put in order, or refuse what is older",),
        measure=("-o spans=yes: the delay of each link", "--nemesis latency as a control"),
        signs=(
            of_anomalies(
                (
                    *("reordered", "nonmonotonic-send", "nonmonotonic-poll", "unordered-event"),
                    *("early-poll", "resumed-too-early"),
                ),
                ("skipped", "nonmonotonic"),
            ),
            Sign(
                "overtaken",
                "messages of one link that were overtaken",
                order.overtaken,
                (BOTH_SIDES,),
                "strong",
                "high",
                excusable=True,
            ),
            Sign(
                "late-links",
                "links with a tail of delays",
                order.late_links,
                (SPANS,),
                "indicated",
                "medium",
                excusable=True,
            ),
        ),
    ),
    Pattern(
        id="duplication",
        number=19,
        name="Message duplication",
        family="messages",
        symptoms="what was asked for once is done, or there, twice",
        causes=("retries without a key of their own", "keys that are forgotten at a restart"),
        mitigations=("keep the ids of requests with their effects, as long as a retry may come",),
        measure=("-o audit=yes: how often each request was applied",),
        signs=(
            of_anomalies(
                (
                    *("duplicated", "duplicate", "int-duplicate", "duplicated-event"),
                    *("applied-twice", "duplicate-elements"),
                ),
            ),
            Sign(
                "applied-twice",
                "requests that were applied more than once",
                order.applied_twice,
                (EFFECTS,),
            ),
            of_check("duplicate_messages", "seen-twice", strength="indicated", severity="medium"),
        ),
    ),
    Pattern(
        id="total-order",
        number=20,
        name="Total-order violation",
        family="messages",
        symptoms="two replicas apply the same things in different orders",
        causes=("places given by two leaders", "a log that is rewritten below its commit"),
        mitigations=("one order by consensus, applied by its index and nothing else",),
        measure=("-o audit=yes: what each replica applied", "-o journal=yes"),
        signs=(
            of_anomalies(
                (
                    *("incompatible-order", "cyclic-versions", "inconsistent-offsets"),
                    *("applied-differently", "long-fork"),
                ),
                ("reordered", "G1c", "nonmonotonic", "no-serial-order"),
            ),
            Sign(
                "effects-differ",
                "the first index at which two replicas applied different things",
                order.effects_differ,
                (EFFECTS,),
            ),
            Sign(
                "commits-differ",
                "different entries committed at one index",
                elections.conflicting,
                (JOURNAL,),
            ),
        ),
    ),
)
