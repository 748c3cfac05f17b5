"""Author mode: the skeletons of a plan as files where it wants them.

Only targets that the plan declares are written, and never over a file that is there: beside it a
file with `.new` at its end, or nothing. Each says which plan, scenario and content of the plan it
comes from. Python is compiled before it is written. Nothing is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.history.layout import write_file
from dstest.plans.lint import lint
from dstest.plans.model import Plan, Scenario, plain

MODE: Final = "DSTEST_AUTHOR_MODE"
"""The environment variable without which nothing is written."""

_PLACE: Final = "sha256 of the plan: written here with the file"
What = Literal["written", "beside", "skipped"]


class SkeletonFile(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a scenario's skeleton, and where."""

    scenario: str
    path: Path
    what: What
    why: str = ""


def author(plan: Plan, root: Path, *, beside: bool) -> list[SkeletonFile]:
    """Write the skeletons below `root`; with `beside` a new file stands beside one that is there.

    Raises ConfigError where author mode is not asked for, where a skeleton or its target breaks
    L26, or is not Python that compiles: then nothing is written.
    """
    if os.environ.get(MODE) != "1":
        raise ConfigError(
            "author mode is off: no file of yours is written unasked", remedy=f"{MODE}=1"
        )
    broken = [finding for finding in lint(plan) if finding.rule == "L26"]
    if broken:
        raise ConfigError(
            f"{plan.path}:{broken[0].line}: L26: {broken[0].what}", remedy=broken[0].remedy
        )
    texts = [(scenario, _target(scenario, root), _text(plan, scenario)) for scenario in _of(plan)]
    for scenario, path, text in texts:
        _require_python(scenario, path, text)
    return [_write(scenario, path, text, beside) for scenario, path, text in texts]


def _of(plan: Plan) -> list[Scenario]:
    return [one for one in plan.scenarios if one.skeleton and one.field("target test file")]


def _target(scenario: Scenario, root: Path) -> Path:
    named = Path(plain(scenario.field("target test file")))
    path = (root / named).resolve()
    if named.is_absolute() or not path.is_relative_to(root.resolve()):
        raise ConfigError(
            f"{scenario.id}: {named} lies outside {root}", remedy="a path below the repository"
        )
    return path


def _text(plan: Plan, scenario: Scenario) -> str:
    assert scenario.skeleton is not None
    text = scenario.skeleton.text.replace(_PLACE, f"sha256 of the plan: {plan.sha256}")
    if plan.sha256 in text:
        return text
    first, _, rest = text.partition("\n")
    return f"{first}\n# sha256 of the plan: {plan.sha256}\n{rest}"


def _require_python(scenario: Scenario, path: Path, text: str) -> None:
    if path.suffix != ".py":
        return
    try:
        compile(text, str(path), "exec")
    except SyntaxError as error:
        raise ConfigError(
            f"{scenario.id}: its skeleton is no Python: line {error.lineno}: {error.msg}",
            remedy="correct it in the plan",
        ) from None


def _write(scenario: Scenario, path: Path, text: str, beside: bool) -> SkeletonFile:
    what: What = "written"
    if path.exists():
        if not beside:
            return SkeletonFile(
                scenario=scenario.id, path=path, what="skipped", why="a file is there already"
            )
        path, what = path.with_name(path.name + ".new"), "beside"
        if path.exists():
            return SkeletonFile(
                scenario=scenario.id, path=path, what="skipped", why="it is there already, too"
            )
    write_file(path.parent, path.name, text.encode())
    return SkeletonFile(scenario=scenario.id, path=path, what=what)
