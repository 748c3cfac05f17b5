"""What fits one system, workload or nemesis: a line for each that does, and why not the others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

GROUPS: Final = {"system": "systems", "workload": "workloads", "nemesis": "nemeses"}
_NAMED: Final = 3


def lines_of(word: str, name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines for one plug-in; `word` is what it is, `rows` are those of the matrix with it.

    Each of the others stands once: among those that fit, with what it does not fit together with,
    or by the reason why it fits nowhere here.
    """
    from dstest.core import registry

    plugin = registry.load(GROUPS[word], name)
    lines = [f"{word} {name}: {getattr(plugin, 'doc', '')}", *_about(word, plugin)]
    first, second = (other for other in GROUPS if other != word)
    for side, across in ((first, second), (second, first)):
        lines += ["", *_side(word, side, across, rows)]
    return lines


def wrapped(label: str, names: Iterable[str], width: int = 10, mark: str = ", ") -> list[str]:
    """Names after a label, on as many lines as they take."""
    head = f"  {label:{width}} "
    text = mark.join(names) or "nothing"
    return textwrap.wrap(
        text, 96, initial_indent=head, subsequent_indent=" " * len(head),
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


def _about(word: str, plugin: Any) -> Iterator[str]:
    """What it says of itself: of a system its capabilities and where it promises less."""
    from dstest.core.protocols import SystemTraits

    if word == "workload":
        yield f"  needs a client for {plugin.capability}, judged by {_judges(plugin)}"
    if word != "system":
        return
    yield from wrapped("clients", sorted(plugin.capabilities), 8)
    for row in SystemTraits.of(plugin).relaxations:
        where = f" with -o {row.option}={row.value}" if row.option else ""
        yield f"  promises {row.model} only{where}"


def _judges(workload: Any) -> str:
    return f"{', '.join(workload.checkers)} against {workload.model}"


def _side(chosen: str, word: str, across: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One of the other two kinds: what fits, each with a note, then what does not, by reason."""
    names = list(dict.fromkeys(row[word] for row in rows))
    fitting = {row[word] for row in rows if row["fits"]}
    others = {row[across] for row in rows if row["fits"]}
    yield f"{GROUPS[word]}: {len(fitting)} of {len(names)} fit"
    unfit: dict[str, list[str]] = {}
    for name in names:
        mine = [row for row in rows if row[word] == name]
        if name not in fitting:
            unfit.setdefault(_reason(mine), []).append(name)
            continue
        notes = [*_misses([row for row in mine if row[across] in others], across)]
        notes += [] if "workload" in (chosen, word) else _in_part(mine)
        note = f" ({'; '.join(notes)})" if notes else ""
        yield f"  {name:18} {_said(word, name)}{note}"
    if unfit:
        yield from wrapped(
            "not", [f"{', '.join(those)} ({why})" for why, those in unfit.items()], 3, "; "
        )


def _said(word: str, name: str) -> str:
    from dstest.core import registry

    plugin = registry.load(GROUPS[word], name)
    return (
        f"{plugin.capability:13} {_judges(plugin)}"
        if word == "workload"
        else getattr(plugin, "doc", "")
    )


def _misses(rows: Sequence[Mapping[str, Any]], across: str) -> Iterator[str]:
    misses = [row[across] for row in rows if not row["fits"]]
    if len(misses) > _NAMED:
        yield f"not with {len(misses)} of {len(rows)} {GROUPS[across]}"
    elif misses:
        yield f"not with {', '.join(misses)}"


def _in_part(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which faults of a nemesis a system cannot have, though it can have others."""
    lacks = {(lack["when"], lack["capability"]) for row in rows for lack in row["lacks"]}
    return [f"not with {when}: no {what}" for when, what in sorted(lacks, key=str) if when]


def _reason(rows: Sequence[Mapping[str, Any]]) -> str:
    """What all its rows have in common, of what lacks the names alone."""
    parts = [(row["reason"] or "").split("; ") for row in rows]
    for row, own in zip(rows, parts, strict=True):
        lacks = ", ".join(lack["capability"] for lack in row["lacks"] if not lack["when"])
        own[:] = [part.removeprefix(f"{row['system']} ") for part in own]
        own[:] = [f"lacks {lacks}" if part.startswith("lacks ") else part for part in own]
    common = [part for part in parts[0] if all(part in own for own in parts)]
    return "; ".join(common) or "several reasons"
