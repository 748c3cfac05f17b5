"""Python code in one form, whatever its layout: two that have the same form do the same.

Left out are docstrings and annotations of parameters. Local names are numbered, in forms that no
identifier can have; of a comparison, the sides have one order. Code that a new name could mean
something to (`locals`, nested functions, `match`) keeps its names.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

_KEEPS: Final = (
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Delete,
    ast.ExceptHandler,
    ast.Global,
    ast.Import,
    ast.ImportFrom,
    ast.Match,
    ast.NamedExpr,
    ast.Nonlocal,
)
_LOOKS: Final = {"dir", "eval", "exec", "globals", "locals", "vars"}
_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def normal(node: ast.stmt, *, parameters: bool = False) -> ast.stmt:
    """A copy. With `parameters`, those of a function are numbered too: it is called by position."""
    node = copy.deepcopy(node)
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            one.body = bare(one) or [ast.Pass()]
    names: dict[str, str] = {}
    inner = [n for n in ast.walk(node) if n is not node]
    keeps = any(
        isinstance(n, (*_KEEPS, ast.FunctionDef)) or (isinstance(n, ast.Name) and n.id in _LOOKS)
        for n in inner
    )
    if isinstance(node, ast.FunctionDef):
        _without_annotations(node)
        if not keeps:
            names = _locals(node, parameters)
    return _Normal(names, not keeps).visit(node)  # type: ignore[no-any-return]


def text_of(node: ast.AST) -> str:
    """One line of Python."""
    return " ".join(ast.unparse(node).split())


def bare(node: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
    """The body without its docstring."""
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return node.body[1:] if is_text else node.body


def called(node: ast.expr) -> str:
    """The last name of what is called, or of what stands there uncalled."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def identifiers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Each name that is said in them, also as text, as often as it is said."""
    for top in nodes:
        for node in ast.walk(top):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                case ast.ClassDef(name=name) | ast.MatchAs(name=str(name)):
                    yield name
                case ast.keyword(arg=str(name)):
                    yield name
                case ast.alias(name=name, asname=other):
                    yield other or name.partition(".")[0]
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    yield from names
                case ast.Constant(value=str(text)) if text.isidentifier():
                    yield text


def _without_annotations(node: ast.FunctionDef) -> None:
    """But for those that do something when the function is defined."""
    if _only_names(node.returns):
        node.returns = None
    for one in ast.walk(node.args):
        if isinstance(one, ast.arg) and _only_names(one.annotation):
            one.annotation = None


def _only_names(annotation: ast.expr | None) -> bool:
    acts = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.comprehension)
    return annotation is None or not any(isinstance(n, acts) for n in ast.walk(annotation))


def _locals(node: ast.FunctionDef, parameters: bool) -> dict[str, str]:
    given = [one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)]
    names = dict.fromkeys(given) if parameters else {}
    for part in node.body:
        names.update(dict.fromkeys(_stored(part)))
    return {
        name: f"%{number}"
        for number, name in enumerate(n for n in names if parameters or n not in given)
    }


def _stored(node: ast.AST) -> Iterator[str]:
    """Outside of comprehensions and lambdas, which have names of their own."""
    if isinstance(node, ast.comprehension | ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _stored(child)


class _Normal(ast.NodeTransformer):
    def __init__(self, names: dict[str, str], renames: bool) -> None:
        self.scopes = [names]
        self.renames = renames

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What stands outside of the body has no local names."""
        names, self.scopes[0] = self.scopes[0], {}
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg):
                one.arg = names.get(one.arg, one.arg)
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        self.scopes[0] = names
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = next((s[node.id] for s in reversed(self.scopes) if node.id in s), node.id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [one and self.visit(one) for one in node.args.kw_defaults]
        given = [one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        self.scopes.append({name: name for name in given})
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def _comprehension(self, node: Any) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        targets = [n for g in node.generators for n in ast.walk(g.target)]
        bound = dict.fromkeys(
            n.id for n in targets if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        depth = len(self.scopes)
        names = {name: f"%{depth}.{number}" for number, name in enumerate(bound)}
        self.scopes.append(names if self.renames else {})
        for each in node.generators:
            each.target = self.visit(each.target)
            if each is not first:
                each.iter = self.visit(each.iter)
            each.ifs = [self.visit(one) for one in each.ifs]
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.scopes.pop()
        return node  # type: ignore[no-any-return]

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if any(isinstance(n, ast.Call | ast.Await) for s in sides[1:-1] for n in ast.walk(s)):
            return node
        pairs = [
            _turned(op, left, right)
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
        ]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), list(pairs))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        values: list[ast.expr] = []
        for one in node.values:
            same = isinstance(one, ast.BoolOp) and type(one.op) is type(node.op)
            values += one.values if same and isinstance(one, ast.BoolOp) else [one]
        node.values = values
        return node


def _turned(op: ast.cmpop, left: ast.expr, right: ast.expr) -> ast.Compare:
    if type(op) in _TURNED:
        op, left, right = _TURNED[type(op)](), right, left
    elif isinstance(op, ast.Eq | ast.NotEq) and ast.dump(right) < ast.dump(left):
        left, right = right, left
    return ast.Compare(left, [op], [right])
