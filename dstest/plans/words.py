"""Words of a plan that have a meaning for programs: ids in lists, sentences that say `nothing`."""

from __future__ import annotations

import re
from typing import Final

NOT_GATED: Final = "§7.M: not applicable (no gated claim category falsified)"
"""Stands in a scenario whose claims need no history."""

NO_MISSING: Final = "No missing claims were found."
NO_RESIDUAL: Final = "No residual uncertainty is known."

_ID: Final = re.compile(r"\b[A-Z]\d+\b")
_THREAT: Final = re.compile(r"\s*\(?(?P<letter>[a-z])\)?\s*[:.)]\s*(?P<text>.+)", re.DOTALL)


def ids(text: str) -> tuple[str, ...]:
    """`C1`, `H2` and the like in a text, in their order, each once."""
    return tuple(dict.fromkeys(_ID.findall(text)))


def plain(text: str) -> str:
    """Without marks of code and of emphasis at its ends, and as one line."""
    return " ".join(text.split()).strip("`*_ ")


def cut(text: str, at: str = ";") -> list[str]:
    """The parts of a list in a line, or of one with a line for each."""
    return [part for one in re.split(f"[{at}\n]", text) if (part := one.strip(" .-"))]


def entries(text: str) -> list[str]:
    """The parts of such a list, whole."""
    return cut(text, ";" if ";" in text else ",")


def listed(text: str) -> tuple[str, ...]:
    """Names in a list with semicolons, or with commas where there are none; what stands behind a
    colon or in brackets is no part of a name."""
    parts = entries(re.sub(r"\([^()]*\)", "", text))
    return tuple(dict.fromkeys(name for part in parts if (name := plain(part.split(":")[0]))))


_PLACEHOLDER: Final = re.compile(
    r"<(?!https?:|mailto:|!--|/|br>|sub>|sup>)[A-Za-z\u2026.][^<>\n]*>"
)
_CODE: Final = re.compile(r"``.+?``|`[^`\n]+`")


def placeholders(text: str) -> list[tuple[int, str]]:
    """(line, text) of what nobody has filled in: `<fill: ...>` anywhere, and other words in pointed
    brackets outside of code."""
    found = []
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = line.strip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        said = "" if fence else _CODE.sub("", line)
        found += [
            (number, text)
            for text in _PLACEHOLDER.findall(line)
            if text.startswith("<fill") or text in said
        ]
    return found


def threats_of(threats: str, scenarios: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """(letter, text, scenarios) from `a: kill; b: pause` and `a: S1, S2; b: S1`."""
    found = [row for part in cut(threats) if (row := _THREAT.fullmatch(part))]
    by = {
        row["letter"]: ids(row["text"])
        for part in cut(scenarios)
        if (row := _THREAT.fullmatch(part))
    }
    return [(row["letter"], row["text"].strip(), by.get(row["letter"], ())) for row in found]
