"""Mutants of how clients are served: groups that are served worse, levels that nobody keeps."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.op import Op
from dstest.judge._mutate import Made, acked, changed, end, pick

_Opts = Mapping[str, Any]


def _groups(ops: list[Op], options: _Opts) -> list[list[Op]]:
    """The operations of each group of clients, as `fairness` makes them; none with one group."""
    by = options.get("fairness_by", "node")
    field = {"node": "node_seen", "process": "process_id"}.get(str(by), str(by))
    groups: dict[str, list[Op]] = {}
    for op in ops:
        inside = op.input.get("group") if isinstance(op.input, dict) else None
        name = inside if by == "group" else getattr(op, field, None)
        if name is not None:
            groups.setdefault(repr(name), []).append(op)
    return list(groups.values()) if len(groups) > 1 else []


def _slow(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    group = pick(dice, _groups(ops, options))
    if group is None:
        return None
    mine = acked(group, *{op.op_type for op in group})
    # Few enough to leave the percentile of all where it is, many enough to be the group's own.
    slow = mine[: max(1, len(mine) // 60)]
    return f"{len(slow)} of {len(mine)} operations of one group took a thousand times as long", (
        changed(
            ops,
            {
                op.op_id: {"complete_ts": op.invoke_ts + 1000 * max(1, end(op) - op.invoke_ts)}
                for op in slow
            },
        )
    )


def _failing(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    group = pick(dice, _groups(ops, options))
    if group is None or float(options.get("fairness_error_rate", 1)) >= 1:
        return None
    mine = acked(group, *{op.op_type for op in group})
    refused = {"output": None, "error": "refused"}
    said = f"all {len(mine)} good operations of one group failed"
    return said, changed(ops, {op.op_id: refused for op in mine})


FAIR: Final = {"slow": _slow, "failing": _failing}

_MET_BY_NOBODY: Final = re.compile(
    r"\s*(p\d+_ms\s*<|max_ms\s*<|gap_s\s*<|ok_per_s\s*>|ok_ratio\s*>)=?\s*(?P<limit>[0-9.]+)"
)
"""Service levels that a system which answers nobody does not keep, if the limit is above zero."""


def _unanswered(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    del dice
    declared = str(options.get("slo") or "").split(",")
    found = [m for text in declared if (m := _MET_BY_NOBODY.match(text))]
    mine = acked(ops, *{op.op_type for op in ops})
    if not mine or not any("gap_s" not in m[1] and float(m["limit"]) > 0 for m in found):
        return None
    lost = {"complete_ts": None, "output": None, "timeout_marker": True}
    said = f"all {len(mine)} good operations got no answer"
    return said, changed(ops, {op.op_id: lost for op in mine})


SERVICE: Final = {"unanswered": _unanswered}
