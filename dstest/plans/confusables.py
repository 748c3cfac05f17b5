"""Nine classes of identifiers that are taken for each other (discipline 9.3)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

CONFUSABLES: Final = MappingProxyType(
    {
        "same name": "`orders` of tenant 1, `orders` of tenant 2",
        "prefix": "`t1`, `t10`",
        "case": "`Tenant`, `tenant`",
        "separator": "`a/b`, `a%2Fb`",
        "trailing": "`t1`, `t1 ` (a space), `t1\\u0000`",
        "recycled": "an id that was deleted and is given again",
        "off by one": "the last key of a range, and the one behind it",
        "overflow": "2^63 - 1, -2^63",
        "unicode": "`é` as one character and as two",
    }
)
"""A word that names the class -> examples."""
