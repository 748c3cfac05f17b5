"""What a nemesis asks of a deployment, read from its code: the calls of `ctx.need`, and all uses of
`ctx.deployment`, in every function that its methods may come to."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

import nemeses
from dstest.core import registry
from dstest.core.implements import members_of
from dstest.core.protocols import Deployment, Leadership, When

pytestmark = pytest.mark.slow

ALL = registry.names("nemeses")


def _inside(module: ModuleType | None) -> bool:
    return module is not None and module.__name__.split(".")[0] == "nemeses"


@functools.cache
def _tree(function: FunctionType) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    """What a name, or an attribute of a module, stands for; None where that is not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        module = _value(node.value, names)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return None


def _method(kind: type, name: str, after: type | None = None) -> tuple[type, FunctionType] | None:
    """The method that a call on `self`, or of `super()` in class `after`, comes to."""
    order = list(kind.__mro__)
    for base in order[order.index(after) + 1 if after else 0 :]:
        found = vars(base).get(name)
        if isinstance(found, FunctionType):
            return base, found
    return None


def _called(
    kind: type, owner: type | None, function: FunctionType
) -> Iterator[tuple[type | None, FunctionType]]:
    for node in ast.walk(_tree(function)):
        found = _value(node, function.__globals__)
        if isinstance(found, FunctionType) and _inside(inspect.getmodule(found)):
            yield None, found
        if isinstance(found, type) and _inside(inspect.getmodule(found)):
            yield from ((found, f) for f in vars(found).values() if isinstance(f, FunctionType))
        if not isinstance(node, ast.Attribute) or owner is None:
            continue
        above = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if (above or own) and (method := _method(kind, node.attr, owner if above else None)):
            yield method


def _reached(kind: type) -> list[FunctionType]:
    """All functions of ours that the methods of a nemesis may come to."""
    calls = ("plan", "setup", "inject", "recheck", "heal", "teardown", "audit", "prepare")
    todo: list[tuple[type | None, FunctionType]] = [
        method for name in (*calls, "withdraw") if (method := _method(kind, name))
    ]
    seen: dict[tuple[type | None, FunctionType], None] = {}
    while todo:
        one = todo.pop()
        if one not in seen:
            seen[one] = None
            todo += _called(kind, *one)
    return [function for _, function in seen]


def _asked(function: FunctionType) -> Iterator[type | str]:
    """Capabilities that it needs, and `deployment.x` for what it takes from a deployment."""
    for node in ast.walk(_tree(function)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "need":
            yield _value(node.args[0], function.__globals__)
        if isinstance(node, ast.Attribute) and getattr(node.value, "attr", "") == "deployment":
            yield f"deployment.{node.attr}"


def declared(nemesis: Any) -> list[type]:
    whens: tuple[When, ...] = getattr(nemesis, "requires_when", ())
    return [*nemesis.requires, *(c for when in whens for c in when.requires)]


def names_of(capabilities: list[type]) -> set[str]:
    return {name for kind in capabilities for name in members_of(kind)}


@pytest.mark.parametrize("name", ALL)
def test_a_nemesis_asks_for_what_it_declares(name: str) -> None:
    nemesis = registry.load("nemeses", name)
    asked = {one for f in _reached(type(nemesis)) for one in _asked(f)}
    plain = {f"deployment.{name}" for name in members_of(Deployment)}
    assert {text for text in asked if isinstance(text, str)} <= plain
    needed = [kind for kind in asked if isinstance(kind, type)]
    assert names_of(needed) <= names_of(declared(nemesis)), "needed and not declared"
    optional = {Leadership}  # found out with `offered`: a fault without a leader does without
    surplus = [
        kind
        for kind in declared(nemesis)
        if kind not in optional and not set(members_of(kind)) & names_of(needed)
    ]
    assert not surplus, "declared and not needed"


def _names(functions: list[FunctionType]) -> set[str]:
    return {k.__name__ for f in functions for k in _asked(f) if isinstance(k, type)}


def test_the_reading_of_the_code_finds_what_is_there() -> None:
    kill = _reached(type(registry.load("nemeses", "kill")))
    assert {"prove", "gather", "audit"} <= {f.__name__ for f in kill}
    assert {"Processes", "Kill", "Restartable"} <= _names(kill)
    clock = _names(_reached(type(registry.load("nemeses", "clock"))))
    assert {"MonotonicTimer", "Clocked"} <= clock
    assert "Kill" not in clock
    assert "Processes" in clock


MODULES = sorted(m.name for m in pkgutil.walk_packages(nemeses.__path__, "nemeses."))


@pytest.mark.parametrize("module", MODULES)
def test_no_nemesis_feels_for_methods(module: str) -> None:
    """`hasattr` and `getattr` on a deployment would ask for what no capability names."""
    source = inspect.getsource(importlib.import_module(module))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
            assert "deployment" not in ast.unparse(node)
