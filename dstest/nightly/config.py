"""nightly.toml: which cells a night has, how long it may take, how often what failed is run again.

name = "all-systems"
budget_s = 5400                   # no cell begins after so long
workers = 2                       # labs side by side

[[cells]]                         # a matrix: every combination of the lists
system = ["etcd", "zookeeper"]
workload = ["register", "set"]
nemesis = ["partition", "kill"]
except = [{ system = "zookeeper", workload = "set" }]

[[cells]]                         # a control that has to be red
control = "red"
system = "redis-sentinel"
workload = "set"
nemesis = "partition"
anomalies = ["lost"]
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.settings import Shape, line_of, read_settings

Control = Literal["", "red", "green"]
Option = str | int | float | bool
AXES: Final = ("system", "version", "workload", "nemesis")
"""What may be a list of names: each combination is a cell."""

_Names = str | tuple[str, ...]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_SEED_MAX: Final = 2**63 - 1
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400.0)]


class CellRows(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """Cells that have all but the lists in common. `system`, `version` (a build for
    `--system-version`, empty for the distribution's), `workload`, `nemesis` are names or lists of
    names; `except` leaves out combinations that agree with all of a row.

    Without `control` a cell is about the system: it has to pass. A `red` one is known to be wrong
    and has to fail with one of `anomalies`, and besides at most with those in `beside`; with
    `by-fault` a fault has to have landed, too. A `green` one has to pass, so that red means
    something. `short-of` is the one reason for which a cell may be no pass, with nothing against
    it. `seeds` says how many new seeds each night has, `seed` names them instead. `line` is where
    it begins in its file, which does not say so itself.
    """

    system: _Names
    workload: _Names
    nemesis: _Names
    version: _Names = ""
    except_: tuple[dict[str, str], ...] = msgspec.field(default=(), name="except")
    id: str = ""
    control: Control = ""
    anomalies: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    by_fault: bool = True
    short_of: str = ""
    nodes: _Count = 5
    time_limit_s: _Seconds = 30.0
    limit_s: _Seconds | None = None
    stop_on_violation: bool = False
    concurrency: _Count | None = None
    rate: float | None = None
    model: str | None = None
    lab: str | None = None
    checker: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()
    options: dict[str, Option] = {}
    seeds: _Count = 1
    seed: tuple[int, ...] = ()
    line: int = msgspec.field(default=0, name="[line]")


class NightlyConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """`at` is where its workers are (`dstest.fan.where`), `workers` how many of them this machine
    has; `cell_limit_s` how long a cell may take where it does not say so itself, from its lab to
    its verdict. What is not as it must be is run again `reruns` times. A seed that failed is asked
    again in the next nights, until it was as it must be in `passes` of them in a row."""

    name: str
    cells: tuple[CellRows, ...]
    budget_s: _Seconds = 8 * 3600.0
    cell_limit_s: _Seconds = 600.0
    at: str = "local"
    workers: _Count = 1
    reruns: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    passes: _Count = 3


def read_config(path: Path) -> NightlyConfig:
    """Raises ConfigError where it cannot be read, or asks for what makes no sense."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="name a nightly.toml") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no night: {error}", remedy=f"see {_SHAPE.page}") from None
    config = read_settings(str(path), text, NightlyConfig, _SHAPE, _dashed)
    lines = [line_of(text, f"cells[{number}]") for number in range(len(config.cells))]
    cells = tuple(
        msgspec.structs.replace(rows, line=line)
        for rows, line in zip(config.cells, lines, strict=True)
    )
    for rows in cells:
        _require_sense(path, rows)
    if not cells:
        raise ConfigError(f"{path} has no cells", remedy="add [[cells]]")
    return msgspec.structs.replace(config, cells=cells)


_SHAPE: Final = Shape(
    {"": NightlyConfig, "cells": CellRows},
    "docs/nightly.md",
    {"cells.options": 'as a table: options = { fault_s = 10, reads = "serializable" }'},
)


def _dashed(plain: Any) -> Any:
    """Keys may be written with underscores; those of options are the plug-ins' own."""
    if isinstance(plain, list):
        return [_dashed(one) for one in plain]
    if isinstance(plain, dict):
        return {
            key.replace("_", "-"): value if key == "options" else _dashed(value)
            for key, value in plain.items()
        }
    return plain


def _require_sense(path: Path, rows: CellRows) -> None:
    where = f"{path}:{rows.line}: cells"
    if rows.control == "red" and not rows.anomalies:
        raise ConfigError(
            f"{where}: a red control without anomalies: any failure would do",
            remedy='name what it has to find: anomalies = ["lost"]',
        )
    if rows.control != "red" and (rows.anomalies or rows.beside):
        raise ConfigError(
            f"{where}: anomalies of what has to pass", remedy='control = "red", or leave them out'
        )
    if rows.control == "red" and rows.short_of:
        raise ConfigError(f"{where}: a red control has to fail", remedy="leave short-of out")
    if rows.rate is not None and not 0 < rows.rate < math.inf:
        raise ConfigError(f"{where}: a rate of {rows.rate:g}", remedy="a positive number")
    _require_seeds(where, rows.seed)
    for row in rows.except_:
        if strange := row.keys() - {*AXES}:
            raise ConfigError(
                f"{where}: except by {', '.join(sorted(strange))}",
                remedy="system, version, workload or nemesis",
            )


def _require_seeds(where: str, seeds: tuple[int, ...]) -> None:
    """Raises ConfigError for seeds that no run may have, or that are named twice."""
    if strange := [seed for seed in seeds if not 0 <= seed <= _SEED_MAX]:
        raise ConfigError(
            f"{where}: seed {strange[0]}",
            remedy=f"0 to {_SEED_MAX}, or leave seed out for new ones",
        )
    if again := [seed for seed, count in Counter(seeds).items() if count > 1]:
        raise ConfigError(f"{where}: seed {again[0]} stands twice", remedy="name each once")
