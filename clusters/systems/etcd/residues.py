"""What etcd, and what is done to it, may leave on a node."""

from __future__ import annotations

from typing import Final

from clusters.supervise import residues
from clusters.systems.etcd import on_node
from clusters.systems.etcd.clients.stub import CLIENT_PORT
from clusters.systems.etcd.on_node import HOME, OTHER_BINARY, OTHER_HOME, PEER_PORT
from dstest.core.residue import Residue

_FILES: Final = " ".join(
    # A file that was only half written has its later name in its own.
    [*(p for p in on_node.STRAYS if p != on_node.REMOVED), f"{HOME}/*.dstest.*"]
)

FILES: Final = Residue(
    name="etcd's files",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"for path in {_FILES}; do [ ! -e $path ] || echo ours file $path; done",
    remove=f"rm -rf {_FILES}",
    rank=70,
    home=HOME,
)

OTHER_BUILD: Final = Residue(
    name="etcd's other build",
    mark=f"it is in {OTHER_HOME}, where nothing but ours is",
    look=f"[ ! -e {OTHER_BINARY} ] || echo ours file {OTHER_BINARY}",
    remove=f"rm -rf {OTHER_BINARY}",
    rank=70,
    home=OTHER_HOME,
)

REMOVED: Final = Residue(
    name="etcd's membership",
    mark=f"{on_node.REMOVED} names the member",
    look=f"[ ! -e {on_node.REMOVED} ] || echo ours member that was removed and is not back",
    remove=f"rm -f {on_node.REMOVED}",
    rank=70,
    janitor=False,
    home=HOME,
)

RESIDUES: Final = (*residues((CLIENT_PORT, PEER_PORT), HOME), FILES, OTHER_BUILD, REMOVED)
