"""The anomalies of what was decided: one for each of the weakest models that are violated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers.txn import circles, order_search
from checkers.txn.as_registers import Writers, neighbourhood, part_of, shrink
from checkers.txn.circles import Case, cases_of, kind_of, sentence
from checkers.txn.columns import TxnColumns, text_of
from checkers.txn.exact import SAME, Exact
from checkers.txn.explain import records_of
from checkers.txn.models import canonical, implied_models
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns

_SUFFIX: Final = {
    "strong-serializable": "-realtime",
    "strong-session-serializable": "-process",
    "serializable": "",
    "strong-snapshot-isolation": "-realtime",
    "strong-session-snapshot-isolation": "-process",
    "snapshot-isolation": "",
}
_BETWEEN: Final = {"": "plain", "-process": "session", "-realtime": "realtime"}

NO_ORDER: Final = {
    model: ("no-snapshot-order" if "snapshot" in model else "no-serial-order") + suffix
    for model, suffix in _SUFFIX.items()
}
"""What a violation is called that no single circle shows."""

_MEANING: Final = {
    "G0": "Writes overwrite one another in a circle",
    "G1c": "Information flows in a circle",
    "G-single-item": "One transaction missed what it should have seen (read skew)",
    "G-nonadjacent-item": "Transactions missed writes of one another, never two in a row",
    "G2-item": "Transactions missed one another's writes (write skew)",
}

_SURE: Final = {False: "G2-item", True: "G-nonadjacent-item"}
"""Under snapshot isolation or not: the shape of a circle that is there whatever the order of
versions was. Others stand on an order that the model alone forces, and weaker models need not."""

RADII: Final = (8, 64, 512)
"""Transactions before and after each one involved among which the smallest part is looked for."""

TOLD_MAX: Final = 40
"""Transactions whose story is told; more is no story."""

STORY_NS: Final = 2_000_000_000
"""What the story may take to be found."""

BUDGET: Final = Budget(time_s=1.0, memory_mb=256)
"""Of one look at a part."""


def _weakest(found: Exact, asked: Iterable[str]) -> list[str]:
    names = {SAME.get(canonical(model), canonical(model)) for model in asked}
    below = {m for name in names for m in implied_models(name)}
    violated = {m for m, is_ in found.decisions.items() if is_ == "violated" and m in below}
    return sorted(m for m in violated if not (implied_models(m) - {m}) & violated)


def violations(c: TxnColumns, found: Exact, asked: Iterable[str], budget: Budget) -> list[Anomaly]:
    """One for each of the weakest models that are violated; none of those that reads violate one
    by one, which are found and named elsewhere. Where the budget ends parts are not minimal."""
    anomalies = []
    deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
    weakest = _weakest(found, asked)
    if weakest and (len(c.open.torn) or len(c.open.unlike)):
        anomalies += _contradictions(c, weakest)
    for model in weakest:
        if model in circles.KINDS:
            if model in found.assumed:
                anomalies.append(circles.whichever(c, found.assumed[model], model))
            elif found.seen is not None and model in found.seen.cycles:
                anomalies.append(
                    circles.anomaly_of(c, found.seen, model, deadline_ns, found.registers)
                )
        elif model in order_search.MODELS and found.involved(model):
            anomalies.append(_without_order(c, model, found.involved(model), deadline_ns))
    return anomalies


def _contradictions(c: TxnColumns, weakest: Iterable[str]) -> list[Anomaly]:
    """The first open read that is unlike what its transaction had written itself, or read."""
    models = [m for m in weakest if m in order_search.MODELS]
    kinds = [
        (
            "internal",
            c.open.torn,
            "although the transaction had written another value there itself",
        ),
        *((NO_ORDER[m], c.open.unlike, "and another value in another read") for m in models[:1]),
    ]
    found = []
    for kind, reads, why in kinds:
        for mop in reads[:1].tolist():
            txn = int(np.searchsorted(c.mop_start, mop, side="right")) - 1
            key, value = c.key_names[c.mop_key[mop]], c.value_names[c.open.value_of(mop) or 0]
            found.append(
                Anomaly(
                    type=kind,
                    key=key,
                    ops=[int(c.op_index[txn])],
                    witness=records_of(c, "rw-register", [txn], {}),
                    explanation=f"T{int(c.op_index[txn])} read {text_of(value)} in key "
                    f"{text_of(key)}, {why}.",
                )
            )
    return found


def smallest_part(
    c: TxnColumns, model: str, involved: Iterable[int], deadline_ns: int
) -> tuple[TxnColumns, bool] | None:
    """A part of the history near the transactions `involved` that violates a model with an order,
    and whether nothing of it can go; None where no part that was looked at does. Its `op_index` are
    transactions of `c`."""

    def shows(part: TxnColumns) -> bool:
        left_s = max(0.0, (deadline_ns - monotonic_ns()) / 1e9)
        look = order_search.decide(
            part, [model], replace(BUDGET, time_s=min(BUDGET.time_s, left_s))
        )
        return look.decisions[model] == "violated" and not look.faults

    writers = Writers(c)
    for radius in RADII:
        near = part_of(c, neighbourhood(c, writers, involved, radius))
        whole = near.op_index.tolist()
        small = shrink(c, whole, shows, deadline_ns) if shows(near) else None
        if small is not None:
            return part_of(c, small.mops), small.minimal
    return None


def _without_order(c: TxnColumns, model: str, involved: list[int], deadline_ns: int) -> Anomaly:
    small = smallest_part(c, model, involved, deadline_ns)
    if small is not None:
        return _anomaly(c, model, small[0], minimal=small[1])
    return _last_met(c, "rw-register", model, involved)


def last_met_of(
    c: TxnColumns, workload: str, found: Exact, violated: Iterable[str]
) -> list[Anomaly]:
    """What is said of violated models where no circle of known versions shows it."""
    told = [(name, found.involved(name)) for name in map(canonical, violated)]
    return [_last_met(c, workload, name, involved) for name, involved in told if involved]


def _last_met(c: TxnColumns, workload: str, model: str, involved: Iterable[int]) -> Anomaly:
    txns = sorted(set(involved))
    return Anomaly(
        type=NO_ORDER[model],
        ops=[int(c.op_index[t]) for t in txns],
        witness=records_of(c, workload, txns, {}),
        explanation="No order of all transactions explains their reads; these were met last in the "
        "search for one. It may take many more to show it.",
    )


def _anomaly(c: TxnColumns, model: str, part: TxnColumns, *, minimal: bool) -> Anomaly:
    """`part`'s op_index are transactions of `c`."""
    whole = part.op_index.tolist()
    names = [int(c.op_index[t]) for t in whole]
    suffix = _SUFFIX[model]
    snapshot = "snapshot" in model
    cases, until_ns = None, monotonic_ns() + STORY_NS
    if part.txns <= TOLD_MAX:
        cases = cases_of(part, names, until_ns, snapshot=snapshot, between=_BETWEEN[suffix])
    edges: dict[int, dict[str, Any]] = {}
    kind, text = NO_ORDER[model], ""
    called = {t: f"T{name}" for t, name in enumerate(names)}
    if cases is None:
        text = f"No order of these {len(names)} transactions explains what they read."
    elif len(cases) == 1:
        shape = kind_of(cases[0].edges)
        kind = shape + suffix if shape == _SURE[snapshot] else kind
        text = f"{_MEANING[shape]}: {shape}. {sentence(called, cases[0])}."
        edges = _edges(part, names, cases[0])
    else:
        said = [f"{sentence(called, case)}." for case in cases]
        text = "No order of these transactions explains what they read. " + " ".join(said)
    keys = {e.key for case in cases or () for e in case.edges if e.key >= 0}
    return Anomaly(
        type=kind,
        key=part.key_names[keys.pop()] if len(keys) == 1 else None,
        ops=[*names],
        witness=records_of(c, "rw-register", whole, edges),
        minimal=minimal,
        explanation=text,
    )


def _edges(part: TxnColumns, names: list[int], case: Case) -> dict[int, dict[str, Any]]:
    return {
        edge.first: {
            "to": names[edge.then],
            "reason": edge.label,
            "key": part.key_names[edge.key] if edge.key >= 0 else None,
            "text": edge.text,
        }
        for edge in case.edges
    }
