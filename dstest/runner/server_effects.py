"""The servers' own word in a run directory: read, written in one form, judged against the clients'.

audit-NODE.jsonl   node, seq, index, term, op_type, key, input, result, request, again, ...
effects.json       what joining and replaying came to
"""

from __future__ import annotations

from typing import Any

import msgspec

from dstest.core.check import CheckResult
from dstest.core.history import History
from dstest.core.protocols import SystemTraits
from dstest.core.run_meta import RunMeta
from dstest.effects.reading import effects_of
from dstest.effects.result import judged
from dstest.store.layout import RunDir


def server_effects(run: RunDir, system: Any, meta: RunMeta, history: History) -> CheckResult | None:
    """The violation that the servers' word shows, None where there is none or no such word."""
    log = SystemTraits.of(system).effects
    if log is None:
        return None
    members = list(meta.members or meta.nodes)
    effects = effects_of(run.nodes, members, log)
    if effects is None:
        return None
    for member in effects.by_node:
        lines = []
        path = run.nodes / member / log.file
        for seq, line in enumerate(path.read_bytes().split(b"\n")[:-1]):
            try:
                index, effect = log.effect_of(msgspec.json.decode(line))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                continue
            if effect is not None:
                row = {"node": member, "seq": seq, **msgspec.structs.asdict(effect)}
                lines.append(msgspec.json.encode({**row, "index": index}))
        run.write(f"audit-{member}.jsonl", b"".join(line + b"\n" for line in lines))
    answer = judged(history, effects, log)
    run.write_json("effects.json", answer.plain)
    return answer.violation
