"""Options are asked for by one name each: what is said to fit can be run together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clusters.supervise import SupervisedSystem
from clusters.supervise.system import MEMBERS
from dstest.cli.listing import matrix, shared_option
from dstest.core.protocols import Option


def test_no_two_built_in_parts_share_an_option() -> None:
    both = {row["reason"] for row in matrix() if "both have an option" in (row["reason"] or "")}
    assert both == set()


def test_who_shares_an_option_is_said() -> None:
    def part(name: str, *options: str) -> Any:
        return SimpleNamespace(name=name, options=dict.fromkeys(options))

    assert shared_option(part("a", "x"), part("b", "y"), part("c")) is None
    said = shared_option(part("a", "x"), part("b", "y"), part("c", "z", "x"))
    assert said == "a and c both have an option x"
    assert shared_option(part("a", "workers")) == "every run and a both have an option workers"


class _Some(SupervisedSystem):
    name = "some"
    options = MEMBERS


class _Own(SupervisedSystem):
    name = "own"
    options = {"members": Option(type=str, default="voters", help="who votes")}


def test_members_are_the_first_ones_where_the_option_is_ours() -> None:
    assert _Some().members(["n1", "n2", "n3"], {"members": 2}) == ["n1", "n2"]
    assert _Some().members(["n1", "n2", "n3"], {"members": 0}) == ["n1", "n2", "n3"]
    assert _Own().members(["n1", "n2"], {"members": "voters"}) == ["n1", "n2"]
