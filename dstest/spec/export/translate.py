"""Expressions of Python as those of another language.

What is known before the specification runs, its constants, arguments that are given, and what is
made of these, is computed as Python has it, loops over it are done one by one; the rest becomes
text, with its kind. A language says how it writes each operation (`Language`); here it is found out
which operation it is, since `in`, `|` and `len` mean one thing of a list and another of a set.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from dstest.core.errors import ConfigError
from dstest.spec.export.calls import Calls
from dstest.spec.export.kinds import (
    BOOL,
    INT,
    Kind,
    Text,
    Unlike,
    fit,
    holds_text,
    kind_of,
    option_of,
    set_of,
    tuple_of,
)
from dstest.spec.export.language import Language, as_map, merged, part, place, wanted, written
from dstest.spec.export.scope import YIELDED, NoPattern, Scope, matched, outside_of
from dstest.spec.model import FrozenDict, fields_of
from dstest.spec.mutate import function_of

_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_SETS = {ast.BitOr: "|", ast.BitAnd: "&", ast.Sub: "-"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_PYTHON: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitAnd: lambda a, b: a & b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}

Truth = bool | str
"""Known, or a text that is true or false."""


class Over(NamedTuple):
    """What a loop goes over that is not known: a set of the language, the name of what is in it
    there, and the value that the loop has of it."""

    group: str
    word: str
    value: Any


class Translator:
    """Into one language, one function after the other."""

    def __init__(self, language: Language) -> None:
        self.to = language
        self.calls = Calls(self)
        self._used: Counter[str] = Counter()

    def begin(self, words: Iterable[str]) -> None:
        """Another function of the other language, in which these words are taken."""
        self._used = Counter(words)

    def fresh(self, name: str) -> str:
        """A word for a name, which is no other's in this function."""
        word = self.to.word(name)
        self._used[word] += 1
        return word if self._used[word] == 1 else self.to.word(f"{name}{self._used[word]}")

    def function(self, function: Callable[..., Any], names: Mapping[str, Any], where: str) -> Any:
        """What it returns: a known value, one with texts as its parts, or a text. Of a generator,
        a tuple of what it gives."""
        node = function_of(function)
        if node is None:
            raise ConfigError(f"{where}: no source is at hand", remedy="export from its file")
        scope = Scope(names, outside_of(function), where)
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node)]
        else:
            body = list(node.body)
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node)):
            scope = scope.with_names({YIELDED: ()})
        try:
            return self._run(body, scope, lambda after: after.names.get(YIELDED))
        except Unlike as error:
            raise ConfigError(
                f"{where} has {error.args[0]} and {error.args[1]} in one place, which is not"
                " exported",
                remedy="values of one type",
            ) from None
        except RecursionError:
            raise ConfigError(
                f"{where}: a function that calls itself is not exported",
                remedy="a loop over known rows",
            ) from None

    def refused(self, node: ast.AST, scope: Scope) -> ConfigError:
        """That it has no counterpart."""
        return ConfigError(
            f"{scope.where}: `{ast.unparse(node)}` is not exported",
            remedy="plain values, tuples, sets and their operations, replace(), if: docs/specs.md",
        )

    def _run(self, body: list[ast.stmt], scope: Scope, then: Callable[[Scope], Any]) -> Any:
        """What is returned; where nothing is, `then` goes on after the last statement."""
        if not body:
            return then(scope)
        first, rest = body[0], body[1:]
        go_on = partial(self._run, rest, then=then)
        match first:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return go_on(scope)
            case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                given = (*scope.names[YIELDED], self.expression(value, scope))
                return go_on(scope.with_names({YIELDED: given}))
            case ast.Expr(value=ast.YieldFrom(value=value)):
                more = self.known_rows(value, scope)
                return go_on(scope.with_names({YIELDED: (*scope.names[YIELDED], *more)}))
            case ast.Return(value=ast.expr() as value) if YIELDED not in scope.names:
                return self.expression(value, scope)
            case ast.Assign(targets=[target], value=value):
                return self._assigned(target, self.expression(value, scope), go_on, scope, first)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assigned(target, self.expression(value, scope), go_on, scope, first)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                sum_ = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                made = self.expression(ast.copy_location(sum_, first), scope)
                return go_on(scope.with_names({name: made}))
            case ast.If(test=test, body=yes, orelse=no):
                said = self.truth(test, scope)
                if isinstance(said, bool):
                    return self._run(yes if said else no, scope, go_on)
                ways = [self._run(one, scope, go_on) for one in (yes, no)]
                return self.chosen(said, ways[0], ways[1], test, scope)
            case ast.For(target=target, iter=over, body=inner, orelse=[]):
                return self._loop(target, self.known_rows(over, scope, first), inner, scope, go_on)
            case ast.Match(subject=subject, cases=cases):
                return self._matched(self.expression(subject, scope), cases, scope, go_on)
        raise self.refused(first, scope)

    def _assigned(
        self,
        target: ast.expr,
        value: Any,
        go_on: Callable[[Scope], Any],
        scope: Scope,
        node: ast.stmt,
    ) -> Any:
        if isinstance(target, ast.Name):
            return self.given({target.id: value}, lambda names: go_on(scope.with_names(names)))
        match target:
            case ast.Subscript(value=ast.Name(id=name), slice=at):
                place_, there = self.expression(at, scope), scope.names.get(name)
                if isinstance(there, dict) and not holds_text(place_):
                    return go_on(scope.with_names({name: {**there, place_: value}}))
                raise self.refused(node, scope)
        return go_on(scope.with_names(self.bound(target, value, node, scope)))

    def given(self, values: Mapping[str, Any], then: Callable[[dict[str, Any]], Any]) -> Any:
        """What comes of names that stand for these values: of texts, names there, so that each is
        written once."""
        texts = {
            name: (self.fresh(name), value)
            for name, value in values.items()
            if isinstance(value, Text) and not value.text.replace(".", "").isidentifier()
        }
        words = {name: Text(word, value.kind) for name, (word, value) in texts.items()}
        after = then({**values, **words})
        if words and not isinstance(after, Text) and fields_of(after) is not None:
            kind = kind_of(after)
            after = Text(written(self.to, after, kind), kind)
        if words and not isinstance(after, Text):
            return then({**values}) if holds_text(after) else after
        for word, value in reversed(texts.values()):
            if word in after.text:
                after = Text(self.to.let(word, value.text, after.text), after.kind)
        return after

    def bound(self, target: ast.expr, value: Any, node: ast.AST, scope: Scope) -> dict[str, Any]:
        """The names that a target gives to a value, or its parts."""
        match target:
            case ast.Name(id=name):
                return {name: value}
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                rows = self.parts(value)
                if rows is not None and len(rows) == len(parts):
                    found: dict[str, Any] = {}
                    for one, inner in zip(parts, rows, strict=True):
                        found |= self.bound(one, inner, node, scope)
                    return found
        raise self.refused(node, scope)

    def parts(self, value: Any) -> list[Any] | None:
        """Of a value of so many parts; None for any other."""
        if isinstance(value, tuple | list):
            return list(value)
        if isinstance(value, Text) and value.kind.name == "tuple":
            return [
                Text(self.to.item(value.text, n), kind)
                for n, (_, kind) in enumerate(value.kind.items, 1)
            ]
        return None

    def _loop(
        self,
        target: ast.expr,
        rows: list[Any],
        body: list[ast.stmt],
        scope: Scope,
        then: Callable[[Scope], Any],
    ) -> Any:
        if not rows:
            return then(scope)
        inner = scope.with_names(self.bound(target, rows[0], target, scope))
        return self._run(body, inner, lambda s: self._loop(target, rows[1:], body, s, then))

    def _matched(
        self, value: Any, cases: list[ast.match_case], scope: Scope, then: Callable[[Scope], Any]
    ) -> Any:
        for case in cases:
            try:
                names = matched(case.pattern, value)
            except NoPattern:
                raise self.refused(case.pattern, scope) from None
            if names is None:
                continue
            inner = scope.with_names(names)
            said = True if case.guard is None else self.truth(case.guard, inner)
            if not isinstance(said, bool):
                raise self.refused(case.pattern, scope)
            if said:
                return self._run(case.body, inner, then)
        return then(scope)

    def chosen(self, condition: str, yes: Any, no: Any, node: ast.AST, scope: Scope) -> Any:
        """Either value, by what is not known."""
        if not holds_text(yes) and not holds_text(no) and type(yes) is type(no) and yes == no:
            return yes
        kind = self.one_kind(yes, no, node, scope)
        texts = [written(self.to, one, kind) for one in (yes, no)]
        return Text(self.to.choice(condition, texts[0], texts[1]), kind)

    def one_kind(self, a: Any, b: Any, node: ast.AST, scope: Scope) -> Kind:
        """Raises ConfigError for values of two types: what Python takes for equal, or lets stand
        for one another, other languages do not."""
        try:
            if isinstance(b, Text):
                return fit(b.kind, a)
            return fit(kind_of(a), b)
        except Unlike as error:
            kinds = [one.kind if isinstance(one, Text) else None for one in (a, b)]
            said = [str(one or error.args[n]) for n, one in enumerate(kinds)]
            raise ConfigError(
                f"{scope.where}: `{ast.unparse(node)}` has {said[0]} and {said[1]} in one place,"
                " which is not exported",
                remedy="values of one type",
            ) from None

    def set_of_rows(self, found: Any, where: str) -> Text:
        """What a parameter may be, as a set. Raises ConfigError for what holds nothing."""
        node = ast.Constant(where)
        value = self.calls.as_set(found, node, Scope({}, {}, where))
        if isinstance(value, Text):
            return value
        kind = set_of(kind_of(value).held)
        return Text(written(self.to, value, kind), kind)

    def truth(self, node: ast.expr, scope: Scope) -> Truth:
        """Where Python asks whether something is true: of what is empty or 0 that is false."""
        match node:
            case ast.BoolOp(op=op, values=values):
                return self._all_or_any(isinstance(op, ast.And), values, scope)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                said = self.truth(inner, scope)
                return not said if isinstance(said, bool) else self.to.negation(said)
        return self.true(self.expression(node, scope), node, scope)

    def _all_or_any(self, both: bool, values: list[ast.expr], scope: Scope) -> Truth:
        asked: list[Truth] = []
        for one in values:
            said = self.truth(one, scope)
            if isinstance(said, bool):
                if said is not both:
                    return said if not asked else self.joined(both, [*asked, said])
                continue
            asked.append(said)
        return self.joined(both, asked)

    def joined(self, both: bool, parts: Sequence[Truth]) -> Truth:
        """All of them, or any; `both` says which."""
        if any(one is (not both) for one in parts):
            return not both
        left = [one for one in parts if isinstance(one, str)]
        if not left:
            return both
        return left[0] if len(left) == 1 else (self.to.both if both else self.to.either)(left)

    def true(self, of: Any, node: ast.AST, scope: Scope) -> Truth:
        """Is a value true, as Python has it?"""
        if isinstance(of, Text):
            zero = {"int": self.to.literal(0), "str": self.to.literal("")}
            match of.kind.name:
                case "bool":
                    return of.text
                case "int" | "str":
                    return self.to.compare("!=", of.text, zero[of.kind.name])
                case "list":
                    return self.to.compare("!=", self.to.length(of.text), zero["int"])
                case "set":
                    return self.to.compare("!=", self.to.size(of.text), zero["int"])
                case "map":
                    return self.to.compare("!=", self.to.size(self.to.keys(of.text)), zero["int"])
            raise self.refused(node, scope)
        return bool(of)

    def as_text(self, said: Truth) -> Any:
        """As a value."""
        return said if isinstance(said, bool) else Text(said, BOOL)

    def expression(self, node: ast.expr, scope: Scope) -> Any:
        """A value. Raises ConfigError for what has no counterpart."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(name, node, scope)
            case ast.Attribute(value=inner, attr=attr):
                return self._attribute(self.expression(inner, scope), attr, node, scope)
            case ast.BoolOp():
                return self._bool_op(node, scope)
            case ast.UnaryOp(op=ast.Not()):
                return self.as_text(self.truth(node, scope))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self.expression(inner, scope)
                if isinstance(value, int):
                    return -value
                text = wanted(self.to, value, INT, scope.where)
                return Text(self.to.arithmetic("-", self.to.literal(0), text), INT)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.expression(left, scope), self.expression(right, scope)
                return self._sum(a, op, b, node, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.IfExp(test=test, body=yes, orelse=no):
                said = self.truth(test, scope)
                if isinstance(said, bool):
                    return self.expression(yes if said else no, scope)
                ways = self.expression(yes, scope), self.expression(no, scope)
                return self.chosen(said, *ways, node, scope)
            case ast.Subscript(value=row, slice=index):
                return self._subscript(self.expression(row, scope), index, node, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._row(parts, scope)
            case ast.Set(elts=parts):
                return self._set(parts, node, scope)
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values, node, scope)
            case (
                ast.GeneratorExp(elt=made, generators=loops)
                | ast.ListComp(elt=made, generators=loops)
            ):
                return tuple(self.made_of_known(made, loops, node, scope))
            case ast.SetComp(elt=made, generators=loops):
                return self._set_of(made, loops, node, scope)
            case ast.DictComp(key=key, value=value, generators=loops):
                return self._dict_of(key, value, loops, node, scope)
            case ast.Call():
                return self.calls.value(node, scope)
        raise self.refused(node, scope)

    def _name(self, name: str, node: ast.AST, scope: Scope) -> Any:
        for there in (scope.names, scope.outside, vars(builtins)):
            if name in there:
                return there[name]
        raise self.refused(node, scope)

    def _attribute(self, whole: Any, attr: str, node: ast.AST, scope: Scope) -> Any:
        if not isinstance(whole, Text):
            if hasattr(whole, attr):
                return getattr(whole, attr)
            raise self.refused(node, scope)
        kind = whole.kind.item(attr) if whole.kind.name == "record" else None
        if kind is not None:
            return Text(self.to.field(whole.text, attr), kind)
        inner = None if whole.kind.made is None else vars(whole.kind.made).get(attr)
        if isinstance(inner, property) and inner.fget is not None:
            return self.function(inner.fget, {"self": whole}, f"{scope.where}, in {attr}")
        if whole.kind.name == "option":
            return self._attribute(self.unwrapped(whole), attr, node, scope)
        raise self.refused(node, scope)

    def unwrapped(self, value: Any) -> Any:
        """What is there, of what may be nothing: a specification that asks has looked before."""
        if isinstance(value, Text) and value.kind.name == "option":
            return Text(self.to.at(value.text, self.to.literal(0)), value.kind.held)
        return value

    def _bool_op(self, node: ast.BoolOp, scope: Scope) -> Any:
        said: list[Any] = []
        both = isinstance(node.op, ast.And)
        for one in node.values:
            value = self.expression(one, scope)
            if not holds_text(value):
                if bool(value) is not both:
                    said.append(value)
                    break
                if one is not node.values[-1]:
                    continue
            said.append(value)
        if len(said) == 1:
            return said[0]
        if any(not isinstance(one, bool) and not _is_bool(one) for one in said):
            raise self.refused(node, scope)  # the value is that of one of its sides
        return self.as_text(
            self.joined(both, [one if isinstance(one, bool) else one.text for one in said])
        )

    def _sum(self, a: Any, op: ast.operator, b: Any, node: ast.AST, scope: Scope) -> Any:
        if not holds_text(a) and not holds_text(b) and type(op) in _PYTHON:
            return _PYTHON[type(op)](a, b)
        kinds = [self.kind(one, node, scope) for one in (a, b)]
        numbers = all(one in (INT, option_of(INT)) for one in kinds)
        if numbers and isinstance(op, ast.FloorDiv | ast.Mod):
            if not isinstance(b, int) or b <= 0:
                raise ConfigError(
                    f"{scope.where}: `{ast.unparse(node)}` is not exported: languages divide by"
                    " what is below 0 each in its own way",
                    remedy="a divisor that is a constant above 0",
                )
            divided = self.to.quotient if isinstance(op, ast.FloorDiv) else self.to.rest
            return Text(divided(written(self.to, a, INT), self.to.literal(b)), INT)
        if numbers and type(op) in _SIGNS:
            sides = [written(self.to, one, INT) for one in (a, b)]
            return Text(self.to.arithmetic(_SIGNS[type(op)], sides[0], sides[1]), INT)
        names = {one.name for one in kinds}
        if names == {"set"} and type(op) in _SETS:
            kind = self.one_kind(a, b, node, scope)
            sides = [written(self.to, one, kind) for one in (a, b)]
            return Text(self.to.of_sets(_SETS[type(op)], sides[0], sides[1]), kind)
        if names <= {"list", "tuple"} and isinstance(op, ast.Add):
            return self._joined([a, b], node, scope)
        raise self.refused(node, scope)

    def kind(self, value: Any, node: ast.AST, scope: Scope) -> Kind:
        """Of a value. Raises ConfigError for one of several."""
        try:
            return kind_of(value)
        except Unlike:
            raise self.refused(node, scope) from None

    def _compare(self, node: ast.Compare, scope: Scope) -> Any:
        nodes = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, nodes, nodes[1:], strict=False):
            if isinstance(op, ast.Eq | ast.NotEq) and _is_list(left) != _is_list(right):
                raise self.refused(node, scope)  # a list and a tuple are never equal
        sides = [self.expression(one, scope) for one in nodes]
        parts: list[Truth] = []
        for op, a, b in zip(node.ops, sides, sides[1:], strict=False):
            said = self._compared(op, a, b, node, scope)
            if said is False:
                return False
            parts.append(said)
        return self.as_text(self.joined(True, parts))

    def _compared(self, op: ast.cmpop, a: Any, b: Any, node: ast.AST, scope: Scope) -> Truth:
        if not holds_text(a) and not holds_text(b):
            return bool(_PYTHON[type(op)](a, b))
        match op:
            case ast.In():
                return self._inside(a, b, node, scope)
            case ast.NotIn():
                said = self._inside(a, b, node, scope)
                return not said if isinstance(said, bool) else self.to.negation(said)
            case ast.Eq() | ast.Is():
                return self.equal(a, b, node, scope)
            case ast.NotEq() | ast.IsNot():
                if any(isinstance(one, list | range) for one in (a, b)):
                    raise self.refused(node, scope)
                if isinstance(a, Text) or isinstance(b, Text):
                    return self._texts(op, a, b, node, scope)
                said = self.equal(a, b, node, scope)
                return not said if isinstance(said, bool) else self.to.negation(said)
        kinds = {self.kind(one, node, scope).name for one in (a, b)}
        if kinds == {"set"} and isinstance(op, ast.LtE):
            kind = self.one_kind(a, b, node, scope)
            return self.to.of_sets("<=", written(self.to, a, kind), written(self.to, b, kind))
        rows = [self.parts(one) for one in (a, b)]
        if kinds == {"tuple"} or (kinds <= {"tuple", "list"} and None not in rows):
            return self._before(op, rows[0] or [], rows[1] or [], node, scope)
        if not kinds <= {"int", "option"} or type(op) not in _COMPARED:
            self.one_kind(a, b, node, scope)
            raise self.refused(node, scope)
        sign = _COMPARED[type(op)]
        texts = [wanted(self.to, self.unwrapped(one), INT, scope.where) for one in (a, b)]
        return self.to.compare(sign, texts[0], texts[1])

    def _before(
        self, op: ast.cmpop, a: list[Any], b: list[Any], node: ast.AST, scope: Scope
    ) -> Truth:
        """Of rows of the same length: the first place where they differ decides."""
        if len(a) != len(b):
            raise self.refused(node, scope)
        if not a:
            return isinstance(op, ast.LtE | ast.GtE)
        strict = ast.Lt() if isinstance(op, ast.Lt | ast.LtE) else ast.Gt()
        less = self._compared(strict, a[0], b[0], node, scope)
        same = self.equal(a[0], b[0], node, scope)
        rest = self.joined(True, [same, self._before(op, a[1:], b[1:], node, scope)])
        return self.joined(False, [less, rest])

    def equal(self, a: Any, b: Any, node: ast.AST, scope: Scope) -> Truth:
        """Are they?"""
        if not holds_text(a) and not holds_text(b):
            return bool(a == b)
        if any(isinstance(one, list | range) for one in (a, b)):
            raise self.refused(node, scope)  # the other side, a tuple, is never equal to it
        rows = [self.parts(one) if not isinstance(one, Text) else None for one in (a, b)]
        if rows[0] is not None and rows[1] is not None:
            if len(rows[0]) != len(rows[1]):
                return False
            pairs = zip(rows[0], rows[1], strict=True)
            return self.joined(True, [self.equal(one, two, node, scope) for one, two in pairs])
        return self._texts(ast.Eq(), a, b, node, scope)

    def _texts(self, op: ast.cmpop, a: Any, b: Any, node: ast.AST, scope: Scope) -> str:
        kind = self.one_kind(a, b, node, scope)
        sign = "==" if isinstance(op, ast.Eq | ast.Is) else "!="
        try:
            texts = [written(self.to, one, kind) for one in (a, b)]
        except Unlike:
            raise self.refused(node, scope) from None
        return self.to.compare(sign, texts[0], texts[1])

    def _inside(self, one: Any, group: Any, node: ast.AST, scope: Scope) -> Truth:
        group = self.unwrapped(group)
        if isinstance(group, Text):
            if group.kind.name == "map":
                group = Text(self.to.keys(group.text), set_of(group.kind.key or group.kind))
            if group.kind.name not in ("list", "set"):
                raise self.refused(node, scope)
            held = Text("", group.kind.held)
            kind = self.one_kind(one, held, node, scope)
            inside = self.to.in_set if group.kind.name == "set" else self.to.in_list
            return inside(written(self.to, one, kind), group.text)
        if not isinstance(group, tuple | list | set | frozenset | range | Mapping):
            raise self.refused(node, scope)
        rows = list(group) if isinstance(group, tuple | list) else sorted(group, key=repr)
        return self.joined(False, [self.equal(one, other, node, scope) for other in rows])

    def _subscript(self, of: Any, index: ast.expr, node: ast.AST, scope: Scope) -> Any:
        of = self.unwrapped(of)
        if isinstance(index, ast.Slice):
            return self._slice(of, index, node, scope)
        at = self.expression(index, scope)
        if not isinstance(of, Text) and not holds_text(at):
            return of[at]
        if not isinstance(of, Text):
            of = self.whole(of, node, scope)
        if of.kind.name == "map":
            key = wanted(self.to, at, of.kind.key or kind_of(at), scope.where)
            return Text(self.to.looked(of.text, key), of.kind.held)
        rows = self.parts(of)
        if rows is not None and isinstance(at, int):
            return rows[at]
        if of.kind.name != "list" or self.kind(at, node, scope) not in (INT, option_of(INT)):
            raise self.refused(node, scope)
        bound = Text(written(self.to, self.unwrapped(at), INT), INT)
        return Text(self.to.at(of.text, place(self.to, of, bound)), of.kind.held)

    def whole(self, value: Any, node: ast.AST, scope: Scope) -> Text:
        """A value as a text."""
        if isinstance(value, Text):
            return value
        kind = self.kind(value, node, scope)
        return Text(written(self.to, value, kind), kind)

    def _slice(self, of: Any, index: ast.Slice, node: ast.AST, scope: Scope) -> Any:
        if index.step is not None:
            raise self.refused(node, scope)
        ends = [
            None if e is None else self.expression(e, scope) for e in (index.lower, index.upper)
        ]
        if not isinstance(of, Text) and not any(map(holds_text, ends)):
            return of[ends[0] : ends[1]]
        row = of if isinstance(of, Text) else self.whole(of, node, scope)
        if row.kind.name != "list":
            raise self.refused(node, scope)
        if any(one is not None and self.kind(one, node, scope) != INT for one in ends):
            raise self.refused(node, scope)
        texts = [None if one is None else Text(written(self.to, one, INT), INT) for one in ends]
        return part(self.to, row, texts[0], texts[1])

    def _row(self, parts: list[ast.expr], scope: Scope) -> Any:
        """A tuple as written, some of its parts other tuples (`*row`)."""
        rows: list[Any] = []
        loose: list[Any] = []
        for one in parts:
            if not isinstance(one, ast.Starred):
                loose.append(self.expression(one, scope))
                continue
            row = self.expression(one.value, scope)
            if isinstance(row, Text):
                rows += [tuple(loose), row] if loose else [row]
                loose = []
            else:
                loose += list(row)
        if not rows:
            return tuple(loose)
        if loose:
            rows.append(tuple(loose))
        return self._joined(rows, ast.Tuple(parts, ast.Load()), scope)

    def _joined(self, rows: list[Any], node: ast.AST, scope: Scope) -> Text:
        kind = self.kind((), node, scope)
        for one in rows:
            if isinstance(one, Text) and one.kind.name != "list":
                raise self.refused(node, scope)
            kind = self.one_kind(Text("", kind), one, node, scope)
        texts = [written(self.to, one, kind) for one in rows]
        return Text(texts[0] if len(texts) == 1 else self.to.joined(texts), kind)

    def _set(self, parts: list[ast.expr], node: ast.AST, scope: Scope) -> Any:
        rows, loose = list[Any](), list[Any]()
        for one in parts:
            if isinstance(one, ast.Starred):
                rows.append(self.calls.as_set(self.expression(one.value, scope), node, scope))
            else:
                loose.append(self.expression(one, scope))
        if not rows:
            return frozenset(loose)
        kind = set_of(kind_of(()).held)
        for value in loose:
            kind = set_of(self.one_kind(Text("", kind.held), value, node, scope))
        for one in rows:
            kind = self.one_kind(Text("", kind), one, node, scope)
        texts = [written(self.to, one, kind) for one in rows]
        if loose or not texts:
            texts.append(self.to.a_set([written(self.to, one, kind.held) for one in loose]))
        whole = texts[0]
        for text in texts[1:]:
            whole = self.to.of_sets("|", whole, text)
        return Text(whole, kind)

    def _dict(
        self, keys: list[ast.expr | None], values: list[ast.expr], node: ast.AST, scope: Scope
    ) -> Any:
        whole: Any = {}
        for key, value in zip(keys, values, strict=True):
            given = self.expression(value, scope)
            if key is None:
                whole = self.with_items(whole, given, node, scope)
            else:
                whole = self.with_items(whole, {self.expression(key, scope): given}, node, scope)
        return whole

    def with_items(self, whole: Any, more: Any, node: ast.AST, scope: Scope) -> Any:
        """A map with the items of another instead of its own."""
        whole, more = as_map(whole), as_map(more)
        if isinstance(whole, dict) and isinstance(more, dict) and not holds_text(list(more)):
            return {**whole, **more}
        if isinstance(whole, dict) and not whole:
            return more if isinstance(more, Text) else self.whole(more, node, scope)
        row = whole if isinstance(whole, Text) else self.whole(whole, node, scope)
        if row.kind.name != "map":
            raise self.refused(node, scope)
        if isinstance(more, Text):
            kind = self.one_kind(row, more, node, scope)
            sides = [Text(one.text, kind) for one in (row, more)]
            return merged(self.to, sides[0], sides[1], self.fresh("k"))
        kind = self.one_kind(row, more, node, scope)
        for key, value in more.items():
            texts = written(self.to, key, kind.key or INT), written(self.to, value, kind.held)
            row = Text(self._put(row.text, *texts), kind)
        return row

    def _put(self, whole: str, key: str, value: str) -> str:
        word = self.fresh("k")
        keys = self.to.of_sets("|", self.to.keys(whole), self.to.a_set([key]))
        body = self.to.choice(self.to.compare("==", word, key), value, self.to.looked(whole, word))
        return self.to.mapped(word, keys, body)

    def known_rows(self, node: ast.expr, scope: Scope, whole: ast.AST | None = None) -> list[Any]:
        """What a loop goes over, which is known."""
        value = self.expression(node, scope)
        rows = self._rows(value)
        if rows is None:
            raise self.refused(whole or node, scope)
        return rows

    def _rows(self, value: Any) -> list[Any] | None:
        if isinstance(value, tuple | list | range | dict | FrozenDict):
            return list(value)
        if isinstance(value, set | frozenset):
            # Of several that are not known, some may be the same one: it would be met twice.
            return None if len(value) > 1 and holds_text(value) else sorted(value, key=repr)
        if isinstance(value, types.GeneratorType | type({}.items()) | type({}.values())):
            return list(value)
        return self.parts(value)

    def made_of_known(
        self, made: ast.expr, loops: list[ast.comprehension], node: ast.AST, scope: Scope
    ) -> Iterable[Any]:
        """What a comprehension gives whose loops and conditions are known."""
        if not loops:
            yield self.expression(made, scope)
            return
        first, rest = loops[0], loops[1:]
        for row in self.known_rows(first.iter, scope, node):
            inner = scope.with_names(self.bound(first.target, row, node, scope))
            said = [self.truth(one, inner) for one in first.ifs]
            if any(isinstance(one, str) for one in said):
                raise self.refused(node, scope)
            if all(said):
                yield from self.made_of_known(made, rest, node, inner)

    def over(self, node: ast.expr, scope: Scope) -> Over | list[Any]:
        """What a loop goes over: known rows, or what a set has."""
        value = self.calls.looped(node, scope)
        if isinstance(value, Over):
            return value
        rows = self._rows(value)
        if rows is not None:
            return rows
        value = self.unwrapped(value)
        if not isinstance(value, Text):
            raise self.refused(node, scope)
        word = ""
        match value.kind.name:
            case "list":
                return Over(self.to.members(value.text), word, Text("", value.kind.held))
            case "set":
                return Over(value.text, word, Text("", value.kind.held))
            case "map":
                keys = value.kind.key or INT
                return Over(self.to.keys(value.text), word, Text("", keys))
        raise self.refused(node, scope)

    def entered(
        self, loop: ast.comprehension, found: Over, node: ast.AST, scope: Scope
    ) -> tuple[str, Scope]:
        """The word for what is in the set, and the scope inside of the loop."""
        if found.word:
            return found.word, scope.with_names(self.bound(loop.target, found.value, node, scope))
        word = self.fresh(loop.target.id if isinstance(loop.target, ast.Name) else "one")
        value = Text(word, found.value.kind)
        return word, scope.with_names(self.bound(loop.target, value, node, scope))

    def quantified(
        self,
        every: bool,
        body: ast.expr,
        loops: list[ast.comprehension],
        node: ast.AST,
        scope: Scope,
    ) -> Truth:
        """`all(..)` or `any(..)` over a generator."""
        if not loops:
            return self.truth(body, scope)
        first, rest = loops[0], loops[1:]
        found = self.over(first.iter, scope)
        if isinstance(found, list):
            parts: list[Truth] = []
            for row in found:
                inner = scope.with_names(self.bound(first.target, row, node, scope))
                parts.append(self._one_of(every, body, first.ifs, rest, node, inner))
                if parts[-1] is (not every):
                    break
            return self.joined(every, parts)
        word, inner = self.entered(first, found, node, scope)
        said = self._one_of(every, body, first.ifs, rest, node, inner)
        if said is every:
            return every
        text = said if isinstance(said, str) else self.to.literal(said)
        return (self.to.every if every else self.to.some)(word, found.group, text)

    def _one_of(
        self,
        every: bool,
        body: ast.expr,
        ifs: list[ast.expr],
        rest: list[ast.comprehension],
        node: ast.AST,
        scope: Scope,
    ) -> Truth:
        asked = [self.truth(one, scope) for one in ifs]
        if any(one is False for one in asked):
            return every
        said = self.quantified(every, body, rest, node, scope)
        if not every:
            return self.joined(False, [self.joined(True, [*asked, said])])
        unless = [one if isinstance(one, bool) else self.to.negation(one) for one in asked]
        return self.joined(False, [*(one for one in unless if isinstance(one, str)), said])

    def _set_of(
        self, made: ast.expr, loops: list[ast.comprehension], node: ast.AST, scope: Scope
    ) -> Any:
        if len(loops) != 1:
            return frozenset(self.made_of_known(made, loops, node, scope))
        (loop,) = loops
        found = self.over(loop.iter, scope)
        if isinstance(found, list):
            return frozenset(self.made_of_known(made, loops, node, scope))
        word, inner = self.entered(loop, found, node, scope)
        asked = self.joined(True, [self.truth(one, inner) for one in loop.ifs])
        group = found.group
        if asked is False:
            return frozenset()
        if isinstance(asked, str):  # a word is bound once
            group = self.to.only(word, group, asked)
            again = self.over(loop.iter, scope)
            assert isinstance(again, Over)
            word, inner = self.entered(loop, again, node, scope)
        value = self.expression(made, inner)
        kind = self.kind(value, node, scope)
        if isinstance(made, ast.Tuple) and isinstance(value, tuple):
            kind = tuple_of(self.kind(one, node, scope) for one in value)
        return Text(self.to.each(word, group, written(self.to, value, kind)), set_of(kind))

    def _dict_of(
        self,
        key: ast.expr,
        value: ast.expr,
        loops: list[ast.comprehension],
        node: ast.AST,
        scope: Scope,
    ) -> Any:
        found = self.over(loops[0].iter, scope) if len(loops) == 1 else []
        if isinstance(found, list):
            pair = ast.copy_location(ast.Tuple([key, value], ast.Load()), key)
            rows = list(self.made_of_known(pair, loops, node, scope))
            if holds_text([one for one, _ in rows]):
                raise self.refused(node, scope)
            return dict(rows)
        if loops[0].ifs:
            raise self.refused(node, scope)
        word, inner = self.entered(loops[0], found, node, scope)
        name = self.expression(key, inner)
        if not isinstance(name, Text) or name.text != word:
            raise self.refused(node, scope)
        made = self.expression(value, inner)
        kind = Kind("map", self.kind(made, node, scope), name.kind)
        body = written(self.to, made, kind.held)
        return Text(self.to.mapped(word, found.group, body), kind)


def _is_bool(value: Any) -> bool:
    return isinstance(value, Text) and value.kind == BOOL


def _is_list(node: ast.AST) -> bool:
    """As it is written: a list, or what gives one."""
    match node:
        case ast.List() | ast.ListComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in ("list", "sorted", "range")
    return False
