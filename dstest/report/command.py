"""The command line that makes a run again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.option_words import pair_of, written
from dstest.core.run_words import run_words

_OWN: Final = re.compile(r"default|run-\d+|s\d+-\d+")
"""Labs that nobody has named: a run finds or makes them itself."""


def with_lab(spec: dict[str, Any], lab_id: str | None) -> dict[str, Any]:
    """The spec of a run with the lab that somebody has named for it."""
    named = lab_id is not None and not _OWN.fullmatch(lab_id)
    return {**spec, "lab_id": lab_id} if spec and named else spec


def command_of(spec: dict[str, Any], given: Sequence[str] | None = None) -> str:
    """The command line that runs the same operations and faults again; empty for an import.

    `given` are the `key=value` pairs that the user gave; without them all options are spelt out.
    """
    if not spec:
        return ""
    if spec.get("schedule") is not None:
        spec = {**spec, "nemesis": None}  # a schedule names its own faults
    if given is None:
        options = sorted(spec.get("options", {}).items())
        given = [pair_of(key, value) for key, value in options if written(value)]
    return shlex.join(["dstest", *run_words(spec, given)])
