"""How much was found: what checkers with a violation have counted, in one line each."""

from __future__ import annotations

from collections.abc import Mapping

from dstest.core.check import CheckResult
from dstest.report.numbers import number

__all__ = ["tallies"]


def tallies(results: Mapping[str, CheckResult]) -> list[str]:
    """`no-lost-ack: 224,232 acknowledged, 127,728 lost, ...`, of those that found something."""
    lines = []
    for name, result in results.items():
        counts = [f"{number(n)} {word.replace('_', ' ')}" for word, n in result.stats.items() if n]
        if result.valid is False and counts:
            lines.append(f"{name}: {', '.join(counts)}")
    return lines
