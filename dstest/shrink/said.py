"""What a reduction came to, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer, Size


def lines_of(found: Reproducer, aside: Path) -> Iterator[str]:
    """A row of the run as it was and the small one for each thing that could be made smaller."""
    rows = zip(_sizes(found.before), _sizes(found.after), strict=True)
    for (name, before), (_, after) in rows:
        yield f"{name:12} {before:>24}  ->  {after}"
    before_ops, after_ops = found.history_ops
    shown = "no part shows it alone" if after_ops is None else f"{after_ops:,}"
    yield f"{'history':12} {before_ops:>20,} ops  ->  {shown}"
    yield f"{'violation':12} {found.fingerprint}"
    gone = [kind for kind in found.before.kinds if kind not in found.after.kinds]
    if gone and not found.after.kinds:
        yield (
            f"{'':12} without {', '.join(gone)}: that the name is the same does not say that it is"
            " the same bug"
        )
    before_said = "not measured" if found.rate_before is None else found.rate_before.said
    yield f"{'comes in':12} {before_said:>24}  ->  {found.rate_after.said}"
    yield f"{'runs made':12} {found.runs}" + (f"; {found.stopped}" if found.stopped else "")
    if found.rate_after.came:
        yield f"{'reproducer':12} {aside}/{REPRODUCER}, {aside}/{SCRIPT}"


def _sizes(size: Size) -> list[tuple[str, str]]:
    operations = "not counted" if size.operations is None else f"{size.operations:,}"
    rate = "closed loop" if size.rate is None else f"{size.rate:g}/s"
    return [
        ("fault events", f"{size.events}"),
        ("fault kinds", ", ".join(size.kinds) or "none"),
        ("load", f"{size.time_limit_s:g} s"),
        ("nodes", f"{size.nodes}"),
        ("clients", f"{size.clients}, {rate}"),
        ("op types", ", ".join(size.op_types)),
        ("operations", operations),
    ]
