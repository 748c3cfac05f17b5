"""What the file of a system answers, looked at where it is first taken.

Whoever writes a system is told which method answered what, not where that was noticed much later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.plain import odd_in
from dstest.core.protocols import (
    Deployment,
    LeaderView,
    Process,
)


def refused(deployment: object, method: str, found: str, expected: str) -> ConfigError:
    """`Toy.links() answers ..`: for whoever has written the class of the deployment."""
    name = type(deployment).__name__
    return ConfigError(
        f"{name}.{method} answers {found}; expected: {expected}",
        remedy=f"correct {method} of {name}",
    )


def wrong_type(value: Any, kind: type[msgspec.Struct]) -> str:
    """What is wrong with a value that ought to be such a struct, in all its fields; empty: nothing.

    Whoever makes a struct may put anything into it.
    """
    if not isinstance(value, kind):
        return f"{_shown(value)}, which is no {kind.__name__}"
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        msgspec.convert(plain, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, TypeError) as error:
        return f"a {kind.__name__} in which {error}: {_shown(value)}"
    return ""


def rows_of(deployment: object, method: str, answer: Any, kind: type[msgspec.Struct]) -> list[Any]:
    """The answer, as a list of such structs. Raises ConfigError where it is none."""
    expected = f"a list of {kind.__name__}"
    if not isinstance(answer, list | tuple):
        raise refused(deployment, method, _shown(answer), expected)
    for row in answer:
        if wrong := wrong_type(row, kind):
            raise refused(deployment, method, wrong, expected)
    return list(answer)


def check_leaders(deployment: Deployment, views: Any) -> list[LeaderView]:
    """What `leaders` has answered. Raises ConfigError where it is not what it is to be."""
    known = ", ".join(deployment.members)
    rows: list[LeaderView] = rows_of(deployment, "leaders()", views, LeaderView)
    for view in rows:
        if view.member not in deployment.members:
            expected = f"a member: {known}"
            raise refused(deployment, "leaders()", f"a view of {view.member!r}", expected)
        if view.leader is not None and view.leader not in deployment.members:
            found = f"that {view.member} takes {view.leader!r} for the leader"
            raise refused(deployment, "leaders()", found, f"a member or None: {known}")
    return rows


def check_links(deployment: Deployment, links: Any) -> list[tuple[str, str]] | None:
    """What `links` has answered. Raises ConfigError where it is not what it is to be."""
    if links is None:
        return None
    expected = f"None, or a list of pairs of members: {', '.join(deployment.members)}"
    if not isinstance(links, list | tuple):
        raise refused(deployment, "links()", _shown(links), expected)
    for link in links:
        if not _is_pair(link, deployment.members):
            raise refused(deployment, "links()", _shown(link), expected)
    return list(links)


def check_health(deployment: Deployment, answer: Any) -> dict[str, bool]:
    """What `healthy` has answered. Raises ConfigError where it is not what it is to be."""
    expected = f"True or False by member: {', '.join(deployment.members)}"
    found: dict[str, bool] = _of_kind(deployment, "healthy()", answer, dict[str, bool], expected)
    if any(name not in deployment.members for name in found):
        raise refused(deployment, "healthy()", _shown(answer), expected)
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
        raise refused(deployment, "processes()", _shown(answer), "a list of Process by member")
    return {
        name: rows_of(deployment, "processes()", rows, Process) for name, rows in answer.items()
    }


def check_record(nemesis: object, step: str, answer: Any) -> LandingRecord:
    """What a step of a nemesis has answered. Raises ConfigError where it is no landing record."""
    if wrong := wrong_type(answer, LandingRecord):
        raise refused(nemesis, f"{step}()", wrong, "a LandingRecord")
    record: LandingRecord = answer
    return record


def _of_kind(deployment: object, method: str, answer: Any, kind: Any, expected: str) -> Any:
    """The answer, as a value of this type that can be kept."""
    try:
        found = msgspec.convert(answer, kind)
    except msgspec.ValidationError:
        raise refused(deployment, method, _shown(answer), expected) from None
    if odd_in(found):
        raise refused(deployment, method, _shown(answer), expected)
    return found


def _is_pair(link: Any, members: Collection[str]) -> bool:
    if not isinstance(link, tuple) or len(link) != 2 or link[0] == link[1]:
        return False
    return all(isinstance(name, str) and name in members for name in link)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}.."
