"""nightly.toml and its cells: a run of a night as a command, and what it has to come to.

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

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from dstest.campaign.fit import fit_of, planned_faults
from dstest.campaign.launch import Arm, Budget, Run, argv_of
from dstest.campaign.workers.commands import image_words
from dstest.core import registry
from dstest.core.builds import name_of
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
_ID_MAX: Final = 60
_SAID: Final = 10


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
    """`at` is where its workers are (`workers.pool`), `workers` how many of them this machine
    has; `cell_limit_s` how long a cell may take where it does not say so itself, from its lab to
    its verdict. What is not as it must be is run again `reruns` times. A seed that failed is asked
    again in the next nights, until it was as it must be in `passes` of them in a row. With
    `night_seed` each night draws the same seeds; without it each draws others."""

    name: str
    cells: tuple[CellRows, ...]
    budget_s: _Seconds = 8 * 3600.0
    cell_limit_s: _Seconds = 600.0
    at: str = "local"
    workers: _Count = 1
    reruns: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    passes: _Count = 3
    night_seed: Annotated[int, msgspec.Meta(ge=0, le=_SEED_MAX)] | None = None


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


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell has to come to; see `CellRows`."""

    control: Control = ""
    anomalies: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    by_fault: bool = True
    short_of: str = ""

    @property
    def red(self) -> bool:
        return self.control == "red"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One command without its seed. `argv` are the words behind `dstest`; `image` those that make
    what its lab begins from; `files` those among them that name files, which go to the worker;
    `key` is the same for the same command of any night, with files as the night names them;
    `content` for the same command with files of the same content; `named` is its id as its file
    has it; `stops`: it ends at the first violation.
    """

    id: str
    key: str
    content: str
    system: str
    version: str
    workload: str
    nemesis: str
    argv: tuple[str, ...]
    image: tuple[str, ...]
    files: tuple[str, ...] = ()
    expected: Expectation
    limit_s: float
    seeds: int = 1
    seed: tuple[int, ...] = ()
    line: int = 0
    named: str = ""
    stops: bool = False
    run: Run
    budget: Budget


def _require_red(cells: list[Cell]) -> None:
    if not any(cell.expected.red for cell in cells):
        raise ConfigError(
            "no cell has to fail: such a night is green where nothing can be found",
            remedy='add a control = "red", such as one of docs/toykv.md or `dstest findings`',
        )


def cells_of(config: NightlyConfig, folder: Path) -> list[Cell]:
    """Every cell, in the order of the file. Paths are seen from `folder`. Raises ConfigError where
    two cells are the same, an `except` leaves out nothing, or no control is red."""
    cells = [cell for rows in config.cells for cell in _cells_of_rows(rows, config, folder)]
    _require_red(cells)
    for content, count in Counter(cell.content for cell in cells).items():
        if count > 1:
            same = next(cell for cell in cells if cell.content == content)
            raise ConfigError(
                f"{count} cells are the same: dstest {' '.join(same.argv)}",
                remedy="leave one, and give it more seeds",
            )
    return _numbered(cells)


def require_fitting(cells: list[Cell]) -> None:
    """Raises ConfigError for the cells that `dstest run` would refuse, before any of them runs."""
    wrong = {cell.id: error for cell in cells if (error := _refusal(cell)) is not None}
    if not wrong:
        return
    refused = [cell for cell in cells if cell.id in wrong]
    for cell in refused:
        _require_named(cell)
    good = {cell.line for cell in cells if cell.id not in wrong}
    said = [f"{one.id} (line {one.line}): {wrong[one.id].message}" for one in refused]
    remedies = [error.remedy for error in wrong.values() if error.remedy]
    if left := [_excepted(one) for one in refused if one.line in good]:
        # others of its block can be run: it may be the combination
        remedies.append(f"or leave out what does not fit: except = [{', '.join(left[:_SAID])}]")
    raise ConfigError(
        "cells that cannot be run: " + "; ".join(said[:_SAID]),
        remedy="; ".join([*dict.fromkeys(remedies)][-_SAID:]),
    )


def _refusal(cell: Cell) -> ConfigError | None:
    arm = Arm(name="")
    fit = fit_of(cell.run, arm)
    if fit.problem:
        return ConfigError(fit.problem, remedy=fit.remedy)
    try:
        planned_faults(cell.run, arm, cell.budget, cell.budget.nodes[0], stops=cell.stops)
    except ConfigError as error:
        return error
    return None


def _excepted(cell: Cell) -> str:
    """The row of `except` that leaves out this cell."""
    words = {axis: word for axis in AXES if (word := getattr(cell, axis))}
    return (
        f"{{ {', '.join(f'{axis} = {chr(34)}{word}{chr(34)}' for axis, word in words.items())} }}"
    )


def _require_named(cell: Cell) -> None:
    """Raises ConfigError for a name that no plug-in has, with those that are near."""
    if any(path.endswith(".py") for path in cell.files):
        return
    named = {
        "systems": cell.run.system,
        "workloads": cell.run.workload,
        "nemeses": cell.run.nemesis,
    }
    for group, words in named.items():
        known = registry.names(group)
        for word in filter(None, words.split(",")):
            if word in known or word.endswith(".py"):
                continue
            near = get_close_matches(word, known, n=3)
            raise ConfigError(
                f"cells that cannot be run: {cell.id} (line {cell.line}): there is no {word!r} "
                f"among the {group}",
                remedy=f"did you mean {' or '.join(near)}?" if near else "`dstest list` has them",
            )


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _cells_of_rows(rows: CellRows, config: NightlyConfig, folder: Path) -> list[Cell]:
    try:
        return list(_of(rows, config, folder))
    except ConfigError as error:
        said = f"cells of line {rows.line}: {error.message}"
        raise ConfigError(said, remedy=error.remedy) from None


def _of(rows: CellRows, config: NightlyConfig, folder: Path) -> Iterator[Cell]:
    left_out: Counter[int] = Counter()
    axes = {axis: _listed(getattr(rows, axis)) for axis in AXES}
    if empty := next((axis for axis, names in axes.items() if not names), ""):
        raise ConfigError(f"{empty} = []: it makes no cell", remedy="name one at least")
    made = 0
    for words in itertools.product(*axes.values()):
        point = dict(zip(axes, words, strict=True))
        hits = [at for at, row in enumerate(rows.except_) if row.items() <= point.items()]
        left_out.update(hits)
        if not hits:
            made += 1
            yield _cell(rows, config, folder, point)
    if vain := [row for at, row in enumerate(rows.except_) if not left_out[at]]:
        raise ConfigError(f"except = {vain[0]}: leaves out nothing", remedy="take it away")
    if not made:
        raise ConfigError(
            "except leaves out every combination: it makes no cell",
            remedy="take the block away, or leave out less",
        )


def _cell(rows: CellRows, config: NightlyConfig, folder: Path, point: dict[str, str]) -> Cell:
    own = [point[axis] for axis in ("system", "workload") if point[axis].endswith(".py")]
    files = [*own, *rows.plugin, *(name for name in rows.checker if name.endswith(".py"))]
    files += [part for part in point["nemesis"].split(",") if part.endswith(".py")]
    versions = [point["version"]] if point["version"] else []
    files += versions
    placed = {name: str((folder / name).resolve()) for name in files}
    run = Run(
        system=placed.get(point["system"], point["system"]),
        workload=placed.get(point["workload"], point["workload"]),
        nemesis=",".join(placed.get(part, part) for part in point["nemesis"].split(",")),
        checker=tuple(placed.get(name, name) for name in rows.checker),
        model=rows.model,
        lab=rows.lab,
        concurrency=rows.concurrency,
        rate=rows.rate,
        plugin=tuple(placed[name] for name in rows.plugin),
        system_version=tuple(placed[version] for version in versions),
        options=rows.options,
    )
    budget = Budget(nodes=(rows.nodes,), duration_s=rows.time_limit_s, faults=0, seeds=1)
    words = argv_of(run, Arm(name=""), "smoke", budget, stop_on_violation=rows.stop_on_violation)
    names = {path: name for name, path in placed.items()}
    contents = {
        path: _content(Path(path), is_build=name in versions) for path, name in names.items()
    }
    return Cell(
        id=rows.id or "-".join(Path(part).stem for part in point.values() if part),
        key=_digest(words, names, rows.control),
        content=_digest(words, contents, rows.control),
        argv=tuple(words),
        image=tuple(image_words(run.lab, run.system, run.system_version, run.plugin)),
        files=tuple(dict.fromkeys(placed.values())),
        expected=Expectation(
            control=rows.control,
            anomalies=rows.anomalies,
            beside=rows.beside,
            by_fault=rows.by_fault,
            short_of=rows.short_of,
        ),
        limit_s=rows.limit_s or config.cell_limit_s,
        seeds=rows.seeds,
        seed=rows.seed,
        line=rows.line,
        named=rows.id,
        stops=rows.stop_on_violation,
        run=run,
        budget=budget,
        **point,
    )


def _digest(words: Sequence[str], files: Mapping[str, str], control: str) -> str:
    """Of a command, with other words for its files."""
    told = [",".join(files.get(part, part) for part in word.split(",")) for word in words]
    return hashlib.sha256("\0".join([*told, control]).encode()).hexdigest()[:16]


def _content(path: Path, *, is_build: bool) -> str:
    """What is in a file or a build. Raises ConfigError where it cannot be read, or is no build."""
    if is_build:
        return name_of(_there(path)).rpartition("@")[2]
    try:
        return hashlib.sha256(_there(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="name a file, FILE.py") from None


def _there(path: Path) -> Path:
    if path.exists():
        return path
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, n=1)
    raise ConfigError(
        f"there is no {path}",
        remedy=f"did you mean {near[0]}?" if near else "paths are seen from the file of the night",
    )


def word_of(id_: str) -> str:
    """As it is part of a path, the same on any machine."""
    return re.sub(r"[^a-z0-9]+", "-", id_.lower()).strip("-")[:_ID_MAX]


def _numbered(cells: list[Cell]) -> list[Cell]:
    """With ids that are words for paths, and each but once."""
    taken: set[str] = set()
    numbered = []
    for cell in cells:
        word = word_of(cell.id)
        ways = itertools.chain([word], (f"{word}-{n}" for n in itertools.count(2)))
        own = next(way for way in ways if way not in taken)
        taken.add(own)
        numbered.append(msgspec.structs.replace(cell, id=own))
    return numbered
