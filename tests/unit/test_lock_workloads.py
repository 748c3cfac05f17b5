"""A server that lets everybody in is found out by each workload of locks."""

from __future__ import annotations

import heapq
import json
import random
from typing import Any

import pytest
from notation import check

from dstest.core import registry
from dstest.core.protocols import Answer

MS = 1_000_000
PROCESSES = 5


def history(workload: str, *, excludes: bool, seed: int = 1, ops: int = 1500) -> str:
    """Of one worker in a closed loop, whose requests take 1 to 5 ms, in the notation of `check`."""
    work = registry.load("workloads", workload)
    options = {name: option.default for name, option in work.options.items()}
    generator = work.generator(seed, 0, PROCESSES, options)
    draw, holder, lines = random.Random(seed), dict[str, int](), list[str]()
    queue: list[tuple[int, int, int, Any]] = [(0, slot, 0, None) for slot in range(PROCESSES)]
    while len(lines) < ops:
        now, slot, _, last = heapq.heappop(queue)
        draft = generator.next_for(slot, last)
        invoke = now + draft.after_ns
        acts, end = invoke + draw.randrange(MS, 3 * MS), invoke + draw.randrange(3 * MS, 5 * MS)
        heapq.heappush(queue, (acts, slot, 1, (draft, invoke, end)))
        while queue[0][2] == 1:
            _, slot, _, (draft, invoke, end) = heapq.heappop(queue)
            output = None
            if draft.op_type == "acquire":
                output = not excludes or holder.setdefault(draft.key, slot) == slot
            elif draft.op_type == "release":
                holder.pop(draft.key, None)
            given = "" if draft.input is None else f" {json.dumps(draft.input)}"
            said = "" if output is None else f" -> {json.dumps(output)}"
            lines.append(f"{slot} {draft.op_type}[{draft.key}]{given}{said} @{invoke}-{end}")
            heapq.heappush(queue, (end, slot, 0, Answer(draft, "ok", output)))
    return "\n".join(lines)


@pytest.mark.parametrize("workload", ["lock", "critical-section", "lease"])
def test_holds_are_long_enough_to_overlap(workload: str) -> None:
    model = "lease" if workload == "lease" else "lock"
    broken = check("exclusion", model, history(workload, excludes=False))
    assert broken.valid is False
    assert broken.anomaly_types == ["overlapping-holds"]
    good = check("exclusion", model, history(workload, excludes=True))
    assert good.valid is True, good.reason
    assert good.stats["contended"] > 50
