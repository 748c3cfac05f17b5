"""The option `members`: a system that runs on some of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core import limits
from dstest.core.errors import ConfigError
from dstest.core.protocols import Option

MEMBERS: Final[Mapping[str, Option]] = {
    "members": Option(
        type=int,
        default=0,
        least=0,
        most=limits.NODES_MAX,
        help="how many nodes carry a member, the first ones; 0 = all of the lab",
    )
}


def first_members(nodes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The first nodes, as many as `-o members` says. Raises ConfigError where there are fewer."""
    wanted = options["members"] or len(nodes)
    if wanted > len(nodes):
        raise ConfigError(
            f"-o members={wanted}: there are {len(nodes)} nodes", remedy=f"--nodes {wanted}"
        )
    return list(nodes[:wanted])
