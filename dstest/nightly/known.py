"""Anomalies that a red control names: none of them mistyped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dstest.core.errors import ConfigError
from dstest.nightly.cells import Cell
from dstest.report.meanings import known, mistyped


def _strange(cells: Iterable[Cell]) -> Iterator[tuple[str, str]]:
    for cell in cells:
        own = any(path.endswith(".py") for path in cell.files)  # and may have names of its own
        for name in (*cell.expected.anomalies, *cell.expected.beside):
            if known(name) is None and not own:
                yield f"{cell.id} (line {cell.line})", name


def require_known(cells: Iterable[Cell]) -> list[str]:
    """What there is to say of anomalies that no checker of ours is known to find. Raises
    ConfigError for a name that is nearly one that is: such a control would never be red."""
    said = []
    for cell, name in _strange(cells):
        if near := mistyped(name):
            raise ConfigError(
                f"{cell}: no checker finds {name!r}", remedy=f"did you mean {' or '.join(near)}?"
            )
        said.append(f"{cell}: no checker that comes with dstest is known to find {name!r}")
    return said
