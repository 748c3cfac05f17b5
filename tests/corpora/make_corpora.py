"""Writes the histories beside this file, called by `make corpora`.

The same files come out byte for byte, whoever runs it; tests/corpus/test_own_corpora.py holds that.
"""

from __future__ import annotations

import shutil
from itertools import chain

import made_jepsen
import made_objects
import made_txns
from places import OWN as HERE

__all__ = ["FOLDERS", "made"]

FOLDERS = ("elle", "jepsen", "knossos", "ours", "porcupine")


def made() -> dict[str, bytes]:
    """Every file by its path below this folder."""
    makers = (made_objects.files(), made_jepsen.files(), made_txns.files())
    return {path: text.encode() for path, text in chain(*makers)}


if __name__ == "__main__":
    for folder in FOLDERS:
        shutil.rmtree(HERE / folder, ignore_errors=True)
    for path, raw in made().items():
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / path).write_bytes(raw)
