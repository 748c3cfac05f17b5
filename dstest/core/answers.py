"""What the methods of a deployment answer, held to what they ought to, and awaited no longer than
that.

Whoever writes a system is told at once which method answered what, and not where it shows much
later. The limits follow from the deployment's `Timing`, which is how long healthy members take at
most; they leave what has limits of its own the time to say more.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final, TypeVar

import msgspec

from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import LandingRecord
from dstest.core.implements import wrong_type
from dstest.core.processes import quit_by
from dstest.core.protocols import Deployment, LeaderView, Process, Timing
from dstest.core.recordable import not_json


def answer_error(deployment: object, method: str, found: str, expected: str) -> ConfigError:
    """`Toy.links() answers ..`: for whoever has written the class of the deployment."""
    name = type(deployment).__name__
    return ConfigError(
        f"{name}.{method} answers {found}; expected: {expected}",
        remedy=f"correct {method} of {name}",
    )


def rows_of(deployment: object, method: str, answer: Any, kind: type[msgspec.Struct]) -> list[Any]:
    """The answer, as a list of such structs. Raises ConfigError where it is none."""
    expected = f"a list of {kind.__name__}"
    if not isinstance(answer, list | tuple):
        raise answer_error(deployment, method, _show(answer), expected)
    for row in answer:
        if wrong := wrong_type(row, kind):
            raise answer_error(deployment, method, wrong, expected)
    return list(answer)


def check_leaders(deployment: Deployment, views: Any) -> list[LeaderView]:
    """What `leaders` has answered. Raises ConfigError where it is not what it is to be."""
    known = ", ".join(deployment.members)
    rows: list[LeaderView] = rows_of(deployment, "leaders()", views, LeaderView)
    for view in rows:
        if view.member not in deployment.members:
            expected = f"a member: {known}"
            raise answer_error(deployment, "leaders()", f"a view of {view.member!r}", expected)
        if view.leader is not None and view.leader not in deployment.members:
            found = f"that {view.member} takes {view.leader!r} for the leader"
            raise answer_error(deployment, "leaders()", found, f"a member or None: {known}")
    return rows


def check_links(deployment: Deployment, links: Any) -> list[tuple[str, str]] | None:
    """What `links` has answered. Raises ConfigError where it is not what it is to be."""
    if links is None:
        return None
    expected = f"None, or a list of pairs of members: {', '.join(deployment.members)}"
    if not isinstance(links, list | tuple):
        raise answer_error(deployment, "links()", _show(links), expected)
    for link in links:
        if not _is_pair(link, deployment.members):
            raise answer_error(deployment, "links()", _show(link), expected)
    return list(links)


def check_health(deployment: Deployment, answer: Any) -> dict[str, bool]:
    """What `healthy` has answered. Raises ConfigError where it is not what it is to be."""
    expected = f"True or False by member: {', '.join(deployment.members)}"
    found: dict[str, bool] = _of_kind(deployment, "healthy()", answer, dict[str, bool], expected)
    if any(name not in deployment.members for name in found):
        raise answer_error(deployment, "healthy()", _show(answer), expected)
    return found


def check_version(deployment: object, answer: Any) -> str:
    """What `version` has answered. Raises ConfigError where it is no text."""
    found: str = _of_kind(deployment, "version()", answer, str, "a text")
    return found


def check_names(deployment: object, answer: Any) -> list[str]:
    """What `member_names` has answered. Raises ConfigError where it is no list of names."""
    expected = "a list of names"
    found: list[str] = _of_kind(deployment, "member_names()", answer, list[str], expected)
    return found


def check_states(deployment: object, answer: Any) -> dict[str, str | None]:
    """What `replica_states` has answered. Raises ConfigError where it is not what it is to be."""
    kind, expected = dict[str, str | None], "a text, or None, by member"
    found: dict[str, str | None] = _of_kind(deployment, "replica_states()", answer, kind, expected)
    return found


def check_log_files(deployment: object, answer: Any) -> dict[str, list[str]]:
    """What `log_files` has answered. Raises ConfigError where it is not what it is to be."""
    kind, expected = dict[str, list[str]], "a list of paths by member"
    found: dict[str, list[str]] = _of_kind(deployment, "log_files()", answer, kind, expected)
    return found


def check_processes(deployment: object, answer: Any) -> dict[str, list[Process]]:
    """What `processes` has answered. Raises ConfigError where it is not what it is to be."""
    if not isinstance(answer, Mapping):
        raise answer_error(deployment, "processes()", _show(answer), "a list of Process by member")
    return {
        name: rows_of(deployment, "processes()", rows, Process) for name, rows in answer.items()
    }


def check_record(nemesis: object, step: str, answer: Any, fault_id: str) -> LandingRecord:
    """What a step of a nemesis has answered. Raises ConfigError where it is no landing record of
    that fault."""
    if wrong := wrong_type(answer, LandingRecord):
        raise answer_error(nemesis, f"{step}()", wrong, "a LandingRecord")
    record: LandingRecord = answer
    if record.fault_id != fault_id:
        said = f"a record of {record.fault_id!r}"
        raise answer_error(nemesis, f"{step}()", said, f"one of {fault_id!r}, which it was given")
    return record


def _of_kind(deployment: object, method: str, answer: Any, kind: Any, expected: str) -> Any:
    """The answer, as a value of this type that can be kept."""
    try:
        found = msgspec.convert(answer, kind)
    except msgspec.ValidationError:
        raise answer_error(deployment, method, _show(answer), expected) from None
    if not_json(found):
        raise answer_error(deployment, method, _show(answer), expected)
    return found


def _is_pair(link: Any, members: Collection[str]) -> bool:
    if not isinstance(link, tuple) or len(link) != 2 or link[0] == link[1]:
        return False
    return all(isinstance(name, str) and name in members for name in link)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}.."


T = TypeVar("T")

ASK_S: Final = 10.0
WORK_S: Final = 120.0
GRACE_S: Final = 2.0
"""For what a call that is given up has to tidy away."""


def ask_s(timing: Timing) -> float:
    """For a question to members that run."""
    return ASK_S + timing.start_s


def end_s(timing: Timing) -> float:
    """To stop all members."""
    return ASK_S + timing.stop_s


def work_s(timing: Timing) -> float:
    """To install or start the system on all nodes."""
    return WORK_S + 5 * timing.start_s


async def _ended_by_us(answer: Awaitable[T]) -> T:
    """asyncio lets SystemExit of any task end the whole loop, clean-up and all."""
    try:
        return await answer
    except SystemExit as end:
        raise quit_by(end) from end


async def in_time(deployment: object, method: str, answer: Awaitable[T], limit_s: float) -> T:
    """What a method of the deployment answers. Raises LabError where it does not come back in time,
    ConfigError where there is nothing to wait for."""
    if not inspect.isawaitable(answer):
        raise answer_error(deployment, f"{method}()", repr(answer)[:200], f"`async def {method}`")
    task = asyncio.ensure_future(_ended_by_us(answer))
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    name = type(deployment).__name__
    raise LabError(
        f"{name}.{method}() did not come back in {limit_s:g} s",
        remedy=f"let each request in {method} of {name} end in time, or give its `timing` more",
    )
