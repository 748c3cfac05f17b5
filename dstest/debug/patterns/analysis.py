"""All patterns, by number, and every one of them looked for in a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dstest.debug.patterns.families import (
    consensus,
    environment,
    messages,
    partition,
    performance,
    progress,
    state,
    values,
)
from dstest.debug.patterns.model import Answer, Detection, Match, Pattern, Sign
from dstest.debug.patterns.scene import Scene

PATTERNS: Final[tuple[Pattern, ...]] = tuple(
    sorted(
        (
            *consensus.PATTERNS,
            *messages.PATTERNS,
            *values.PATTERNS,
            *state.PATTERNS,
            *performance.PATTERNS,
            *partition.PATTERNS,
            *progress.PATTERNS,
        ),
        key=lambda pattern: pattern.number,
    )
)


def _of_files() -> tuple[Pattern, ...]:
    """What servers alone say of a pattern of the catalogue is one sign of it more."""
    told = [
        msgspec.structs.replace(one, signs=(*one.signs, *environment.TOLD.get(one.id, ())))
        for one in PATTERNS
    ]
    return (*told, *environment.ENVIRONMENT)


OF_FILES: Final[tuple[Pattern, ...]] = _of_files()
"""What is looked for in files that are of no run."""

_SAFETY = "no fault excuses it: what is against safety is wrong at any time"


def analyse(scene: Scene, patterns: Iterable[Pattern] = PATTERNS) -> list[Answer]:
    """What looking for each came to, in the order of their numbers."""
    return [answer_of(scene, pattern) for pattern in patterns]


def answer_of(scene: Scene, pattern: Pattern) -> Answer:
    """One pattern: each of its signs whose needs are there."""
    detections: list[Detection] = []
    looked: list[str] = []
    words: list[str] = []
    missing: dict[str, str] = {}
    hows: dict[str, str] = {}
    partly: dict[str, str] = {}
    for sign in pattern.signs:
        if lacks := _lacks(scene, sign):
            missing[sign.id], hows[sign.id] = lacks
            continue
        (words if sign.words else looked).append(sign.id)
        if lost := next((why for need in sign.needs if (why := need.lost(scene))), ""):
            partly[sign.id] = lost
        detections += (_detection(scene, pattern, sign, found) for found in sign.find(scene))
    return Answer(
        pattern=pattern.id,
        detections=detections,
        looked=looked,
        words=words,
        missing=missing,
        hows=hows,
        partly=partly,
    )


def _lacks(scene: Scene, sign: Sign) -> tuple[str, str] | None:
    """What the first of its needs that is not there would be, with how to get it, and that."""
    for need in sign.needs:
        if why := need.lacks(scene):
            how = need.how_for(scene)
            return f"needs {need.what} ({why}): {how}", how
    return None


def _detection(scene: Scene, pattern: Pattern, sign: Sign, found: Match) -> Detection:
    window, expected, why = found.window, found.expected, found.why
    if expected is None:
        said = scene.why(found.at_ns, found.nodes)
        window = said.window
        expected = sign.excusable and said.expected
        why = said.why if sign.excusable else _SAFETY
    return Detection(
        pattern=pattern.id,
        sign=sign.id,
        said=found.said,
        strength=found.strength or sign.strength,
        severity=found.severity or sign.severity,
        rows=found.rows,
        count=found.count,
        nodes=found.nodes,
        window=window,
        expected=expected,
        why=why,
        at_ns=found.at_ns,
        kinds=found.kinds,
        acknowledged=found.acknowledged,
        basis=found.basis or sign.basis or sign.id,
    )
