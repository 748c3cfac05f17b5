"""What toykv's servers write down of what they applied, in the words of the client history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core.protocols import Effect

__all__ = ["EFFECTS", "FILE"]

FILE: Final = "audit.jsonl"


class ToyEffects:
    """Locks and leases are left out: their lines do not say all that the client asked for."""

    file = FILE
    first = 1
    types = frozenset(
        {
            *("write", "cas", "inc", "add", "enqueue", "dequeue"),
            *("transfer", "credit", "txn", "send"),
        }
    )
    objects: Mapping[str, str] = {
        "write": "register",
        "cas": "register",
        "add": "set",
        "inc": "counter",
        "enqueue": "fifo-queue",
        "dequeue": "fifo-queue",
    }

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]:
        """A line of a server's audit.jsonl."""
        index, name, answer = int(record["index"]), record["op"], record["result"]
        if name not in self.types:
            return index, None
        request = str(record.get("id") or "")
        given = record.get("value")
        if name == "credit":
            given = {"id": request.partition("/")[2], "amount": given}
        return index, Effect(
            index=index,
            op_type=name,
            key=record.get("key"),
            input=given,
            result=answer.get("ok"),
            term=record.get("term"),
            request=request,
            again="again" in answer,
            refused="no" in answer,
            replayed=bool(record.get("replayed")),
        )


EFFECTS: Final = ToyEffects()
