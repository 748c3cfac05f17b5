"""What a guard or an invariant says, as a syntax tree: found in the file that it stands in."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from dstest.spec.model import shown


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def function_of(function: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef | None:
    """Where it is written; None where no source is at hand."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    tree = _tree("".join(linecache.getlines(code.co_filename)))
    if tree is None:
        return None
    begins = min((at for at in _positions(code)), default=None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            inside = (node.body.lineno, node.body.col_offset) == begins
            if node.lineno == code.co_firstlineno and (inside or _alone(tree, node)):
                return node
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _positions(code: Any) -> list[tuple[int, int]]:
    return [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end
    ]


def _alone(tree: ast.Module, wanted: ast.Lambda) -> bool:
    here = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == wanted.lineno]
    return len(here) == 1


def expression_of(function: Callable[..., Any]) -> ast.expr | None:
    """What it returns, where that is all that it does."""
    node = function_of(function)
    if isinstance(node, ast.Lambda):
        return node.body
    body = [] if node is None else [n for n in node.body if not _is_text(n)]
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def text_of(function: Callable[..., Any]) -> str:
    """As it is written, on one line; empty where no source is at hand."""
    found = expression_of(function) or function_of(function)
    return "" if found is None else " ".join(ast.unparse(found).split())


def fields_named(function: Callable[..., Any]) -> set[str]:
    """The attributes that it reads."""
    node = function_of(function)
    found = ast.walk(node) if node is not None else ()
    return {one.attr for one in found if isinstance(one, ast.Attribute)}


def operands(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, str]:
    """What is compared in it and what that is: `{"s.term": "3", "term": "2"}`.

    `given` are the values of its parameters. What cannot be evaluated is left out: it may lie
    behind a condition that does not hold.
    """
    found = expression_of(function)
    if found is None:
        return {}
    names = {**function.__globals__, **_enclosed(function), **given}
    said: dict[str, str] = {}
    for node in _compared(found):
        if isinstance(node, ast.Constant):
            continue
        try:
            value = eval(compile(ast.Expression(node), "operand", "eval"), names)
        except Exception:  # a half that is guarded by the other one
            continue
        said[ast.unparse(node)] = shown(value)
    return said


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(inspect.getclosurevars(function).nonlocals)


def _compared(found: ast.expr) -> list[ast.expr]:
    """The sides of comparisons, and what is true or false by itself; none from inside a
    comprehension, whose names are its own."""
    match found:
        case ast.BoolOp(values=values):
            return [one for value in values for one in _compared(value)]
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _compared(inner)
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case _:
            return [found]
