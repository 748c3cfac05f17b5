"""The sentence that a page begins with, for programs and for pages of many runs: what the database
did wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dstest.core.check import Anomaly, CheckResult
from dstest.core.op import Op
from dstest.judge.words import spelled
from dstest.report.meanings import meaning_of
from dstest.report.model import RunReport
from dstest.report.moments import headline, in_a_line, moments, rank
from dstest.report.sentences import culprit_of, stuck_of
from dstest.report.stale import read_wrongly


def headline_of(report: RunReport) -> str:
    """As report.html has it: what the database did wrong, or the reason of the verdict."""
    said = headline(report, moments(report, ()))[0]
    return said or spelled(report.verdict.reason)


def headline_of_result(result: CheckResult, system: str, ops: Callable[[], Sequence[Op]]) -> str:
    """Of a checker's answer about a history by itself, empty where it names no anomaly. `ops` gives
    all operations of the history, and is called only where they say more than the anomaly does."""
    found = [one for group in result.anomalies.values() for one in group]
    if result.valid is not False or not found:
        return ""
    first = min(found, key=lambda one: rank(result.checker, one))
    did = _read(first, ops) or meaning_of(result.checker, first.type).did
    return in_a_line(system, did, first.key)


def _read(anomaly: Anomaly, ops: Callable[[], Sequence[Op]]) -> str:
    """How a read that fits no order was wrong; empty where it is none, or nothing tells."""
    if stuck_of(anomaly) is None:
        return ""
    every = ops()
    wanted = set(anomaly.ops)
    witness = [op for op in every if op.op_id in wanted]
    named = culprit_of(anomaly, witness)
    culprit = next((op for op in witness if op.op_id == named), None)
    return "" if culprit is None else read_wrongly(culprit, every)
