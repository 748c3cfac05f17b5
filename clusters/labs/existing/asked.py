"""Programs of ours that run on a machine as root and answer with one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar

import asyncssh
import msgspec

from clusters.remote.bundle import argv_of
from clusters.remote.root_command import run_as_root
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

T = TypeVar("T")


async def ask(
    connection: asyncssh.SSHClientConnection,
    info: NodeInfo,
    words: tuple[ModuleType, str],
    request: Mapping[str, Any],
    decoder: msgspec.json.Decoder[T],
    timeout_s: float,
) -> T:
    """What a program says there, by its module and its mode. Raises LabError for no answer, or one
    that is none."""
    module, mode = words
    text = await run_as_root(
        connection,
        info,
        [*argv_of(module), mode],
        stdin=msgspec.json.encode(request),
        timeout_s=timeout_s,
    )
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LabError(
            f"{info.name}: what it says of itself makes no sense: {error}",
            remedy="a shell there that prints something of its own does that: `ssh HOST true` must"
            " print nothing",
        ) from None
