"""What differs between two versions of an action: its guards, its domains, its update."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from dstest.spec.normal import called, normal, text_of
from dstest.spec.places import File, Place
from dstest.spec.telling import How
from dstest.spec.tightened import may_grow, more_values

Change = tuple[str, How, str, str]
"""Id, how, before, after."""


class _Action(msgspec.Struct, frozen=True):
    """`guards` in their order."""

    domains: dict[str, ast.expr]
    guards: dict[str, ast.expr]
    update: str


def action_changes(before: Place, after: Place, old: File) -> list[Change] | None:
    """None where one of them is no action that can be taken apart."""
    was, is_ = _action(before), _action(after)
    if was is None or is_ is None:
        return None
    found = [*_guards(before.name, was, is_), *_domains(before.name, was, is_, old)]
    if was.update != is_.update:
        found.append((before.name, "model changed", before.text, after.text))
    if not found and list(was.guards) != list(is_.guards):
        orders = ", ".join(was.guards), ", ".join(is_.guards)
        found.append((f"{before.name}: order of guards", "model changed", *orders))
    return found


def _action(place: Place) -> _Action | None:
    node = place.nodes[0]
    if len(place.nodes) != 1 or not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return None
    plain = normal(node)
    assert isinstance(plain, ast.FunctionDef)
    first, *rest = plain.decorator_list
    if not isinstance(first, ast.Call) or called(first) != "action" or first.args:
        return None
    guards: dict[str, ast.expr] = {}
    for one in rest:
        match one:
            case ast.Call(func=ast.Name(id="when"), args=[ast.Constant(value=str(name)), holds]):
                if name in guards or one.keywords:
                    return None
                guards[name] = holds
            case _:
                return None
    domains = {one.arg or "**": one.value for one in first.keywords}
    plain.decorator_list = [first.func]
    return _Action(domains, guards, ast.dump(plain))


def _guards(name: str, was: _Action, is_: _Action) -> Iterator[Change]:
    for guard in dict.fromkeys((*was.guards, *is_.guards)):
        before, after = was.guards.get(guard), is_.guards.get(guard)
        texts = _text(before), _text(after)
        if before is None:
            yield f"{name}.{guard}", "guard added", *texts
        elif after is None or ast.dump(before) != ast.dump(after):
            yield f"{name}.{guard}", "model changed", *texts


def _domains(name: str, was: _Action, is_: _Action, old: File) -> Iterator[Change]:
    for one in dict.fromkeys((*was.domains, *is_.domains)):
        before, after = was.domains.get(one), is_.domains.get(one)
        if before is not None and after is not None:
            if ast.dump(before) == ast.dump(after):
                continue
            if one != "weight" and more_values(before, after) and may_grow(old):
                continue
        yield f"{name}({one})", "model changed", _text(before), _text(after)


def _text(node: ast.expr | None) -> str:
    return "" if node is None else text_of(node)
