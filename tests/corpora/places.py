"""Where histories with known verdicts lie: our own beside this file, those of others elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["OUTER", "OUTER_ASKED", "OWN", "ROOTS"]

OWN = Path(__file__).resolve().parent

OUTER_ASKED = Path(os.environ.get("DSTEST_CORPORA") or OWN.parents[2] / "shared" / "corpora")
"""Where the histories of other projects are looked for."""

_NEEDED = ("elle/cases.json", "knossos/cas-register", "porcupine/verdicts.json", "elle-cli/jepsen")

OUTER = OUTER_ASKED if all((OUTER_ASKED / name).exists() for name in _NEEDED) else None

ROOTS = [OWN, *([OUTER] if OUTER else [])]
"""Both have folders of the same names and notations."""
