"""How nodes are reached: asyncssh connections with one agent each.

    nodes = await connect_all(lab)
    done = await nodes["n1"].run(["nft", "list", "ruleset"])
    await nodes["n1"].arm_lease("f1", [["nft", "delete", "table", "inet", "dstest"]], ttl_s=10)

`agent_*.py` run on the nodes, everything else on the control host. Names are loaded on first use:
a node's Python has the standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusters.remote.connection import RemoteNode, connect, connect_all

__all__ = ["RemoteNode", "connect", "connect_all"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clusters.remote import connection

    return getattr(connection, name)
