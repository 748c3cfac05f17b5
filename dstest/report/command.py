"""The command line that makes a run again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.option_words import behind_o, pair_of, written

__all__ = ["command_of", "with_lab"]

_OWN: Final = re.compile(r"default|run-\d+|s\d+-\d+")
"""Labs that nobody has named: a run finds or makes them itself."""


def with_lab(spec: dict[str, Any], lab_id: str | None) -> dict[str, Any]:
    """The spec of a run with the lab that somebody has named for it."""
    named = lab_id is not None and not _OWN.fullmatch(lab_id)
    return {**spec, "lab_id": lab_id} if spec and named else spec


def _number(value: float) -> str:
    """As short as says the same number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def command_of(spec: dict[str, Any], given: Sequence[str] | None = None) -> str:
    """The command line that runs the same operations and faults again; empty for an import.

    `given` are the `key=value` pairs that the user gave; without them all options are spelt out.
    """
    if not spec:
        return ""
    if spec.get("schedule") is not None:
        spec = {**spec, "nemesis": None}  # a schedule names its own faults
    words = ["dstest", "run"]
    for path in spec.get("files", ()):
        words += ["--plugin", str(path)]
    for name in spec.get("builds", ()):
        words += ["--system-version", str(name)]
    for name in spec.get("checkers", ()):
        words += ["--checker", str(name)]
    flags = {
        "system": "--system",
        "workload": "--workload",
        "nemesis": "--nemesis",
        "lab": "--lab",
        "lab_id": "--lab-id",
        "nodes": "--nodes",
        "time_limit_s": "--time-limit",
        "rate": "--rate",
        "concurrency": "--concurrency",
        "seed": "--seed",
        "model": "--model",
        "schedule": "--schedule",
        "tier": "--tier",
    }
    for key, flag in flags.items():
        value = spec.get(key)
        if value is not None:
            words += [flag, _number(value) if isinstance(value, float) else str(value)]
    if spec.get("stop_on_violation"):
        words.append("--stop-on-violation")
    if spec.get("monitor") is False:
        words.append("--no-monitor")
    if given is None:
        options = sorted(spec.get("options", {}).items())
        given = [pair_of(key, value) for key, value in options if written(value)]
    return shlex.join([*words, *behind_o(given)])
