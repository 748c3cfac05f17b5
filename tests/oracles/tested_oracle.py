"""Where our answer to a history without a violation is unknown although Elle's is valid.

Elle accepts a history that could not have shown a violation. Here that is counted over plain
records, one pair of transactions at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from typing import Any

from checkers.second.elle_txn import Txn, transactions

__all__ = ["decides_nothing"]

_ORDERS = ("-realtime", "-process")


def decides_nothing(
    history: list[dict[str, Any]], workload: str, demanded: Collection[str]
) -> bool:
    """Is it worth nothing that none of the demanded anomalies was found?"""
    txns = transactions(history, workload)
    ordered = any(name.endswith(_ORDERS) for name in demanded)
    return not _reads_could_show(txns) or (ordered and any(t.ok and t.begin is None for t in txns))


def _reads_could_show(txns: list[Txn]) -> bool:
    """Someone read a value that another one may have written, or two looked for it."""
    looked = [
        (reader.id, value)
        for reader, writer in product(txns, txns)
        if reader is not writer and writer.possible
        for key, value in reader.reads()
        if any(key == written for written, _ in writer.writes())
    ]
    return (
        any(value not in (None, ()) for _, value in looked) or len({who for who, _ in looked}) > 1
    )
