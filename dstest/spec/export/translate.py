"""Expressions of Python as those of another language, with the kind of each, read off annotations
and values.

A language says how it writes each operation (`Language`); here it is found out which operation it
is, since `in`, `|` and `len` mean one thing of a list and another of a set.
"""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.mutate import function_of

_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_SETS = {ast.BitOr: "|", ast.BitAnd: "&", ast.Sub: "-"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class Kind(msgspec.Struct, frozen=True):
    """`name` is int, bool, str, list, set, state, or nothing for what an empty list or set holds.
    `of` is what a list or set holds."""

    name: str
    of: Kind | None = None

    def __str__(self) -> str:
        return self.name if self.of is None else f"{self.name} of {self.of}"


INT: Final = Kind("int")
BOOL: Final = Kind("bool")
STR: Final = Kind("str")
STATE: Final = Kind("state")
NOTHING: Final = Kind("nothing")

_PLAIN: Final = {int: INT, bool: BOOL, str: STR}


def list_of(kind: Kind) -> Kind:
    """A sequence."""
    return Kind("list", kind)


def set_of(kind: Kind) -> Kind:
    """A finite set."""
    return Kind("set", kind)


def alike(a: Kind, b: Kind) -> bool:
    """May one stand where the other does? What an empty list holds may be anything."""
    if NOTHING in (a, b):
        return True
    if a.name != b.name:
        return False
    return a.of is None or b.of is None or alike(a.of, b.of)


def either(a: Kind, b: Kind) -> Kind:
    """Of two that are alike the one that knows more: an empty list is a list of anything."""
    if a == NOTHING:
        return b
    if a.of is not None and b.of is not None:
        return Kind(a.name, either(a.of, b.of))
    return a


def kind_of_hint(hint: Any, where: str) -> Kind:
    """Of an annotation. Raises ConfigError for one that has no counterpart."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return list_of(kind_of_hint(args[0], where))
    if origin is frozenset and len(args) == 1:
        return set_of(kind_of_hint(args[0], where))
    shown = hint if isinstance(hint, types.GenericAlias | types.UnionType) else repr(hint)
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        shown = hint.__qualname__
    raise ConfigError(
        f"{where} is {shown}, which is not exported",
        remedy="int, bool, str, tuple[T, ...] or frozenset[T] of such",
    )


def kind_of_value(value: Any, where: str) -> Kind:
    """Of a constant. Raises ConfigError for one that has no counterpart."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)]
    if isinstance(value, tuple | frozenset | range | list | set):
        found = NOTHING
        for one in value:
            inner = kind_of_value(one, where)
            if not alike(found, inner):
                raise ConfigError(
                    f"{where} holds values of several types", remedy="one type, to be exported"
                )
            found = either(found, inner)
        return (set_of if isinstance(value, frozenset | set) else list_of)(found)
    raise ConfigError(
        f"{where} is {value!r}, which is not exported",
        remedy="int, bool, str, tuples and sets of such",
    )


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
    def quotient(self, one: str, divisor: str) -> str: ...
    def rest(self, one: str, divisor: str) -> str: ...
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


def wanted(of: Text, kind: Kind, what: str) -> str:
    """The text. Raises ConfigError where it is of another kind."""
    if not alike(of.kind, kind):
        remedy = f"{kind}: bool(..) of what is only taken for true" if kind == BOOL else str(kind)
        raise ConfigError(
            f"{what} is {of.kind} where {kind} is wanted, which is not exported", remedy=remedy
        )
    return of.text


def place(to: Language, row: Text, at: Text) -> str:
    """Counted from the front.

    Python counts from the end below 0; other languages count from the front, and go wrong outside
    of the sequence.
    """
    if at.text.isdigit():
        return at.text
    length = to.length(row.text)
    if at.text.startswith("-") and at.text[1:].isdigit():
        return to.arithmetic("-", length, at.text[1:])
    below = to.compare("<", at.text, to.literal(0))
    return to.choice(below, to.arithmetic("+", length, at.text), at.text)


def part(to: Language, row: Text, lower: Text | None, upper: Text | None) -> Text:
    """`row[lower:upper]`; None is the beginning or the end.

    It goes no further than the sequence, as in Python.
    """
    start = to.literal(0) if lower is None else _within(to, row, lower)
    end = to.length(row.text) if upper is None else _within(to, row, upper)
    if lower is not None and upper is not None:
        end = _larger(to, start, end)
    return Text(to.part(row.text, start, end), row.kind)


def _within(to: Language, row: Text, bound: Text) -> str:
    at, length = place(to, row, bound), to.length(row.text)
    if at == to.literal(0):
        return at
    if not at.isdigit():
        at = _larger(to, to.literal(0), at)
    return to.choice(to.compare("<", at, length), at, length)


def _larger(to: Language, a: str, b: str) -> str:
    return to.choice(to.compare("<", a, b), b, a)


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
        condition = self._test(test, scope)
        kind = self._one_kind(yes, no, test, scope)
        return Text(self._to.choice(condition, yes.text, no.text), kind)

    def _test(self, node: ast.expr, scope: Scope) -> str:
        """Where Python asks whether something is true: of what is empty or 0 that is false."""
        match node:
            case ast.BoolOp(op=op, values=values):
                joined = self._to.both if isinstance(op, ast.And) else self._to.either
                return joined([self._test(one, scope) for one in values])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self._to.negation(self._test(inner, scope))
        return self._true(self.expression(node, scope), node, scope)

    def _true(self, of: Text, node: ast.AST, scope: Scope) -> str:
        match of.kind.name:
            case "bool":
                return of.text
            case "int":
                return self._to.compare("!=", of.text, self.value(0))
            case "str":
                return self._to.compare("!=", of.text, self.value(""))
            case "list":
                return self._to.compare("!=", self._to.length(of.text), self.value(0))
            case "set":
                return self._to.compare("!=", self._to.size(of.text), self.value(0))
        raise self._refused(node, scope)

    def _one_kind(self, a: Text, b: Text, node: ast.AST, scope: Scope) -> Kind:
        """Raises ConfigError for values of two types: what Python takes for equal, or lets stand
        for one another, other languages do not."""
        if not alike(a.kind, b.kind):
            raise ConfigError(
                f"{scope.where}: `{ast.unparse(node)}` has {a.kind} and {b.kind} in one place,"
                " which is not exported",
                remedy="values of one type",
            )
        return either(a.kind, b.kind)

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
                said = [self.expression(one, scope) for one in values]
                if any(one.kind != BOOL for one in said):
                    raise self._refused(node, scope)  # the value is that of one of its sides
                joined = self._to.both if isinstance(op, ast.And) else self._to.either
                return Text(joined([one.text for one in said]), BOOL)
            case ast.UnaryOp(op=ast.Not()):
                return Text(self._test(node, scope), BOOL)
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
                for one in texts:
                    self._one_kind(texts[0], one, node, scope)
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
        if a.kind == b.kind == INT and isinstance(op, ast.FloorDiv | ast.Mod):
            if not b.text.isdigit() or int(b.text) == 0:
                raise ConfigError(
                    f"{scope.where}: `{ast.unparse(node)}` is not exported: languages divide by"
                    " what is below 0 each in its own way",
                    remedy="a divisor that is a constant above 0",
                )
            divided = self._to.quotient if isinstance(op, ast.FloorDiv) else self._to.rest
            return Text(divided(a.text, b.text), INT)
        if a.kind == b.kind == INT and type(op) in _SIGNS:
            return Text(self._to.arithmetic(_SIGNS[type(op)], a.text, b.text), INT)
        if a.kind.name == b.kind.name == "set" and type(op) in _SETS:
            kind = self._one_kind(a, b, node, scope)
            return Text(self._to.of_sets(_SETS[type(op)], a.text, b.text), kind)
        if a.kind.name == b.kind.name == "list" and isinstance(op, ast.Add):
            return Text(self._to.joined([a.text, b.text]), self._one_kind(a, b, node, scope))
        raise self._refused(node, scope)

    def _compared(self, node: ast.Compare, scope: Scope) -> Text:
        sides = [node.left, *node.comparators]
        parts = []
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            a, b = self.expression(left, scope), self.expression(right, scope)
            if isinstance(op, ast.In | ast.NotIn):
                if b.kind.name not in ("list", "set"):
                    raise self._refused(node, scope)
                self._one_kind(a, Text("", b.kind.of or NOTHING), node, scope)
                inside = self._to.in_set if b.kind.name == "set" else self._to.in_list
                text = inside(a.text, b.text)
                parts.append(self._to.negation(text) if isinstance(op, ast.NotIn) else text)
            elif not alike(a.kind, b.kind) or STATE in (a.kind, b.kind):
                self._one_kind(a, b, node, scope)
                raise self._refused(node, scope)
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
            lower = self._bound(index.lower, node, scope)
            upper = self._bound(index.upper, node, scope)
            return part(self._to, of, lower, upper)
        at = self._bound(index, node, scope)
        assert at is not None
        return Text(self._to.at(of.text, place(self._to, of, at)), of.kind.of)

    def _bound(self, bound: ast.expr | None, node: ast.AST, scope: Scope) -> Text | None:
        at = None if bound is None else self.expression(bound, scope)
        if at is not None and at.kind != INT:
            raise self._refused(node, scope)
        return at

    def _list(self, parts: list[ast.expr], scope: Scope) -> Text:
        """A tuple as written, some of its parts other tuples (`*row`)."""
        pieces: list[str] = []
        loose: list[str] = []
        kind = NOTHING
        for one in parts:
            if isinstance(one, ast.Starred):
                row = self.expression(one.value, scope)
                if row.kind.name != "list":
                    raise self._refused(one, scope)
                self._one_kind(Text("", kind), Text("", row.kind.of or NOTHING), one, scope)
                kind = either(kind, row.kind.of or NOTHING)
                if loose:
                    pieces.append(self._to.a_list(loose))
                    loose = []
                pieces.append(row.text)
            else:
                part = self.expression(one, scope)
                self._one_kind(Text("", kind), part, one, scope)
                kind = either(kind, part.kind)
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
                a, b = (
                    wanted(self.expression(one, scope), INT, f"{scope.where}: {name}")
                    for one in node.args
                )
                sign = "<" if name == "min" else ">"
                return Text(self._to.choice(self._to.compare(sign, a, b), a, b), INT)
            case ast.Name(id="bool") if len(node.args) == 1:
                return Text(self._test(node.args[0], scope), BOOL)
            case ast.Name(id="range") if len(node.args) in (1, 2):
                bounds = [
                    wanted(self.expression(one, scope), INT, f"{scope.where}: range")
                    for one in node.args
                ]
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
        if group.kind.name != "set":
            raise self._refused(node, scope)
        said = self._test(body, inner)
        asked = [self._test(one, inner) for one in over.ifs]
        if name == "any":
            return Text(self._to.some(variable, group.text, self._to.both([*asked, said])), BOOL)
        unless = self._to.either([*(self._to.negation(one) for one in asked), said])
        return Text(self._to.every(variable, group.text, unless), BOOL)

    def _replaced(self, node: ast.Call, scope: Scope) -> Text:
        state = self.expression(node.args[0], scope)
        given = {str(k.arg): k.value for k in node.keywords if k.arg in scope.fields}
        fields = {name: self._field(name, value, scope) for name, value in given.items()}
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
        texts = {name: self._field(name, given[name], scope) for name in names}
        return Text(self._to.record(texts), STATE)

    def _field(self, name: str, value: ast.expr, scope: Scope) -> str:
        where = f"{scope.where}: {name}={ast.unparse(value)}"
        return wanted(self.expression(value, scope), scope.fields[name], where)

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
