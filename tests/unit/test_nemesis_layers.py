"""House rules of the nemeses: one driver, whose public steps nobody wraps in layers."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from types import FunctionType

import nemeses
from dstest.extend import nemesis
from nemeses.base.driver import Driver

MODULES = sorted(m.name for m in pkgutil.walk_packages(nemeses.__path__, "nemeses."))


def _kinds() -> list[type]:
    modules = [importlib.import_module(name) for name in MODULES]
    found = {
        kind
        for module in (*modules, nemesis)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


KINDS = _kinds()
COURSE = ("setup", "inject", "recheck", "heal", "teardown")


def methods(kind: type) -> dict[str, FunctionType]:
    return {name: f for name, f in vars(kind).items() if isinstance(f, FunctionType)}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def overridden_private(kind: type) -> list[str]:
    """Private methods of a base that the class defines anew."""
    above = {name for base in kind.__mro__[1:] for name in vars(base)}
    return [name for name in methods(kind) if is_private(name) and name in above]


def calls_super(function: FunctionType) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"
        for node in ast.walk(tree)
    )


def layers(kind: type, name: str) -> int:
    """How many `super()` calls lie one upon the other in a method."""
    depth = 0
    for base in kind.__mro__:
        function = methods(base).get(name)
        if function is None or not inspect.getmodule(base):
            continue
        if base.__module__ == "builtins" or not calls_super(function):
            return depth
        depth += 1
    return depth


def raises_only(function: FunctionType) -> bool:
    """Is NotImplementedError all that it has to say?"""
    if getattr(function, "__isabstractmethod__", False):
        return False
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    body = [node for node in tree.body if not isinstance(node, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImpl" in ast.unparse(body[0])


def test_private_methods_are_nobody_elses() -> None:
    assert {kind: found for kind in KINDS if (found := overridden_private(kind))} == {}


def test_steps_are_not_wrapped_in_layers() -> None:
    deep = {
        (kind, name)
        for kind in KINDS
        for name in methods(kind)
        if name != "__init__" and layers(kind, name) > 1
    }
    assert deep == set()


def test_what_has_to_be_given_is_declared_abstract() -> None:
    lazy = [(kind, name) for kind in KINDS for name, f in methods(kind).items() if raises_only(f)]
    assert lazy == []


def test_the_driver_alone_knows_the_order() -> None:
    drivers = [kind for kind in KINDS if issubclass(kind, Driver) and kind is not Driver]
    assert len(drivers) > 20
    assert [kind for kind in drivers if {*methods(kind)} & {*COURSE}] == []


def asked(kind: type) -> set[str]:
    """The methods that a class calls of itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
    }


def test_the_driver_asks_every_step_that_it_declares() -> None:
    steps = {name for name in methods(Driver) if not is_private(name)}
    assert steps - {*COURSE, "audit"} <= asked(Driver)


class Base:
    def step(self) -> None:
        return None

    def _part(self) -> None:
        raise NotImplementedError


class Middle(Base):
    def step(self) -> None:
        super().step()


class Top(Middle):
    def step(self) -> None:
        super().step()

    def _part(self) -> None:
        return None


class Asks(Base):
    def other(self) -> None:
        self.step()


def test_the_rules_see_what_breaks_them() -> None:
    assert overridden_private(Top) == ["_part"]
    assert [layers(kind, "step") for kind in (Base, Middle, Top)] == [0, 1, 2]
    assert asked(Asks) == {"step"}
    assert raises_only(methods(Base)["_part"])
    assert not raises_only(methods(Top)["_part"])
