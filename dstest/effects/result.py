"""The answer of the built-in judge `server-effects`, and what is kept of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from checkers._spread import Spreads, epochs_met
from dstest.core.check import Anomaly, CheckResult, OpCount
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.protocols import EffectLog
from dstest.effects.pairing import Mismatch, Pairing, paired
from dstest.effects.reading import Effects
from dstest.effects.replaying import Replay, replayed

NAME: Final = "server-effects"
SHOWN_MAX: Final = 16


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What `effects.json` holds; `violation` is None where nothing disagrees."""

    by_node: dict[str, int]
    whole: bool
    torn: list[str]
    damaged: list[str]
    pairing: Pairing
    replay: Replay
    violation: CheckResult | None

    @property
    def plain(self) -> dict[str, Any]:
        rows = {name: getattr(self, name) for name in self.__struct_fields__ if name != "violation"}
        plain: dict[str, Any] = msgspec.to_builtins(rows)
        return plain


def judged(history: History, effects: Effects, log: EffectLog) -> Answer:
    """Join and replay."""
    pairing = paired(history.ops, effects, log.types)
    replay = replayed(effects.applied, log.objects)
    found = [*pairing.mismatches, *replay.mismatches]
    return Answer(
        by_node=effects.by_node,
        whole=effects.whole,
        torn=effects.torn,
        damaged=effects.damaged,
        pairing=_short(pairing),
        replay=msgspec.structs.replace(replay, mismatches=replay.mismatches[:SHOWN_MAX]),
        violation=_violation(history, pairing, found) if found else None,
    )


def _short(pairing: Pairing) -> Pairing:
    return msgspec.structs.replace(pairing, mismatches=pairing.mismatches[:SHOWN_MAX])


def _violation(history: History, pairing: Pairing, found: list[Mismatch]) -> CheckResult:
    spreads = Spreads()
    by_id = {op.op_id: op for op in history.ops}
    anomalies: dict[str, list[Anomaly]] = {}
    for one in found:
        ops = [by_id[id] for id in one.op_ids if id in by_id]
        last = max(ops, key=lambda op: op.complete_ts or op.invoke_ts, default=None)
        spreads.add(one.kind, one.key, ops, last)
        rows = anomalies.setdefault(one.kind, [])
        if len(rows) < SHOWN_MAX:
            rows.append(_anomaly(history, one, ops))
    counts = spreads.counts
    return CheckResult(
        checker=NAME,
        valid=False,
        workload=history.header.workload,
        model=NAME,
        anomaly_types=sorted(counts),
        not_=[NAME],
        anomalies=dict(sorted(anomalies.items())),
        ops=OpCount(total=len(history.ops), consumed=pairing.operations, excluded={}),
        reason=", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())),
        stats={"effects": pairing.effects, "anomalies": dict(counts)},
        spreads=spreads.by_kind(),
    )


def _anomaly(history: History, one: Mismatch, ops: list[Op]) -> Anomaly:
    end = max((max(op.invoke_ts, op.complete_ts or 0) for op in history.ops), default=0)
    return Anomaly(
        type=one.kind,
        key=one.key,
        ops=[op.op_id for op in ops],
        witness=[msgspec.to_builtins(op) for op in ops],
        epochs=epochs_met(ops, history.header.windows, end),
        explanation=one.said,
    )
