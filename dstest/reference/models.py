"""`docs/reference/models.md`: the consistency models of transactions."""

from __future__ import annotations

from typing import Final

from checkers.txn import exact
from checkers.txn.models import UNTESTED, lattice
from checkers.txn.plugin import LIST_APPEND
from dstest.reference.tables import code, table

_HEAD: Final = """\
# Models of transactions

Written by `python -m dstest.reference`; do not edit. A model allows whatever the models that imply
it allow, and more. *Decided*: an order that explains the history is found, or there is none (of
registers, and of lists that agree on their order); else a clean history is one in which none of the
anomalies stands. Models of objects: [checkers.md](checkers.md).
"""


def models_page() -> str:
    graph = lattice()
    rows = (
        (
            code(model),
            ", ".join(map(code, facts["aliases"])),
            ", ".join(map(code, sorted(graph.successors(model)))),
            ", ".join(map(code, facts["proscribes"])),
            _judged(model),
        )
        for model, facts in graph.nodes(data=True)
    )
    head = ("model", "also called", "implies", "rules out by itself", "judged")
    return "\n".join([_HEAD, *table(head, rows), ""])


def _judged(model: str) -> str:
    if model not in LIST_APPEND.models:
        return "no: asking for it is refused"
    if exact.SAME.get(model, model) in exact.MODELS:
        return "decided"
    if model in UNTESTED:
        return f"by anomalies; clean histories stay unknown: {UNTESTED[model]} are not looked for"
    return "by anomalies"
