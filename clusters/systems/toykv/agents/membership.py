"""Who is a member: lists of members as they stand in entries of the log, and their majorities.

A member is `[id, name, address, votes]`. It has a new id each time that its node joins with empty
data, so that it is never taken for one that has promised something. One member joins, leaves or
gets its vote at a time, and only when the change before is committed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Member", "Members", "joined", "majority", "nth_best", "promoted", "removed", "voters"]

Member = list[int | str | bool]
Members = list[Member]


def voters(members: Members) -> list[int]:
    """Their ids."""
    return [int(m[0]) for m in members if m[3]]


def majority(members: Members) -> int:
    """How many of the voters are more than half of them."""
    return len(set(voters(members))) // 2 + 1


def nth_best(values: Mapping[int, float], ids: list[int], count: int) -> float:
    """What at least `count` of these have reached; 0 where they are fewer."""
    reached = sorted((values.get(one, 0) for one in ids), reverse=True)
    return reached[count - 1] if count <= len(reached) else 0


def joined(members: Members, new: Member, bug: str) -> Members:
    """With a member that asks to be one. Who is one already may ask again, from another address."""
    if bug == "membership-double-entry":
        return [*members, new]
    known = [m for m in members if m[0] == new[0]]
    if not known:
        return [*members, new]
    return [[*new[:3], m[3]] if m[0] == new[0] else m for m in members]


def removed(members: Members, member: int) -> Members:
    """Without it."""
    return [m for m in members if m[0] != member]


def promoted(members: Members, member: int) -> Members:
    """It votes."""
    return [[*m[:3], m[3] or m[0] == member] for m in members]
