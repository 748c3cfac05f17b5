"""Expressions of Python as those of another language, with the kind of each.

A language says how it writes each operation (`Language`); here it is found out which operation it
is, since `in`, `|` and `len` mean one thing of a list and another of a set.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.export.kinds import BOOL, INT, NOTHING, STATE, Kind, kind_of_value, list_of, set_of
from dstest.spec.expressions import function_of

__all__ = ["Language", "Scope", "Text", "Translator"]


class Text(msgspec.Struct, frozen=True):
    """A piece of the other language."""

    text: str
    kind: Kind


class Language(Protocol):
    """How one language writes what a specification says. All take and give its text."""

    def word(self, name: str) -> str: ...
    def literal(self, value: Any) -> str: ...
    def both(self, parts: list[str]) -> str: ...
    def either(self, parts: list[str]) -> str: ...
    def negation(self, one: str) -> str: ...
    def arithmetic(self, sign: str, left: str, right: str) -> str: ...
    def compare(self, sign: str, left: str, right: str) -> str: ...
    def choice(self, condition: str, yes: str, no: str) -> str: ...
    def let(self, name: str, value: str, body: str) -> str: ...
    def field(self, state: str, name: str) -> str: ...
    def record(self, fields: Mapping[str, str]) -> str: ...
    def changed(self, state: str, fields: Mapping[str, str]) -> str: ...
    def a_list(self, parts: list[str]) -> str: ...
    def a_set(self, parts: list[str]) -> str: ...
    def at(self, row: str, index: str) -> str: ...
    def part(self, row: str, start: str, end: str) -> str: ...
    def joined(self, parts: list[str]) -> str: ...
    def length(self, row: str) -> str: ...
    def size(self, group: str) -> str: ...
    def in_list(self, one: str, row: str) -> str: ...
    def in_set(self, one: str, group: str) -> str: ...
    def of_sets(self, sign: str, left: str, right: str) -> str: ...
    def upto(self, start: str, end: str) -> str: ...
    def members(self, row: str) -> str: ...
    def every(self, name: str, group: str, body: str) -> str: ...
    def some(self, name: str, group: str, body: str) -> str: ...


class Scope(msgspec.Struct, frozen=True):
    """What names mean where an expression stands. `state` is the name of the state, `fields` are
    its own; `constants` is the specification."""

    state: str
    fields: Mapping[str, Kind]
    state_class: type
    constants: Any
    names: Mapping[str, Text]
    outside: Mapping[str, Any]
    where: str

    def with_name(self, name: str, text: Text) -> Scope:
        """With one name more."""
        return msgspec.structs.replace(self, names={**self.names, name: text})


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
_SETS = {ast.BitOr: "|", ast.BitAnd: "&", ast.Sub: "-"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class Translator:
    """Into one language."""

    def __init__(self, language: Language) -> None:
        self._to = language

    def function(self, function: Callable[..., Any], scope: Scope) -> Text:
        """The body of a function: names given to values, then what it returns."""
        node = function_of(function)
        if node is None:
            raise ConfigError(f"{scope.where}: no source is at hand", remedy="export from its file")
        inner = msgspec.structs.replace(scope, outside=function.__globals__)
        if isinstance(node, ast.Lambda):
            return self.expression(node.body, inner)
        return self._body(list(node.body), inner)

    def _body(self, body: list[ast.stmt], scope: Scope) -> Text:
        match body:
            case [ast.Expr(value=ast.Constant()), *rest]:
                return self._body(rest, scope)
            case [ast.Return(value=ast.expr() as value)]:
                return self.expression(value, scope)
            case [ast.Assign(targets=[ast.Name(id=name)], value=value), *rest]:
                given = self.expression(value, scope)
                word = self._to.word(name)
                after = self._body(rest, scope.with_name(name, Text(word, given.kind)))
                return Text(self._to.let(word, given.text, after.text), after.kind)
            case [ast.If(test=test, body=then, orelse=[]), *rest]:
                return self._choice(test, self._body(then, scope), self._body(rest, scope), scope)
            case [ast.If(test=test, body=then, orelse=otherwise)]:
                return self._choice(
                    test, self._body(then, scope), self._body(otherwise, scope), scope
                )
        raise self._refused(body[0] if body else ast.Pass(), scope)

    def _choice(self, test: ast.expr, yes: Text, no: Text, scope: Scope) -> Text:
        condition = self.expression(test, scope)
        return Text(self._to.choice(condition.text, yes.text, no.text), _either(yes.kind, no.kind))

    def expression(self, node: ast.expr, scope: Scope) -> Text:
        """Raises ConfigError for what has no counterpart."""
        match node:
            case ast.Constant(value=bool() | int() | str() as value):
                return self._value(value, scope)
            case ast.Name(id=name):
                return self._name(name, node, scope)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                return self._value(getattr(scope.constants, attr), scope)
            case ast.Attribute(value=inner, attr=attr) if attr in scope.fields:
                whole = self.expression(inner, scope)
                if whole.kind == STATE:
                    return Text(self._to.field(whole.text, attr), scope.fields[attr])
            case ast.BoolOp(op=op, values=values):
                parts = [self.expression(one, scope).text for one in values]
                joined = self._to.both if isinstance(op, ast.And) else self._to.either
                return Text(joined(parts), BOOL)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return Text(self._to.negation(self.expression(inner, scope).text), BOOL)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return self._value(-value, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self._sum(left, op, right, node, scope)
            case ast.Compare():
                return self._compared(node, scope)
            case ast.IfExp(test=test, body=yes, orelse=no):
                return self._choice(
                    test, self.expression(yes, scope), self.expression(no, scope), scope
                )
            case ast.Subscript(value=row, slice=index):
                return self._subscript(row, index, node, scope)
            case ast.Tuple(elts=parts):
                return self._list(parts, scope)
            case ast.Set(elts=parts):
                texts = [self.expression(one, scope) for one in parts]
                return Text(self._to.a_set([t.text for t in texts]), set_of(texts[0].kind))
            case ast.Call():
                return self._call(node, scope)
        raise self._refused(node, scope)

    def _refused(self, node: ast.AST, scope: Scope) -> ConfigError:
        return ConfigError(
            f"{scope.where}: `{ast.unparse(node)}` is not exported",
            remedy="plain values, tuples, sets and their operations, replace(), if: docs/specs.md",
        )

    def word(self, name: str) -> str:
        """A name of the specification's, as the language takes it."""
        return self._to.word(name)

    def set_constant(self, values: tuple[Any, ...], scope: Scope) -> Text:
        """What a parameter may be, given as it is."""
        kind = kind_of_value(values, scope.where)
        return Text(self._to.a_set([self.value(one) for one in values]), set_of(kind.of or NOTHING))

    def as_set(self, found: Text, scope: Scope) -> Text:
        """What a parameter may be. Raises ConfigError for what holds nothing."""
        if found.kind.name == "list":
            return Text(self._to.members(found.text), set_of(found.kind.of or NOTHING))
        if found.kind.name == "set":
            return found
        raise ConfigError(f"{scope.where} is no set or tuple", remedy="range(..), (..) or {..}")

    def _value(self, value: Any, scope: Scope) -> Text:
        return Text(self.value(value), kind_of_value(value, scope.where))

    def value(self, value: Any) -> str:
        """A constant."""
        if isinstance(value, frozenset | set):
            return self._to.a_set([self.value(one) for one in sorted(value)])
        if isinstance(value, tuple | list | range):
            return self._to.a_list([self.value(one) for one in value])
        return self._to.literal(value)

    def _name(self, name: str, node: ast.AST, scope: Scope) -> Text:
        if name in scope.names:
            return scope.names[name]
        if name == scope.state:
            return Text(name, STATE)
        if name in scope.outside and not callable(scope.outside[name]):
            return self._value(scope.outside[name], scope)
        raise self._refused(node, scope)

    def _sum(
        self, left: ast.expr, op: ast.operator, right: ast.expr, node: ast.AST, scope: Scope
    ) -> Text:
        a, b = self.expression(left, scope), self.expression(right, scope)
        if a.kind == b.kind == INT and type(op) in _SIGNS:
            return Text(self._to.arithmetic(_SIGNS[type(op)], a.text, b.text), INT)
        if a.kind.name == b.kind.name == "set" and type(op) in _SETS:
            kind = _either(a.kind, b.kind)
            return Text(self._to.of_sets(_SETS[type(op)], a.text, b.text), kind)
        if a.kind.name == b.kind.name == "list" and isinstance(op, ast.Add):
            return Text(self._to.joined([a.text, b.text]), _either(a.kind, b.kind))
        raise self._refused(node, scope)

    def _compared(self, node: ast.Compare, scope: Scope) -> Text:
        sides = [node.left, *node.comparators]
        parts = []
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            a, b = self.expression(left, scope), self.expression(right, scope)
            if isinstance(op, ast.In | ast.NotIn):
                inside = self._to.in_set if b.kind.name == "set" else self._to.in_list
                text = inside(a.text, b.text)
                parts.append(self._to.negation(text) if isinstance(op, ast.NotIn) else text)
            elif b.kind.name == "set" and isinstance(op, ast.LtE):
                parts.append(self._to.of_sets("<=", a.text, b.text))
            elif type(op) in _COMPARED and (isinstance(op, ast.Eq | ast.NotEq) or a.kind == INT):
                parts.append(self._to.compare(_COMPARED[type(op)], a.text, b.text))
            else:
                raise self._refused(node, scope)
        return Text(self._to.both(parts) if len(parts) > 1 else parts[0], BOOL)

    def _subscript(self, row: ast.expr, index: ast.expr, node: ast.AST, scope: Scope) -> Text:
        of = self.expression(row, scope)
        if of.kind.name != "list" or of.kind.of is None:
            raise self._refused(node, scope)
        if isinstance(index, ast.Slice) and index.step is None:
            start = self.expression(index.lower, scope).text if index.lower else self.value(0)
            end = self.expression(index.upper, scope).text if index.upper else None
            return Text(self._to.part(of.text, start, end or self._to.length(of.text)), of.kind)
        at = self.expression(index, scope)
        if at.kind != INT or at.text.startswith("-"):
            raise self._refused(node, scope)
        return Text(self._to.at(of.text, at.text), of.kind.of)

    def _list(self, parts: list[ast.expr], scope: Scope) -> Text:
        """A tuple as written, some of its parts other tuples (`*row`)."""
        pieces: list[str] = []
        loose: list[str] = []
        kind = NOTHING
        for one in parts:
            if isinstance(one, ast.Starred):
                row = self.expression(one.value, scope)
                kind = _either(kind, row.kind.of or NOTHING)
                if loose:
                    pieces.append(self._to.a_list(loose))
                    loose = []
                pieces.append(row.text)
            else:
                part = self.expression(one, scope)
                kind = _either(kind, part.kind)
                loose.append(part.text)
        if loose or not pieces:
            pieces.append(self._to.a_list(loose))
        text = pieces[0] if len(pieces) == 1 else self._to.joined(pieces)
        return Text(text, list_of(kind))

    def _call(self, node: ast.Call, scope: Scope) -> Text:
        match node.func:
            case ast.Name(id="len"):
                of = self.expression(node.args[0], scope)
                if of.kind.name in ("list", "set"):
                    size = self._to.length if of.kind.name == "list" else self._to.size
                    return Text(size(of.text), INT)
            case ast.Name(id="min" | "max" as name) if len(node.args) == 2:
                a, b = (self.expression(one, scope).text for one in node.args)
                sign = "<" if name == "min" else ">"
                return Text(self._to.choice(self._to.compare(sign, a, b), a, b), INT)
            case ast.Name(id="range"):
                bounds = [self.expression(one, scope).text for one in node.args]
                start, end = bounds if len(bounds) == 2 else (self.value(0), bounds[0])
                return Text(self._to.upto(start, end), set_of(INT))
            case ast.Name(id="all" | "any" as name):
                return self._quantified(name, node, scope)
            case ast.Name(id="set" | "frozenset"):
                return self._set(node, scope)
            case ast.Name(id="replace"):
                return self._replaced(node, scope)
            case ast.Name(id=name) if scope.outside.get(name) is scope.state_class:
                return self._made(node, scope)
            case ast.Name(id=name) if callable(scope.outside.get(name)):
                return self._inlined(scope.outside[name], node, scope)
        raise self._refused(node, scope)

    def _set(self, node: ast.Call, scope: Scope) -> Text:
        if not node.args:
            return Text(self._to.a_set([]), set_of(NOTHING))
        of = self.expression(node.args[0], scope)
        if of.kind.name == "set":
            return of
        if of.kind.name == "list":
            return Text(self._to.members(of.text), set_of(of.kind.of or NOTHING))
        raise self._refused(node, scope)

    def _quantified(self, name: str, node: ast.Call, scope: Scope) -> Text:
        match node.args:
            case [ast.GeneratorExp(elt=body, generators=[ast.comprehension() as over])]:
                pass
            case _:
                raise self._refused(node, scope)
        if not isinstance(over.target, ast.Name):
            raise self._refused(node, scope)
        group = self.expression(over.iter, scope)
        if group.kind.name == "list":
            group = Text(self._to.members(group.text), set_of(group.kind.of or NOTHING))
        variable = self._to.word(over.target.id)
        inner = scope.with_name(over.target.id, Text(variable, group.kind.of or NOTHING))
        said = self.expression(body, inner).text
        asked = [self.expression(one, inner).text for one in over.ifs]
        if name == "any":
            return Text(self._to.some(variable, group.text, self._to.both([*asked, said])), BOOL)
        unless = self._to.either([*(self._to.negation(one) for one in asked), said])
        return Text(self._to.every(variable, group.text, unless), BOOL)

    def _replaced(self, node: ast.Call, scope: Scope) -> Text:
        state = self.expression(node.args[0], scope)
        fields = {k.arg: self.expression(k.value, scope).text for k in node.keywords if k.arg}
        if state.kind != STATE or len(fields) != len(node.keywords):
            raise self._refused(node, scope)
        return Text(self._to.changed(state.text, fields), STATE)

    def _made(self, node: ast.Call, scope: Scope) -> Text:
        names = list(scope.fields)
        given = dict(zip(names, node.args, strict=False)) | {
            str(k.arg): k.value for k in node.keywords
        }
        if set(given) != set(names):
            raise self._refused(node, scope)
        texts = {name: self.expression(given[name], scope).text for name in names}
        return Text(self._to.record(texts), STATE)

    def _inlined(self, function: Callable[..., Any], node: ast.Call, scope: Scope) -> Text:
        """A helper of the user's own, its parameters given names."""
        written = function_of(function)
        if not isinstance(written, ast.FunctionDef) or node.keywords:
            raise self._refused(node, scope)
        params = [arg.arg for arg in written.args.args]
        if len(params) != len(node.args):
            raise self._refused(node, scope)
        names = {
            param: self.expression(one, scope) for param, one in zip(params, node.args, strict=True)
        }
        where = f"{scope.where}, in {written.name}"
        return self.function(function, msgspec.structs.replace(scope, names=names, where=where))


def _either(a: Kind, b: Kind) -> Kind:
    """The one that knows more: an empty list is a list of anything."""
    if a == NOTHING:
        return b
    if a.of is not None and b.of is not None:
        return Kind(a.name, _either(a.of, b.of))
    return a
