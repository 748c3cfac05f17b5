"""What a system's servers can be asked about themselves while a run goes on (`dstest monitor`)."""

from __future__ import annotations

from typing import Literal

import msgspec


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One number of an answer. `at` is its place: of JSON a path of keys, as `ok.term`, of a page
    of text the name of a metric, whose series are added up.

    `gauge` is the number itself, `less` that at `at` without that at `over`; `rate` is by how much
    it grew per second, `mean` by how much it grew per one that `over` grew. All times `scale`.
    """

    name: str
    unit: str
    at: str
    over: str = ""
    kind: Literal["gauge", "less", "rate", "mean"] = "gauge"
    scale: float = 1.0


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """A question that each member is asked by its own node, at the node's address and this port:
    without its peers' help, without authentication, and so cheap that it changes nothing.

    `json`: the answer is one line; `text`: a page, until the server closes.
    """

    port: int
    send: str
    form: Literal["json", "text"]
    readings: tuple[Reading, ...]
    every_s: float = 1.0
