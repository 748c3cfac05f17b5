"""Calls: functions and methods that have a counterpart, those of the specification's own, whose
body is put in the place of the call, and whatever is called with what is known, which is done."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dstest.spec.export.kinds import BOOL, INT, NOTHING, Text, holds_text, set_of
from dstest.spec.export.language import as_map, wanted, written
from dstest.spec.export.scope import Scope
from dstest.spec.model import FrozenDict, fields_of

if TYPE_CHECKING:
    from dstest.spec.export.translate import Translator

_SET_METHODS: Final = {
    "union": "|", "intersection": "&", "difference": "-", "issubset": "<=",
}  # fmt: skip


class Calls:
    """Those of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._all = translator
        self._known: dict[Any, Callable[[ast.Call, Scope], Any]] = {
            len: self._len,
            min: self._extreme,
            max: self._extreme,
            sum: self._sum,
            bool: self._bool,
            int: self._int,
            range: self._range,
            all: self._quantified,
            any: self._quantified,
            set: self._set,
            frozenset: self._set,
            tuple: self._tuple,
            list: self._tuple,
            dict: self._map,
            FrozenDict: self._map,
            dataclasses.replace: self._replaced,
        }

    def value(self, node: ast.Call, scope: Scope) -> Any:
        """What a call gives. Raises ConfigError for what has no counterpart."""
        if isinstance(node.func, ast.Attribute):
            whole = self._all.unwrapped(self._all.expression(node.func.value, scope))
            if isinstance(whole, Text):
                return self._method(whole, node.func.attr, node, scope)
            if isinstance(whole, FrozenDict | dict):
                return self._of_map(whole, node.func.attr, node, scope)
            called = getattr(whole, node.func.attr, None)
        else:
            called = self._all.expression(node.func, scope)
        if not callable(called):
            raise self._all.refused(node, scope)
        try:
            way = self._known.get(called)
        except TypeError:
            way = None
        return way(node, scope) if way is not None else self._any(called, node, scope)

    def _args(self, node: ast.Call, scope: Scope) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for one in node.args:
            if isinstance(one, ast.Starred):
                args += self._all.known_rows(one.value, scope, node)
            else:
                args.append(self._all.expression(one, scope))
        given = {one.arg: self._all.expression(one.value, scope) for one in node.keywords}
        if None in given:
            raise self._all.refused(node, scope)
        return args, {str(name): value for name, value in given.items()}

    def _any(self, called: Callable[..., Any], node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        bound_to = getattr(called, "__self__", None)
        of_values = isinstance(called, type) and (
            dataclasses.is_dataclass(called) or hasattr(called, "_fields")
        )
        if of_values or not holds_text([*args, *named.values(), bound_to]):
            try:
                made = called(*args, **named)
            except Exception:
                raise self._all.refused(node, scope) from None
            return tuple(made) if isinstance(made, Iterator) else made
        return self._inlined(called, args, named, node, scope)

    def _inlined(
        self,
        called: Callable[..., Any],
        args: list[Any],
        named: Mapping[str, Any],
        node: ast.Call,
        scope: Scope,
    ) -> Any:
        """A function of the user's own, its parameters given values."""
        if inspect.ismethod(called):
            args = [called.__self__, *args]
            called = called.__func__
        if not inspect.isfunction(called):
            raise self._all.refused(node, scope)
        try:
            given = inspect.signature(called).bind(*args, **named)
        except TypeError:
            raise self._all.refused(node, scope) from None
        given.apply_defaults()
        where, function = f"{scope.where}, in {called.__name__}", called
        return self._all.given(
            given.arguments, lambda names: self._all.function(function, names, where)
        )

    def _method(self, whole: Text, name: str, node: ast.Call, scope: Scope) -> Any:
        match whole.kind.name:
            case "map":
                return self._of_map(whole, name, node, scope)
            case "set" if name in _SET_METHODS and len(node.args) == 1:
                other = self.as_set(self._all.expression(node.args[0], scope), node, scope)
                kind = self._all.one_kind(whole, other, node, scope)
                texts = [written(self._all.to, one, kind) for one in (whole, other)]
                text = self._all.to.of_sets(_SET_METHODS[name], texts[0], texts[1])
                return Text(text, BOOL if name == "issubset" else kind)
            case "record" if whole.kind.made is not None:
                function = getattr(whole.kind.made, name, None)
                if inspect.isfunction(function):
                    args, named = self._args(node, scope)
                    return self._inlined(function, [whole, *args], named, node, scope)
        raise self._all.refused(node, scope)

    def _of_map(self, whole: Any, name: str, node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        match name, args:
            case "get", [key, *rest] if not named and len(rest) <= 1:
                return self._got(whole, key, rest[0] if rest else None, node, scope)
            case "with_", [more]:
                return self._all.with_items(whole, more, node, scope)
            case "without", [key]:
                if not isinstance(whole, Text) and not holds_text([*whole, key]):
                    return {k: v for k, v in whole.items() if k != key}
                row = self._all.whole(whole, node, scope)
                to, word = self._all.to, self._all.fresh("k")
                gone = to.a_set([wanted(to, key, row.kind.key or NOTHING, scope.where)])
                keys = to.of_sets("-", to.keys(row.text), gone)
                return Text(to.mapped(word, keys, to.looked(row.text, word)), row.kind)
            case (("keys" | "values" | "items"), []) if not isinstance(whole, Text):
                return tuple(getattr(dict(whole), name)())
            case "keys", []:
                return Text(self._all.to.keys(whole.text), set_of(whole.kind.key or NOTHING))
        raise self._all.refused(node, scope)

    def _got(self, whole: Any, key: Any, default: Any, node: ast.Call, scope: Scope) -> Any:
        if not isinstance(whole, Text):
            if not holds_text([*whole, key]):
                return whole.get(key, default)
            if not whole:
                return default
        row = self._all.whole(whole, node, scope)
        to, name = self._all.to, self._all.unwrapped(key)
        text = wanted(to, name, row.kind.key or NOTHING, scope.where)
        there = to.in_set(text, to.keys(row.text))
        value = Text(to.looked(row.text, text), row.kind.held)
        return self._all.chosen(there, value, default, node, scope)

    def looped(self, node: ast.expr, scope: Scope) -> Any:
        """What a loop goes over: of a map that is not known, its items or values, by key."""
        from dstest.spec.export.translate import Over

        match node:
            case ast.Call(
                func=ast.Attribute(value=inner, attr="items" | "values" as attr), args=[]
            ):
                whole = self._all.unwrapped(self._all.expression(inner, scope))
                if isinstance(whole, Text) and whole.kind.name == "map":
                    word = self._all.fresh("k")
                    value = Text(self._all.to.looked(whole.text, word), whole.kind.held)
                    key = Text(word, whole.kind.key or NOTHING)
                    given = (key, value) if attr == "items" else value
                    return Over(self._all.to.keys(whole.text), word, given)
        return self._all.expression(node, scope)

    def as_set(self, of: Any, node: ast.AST, scope: Scope) -> Any:
        """Of a value what it holds, as a set."""
        of = self._all.unwrapped(of)
        if isinstance(of, Text):
            match of.kind.name:
                case "set":
                    return of
                case "list":
                    return Text(self._all.to.members(of.text), set_of(of.kind.held))
                case "map":
                    key = of.kind.key or NOTHING
                    return Text(self._all.to.keys(of.text), set_of(key))
            raise self._all.refused(node, scope)
        if not isinstance(of, Iterable):
            raise self._all.refused(node, scope)
        rows = list(of)
        if not holds_text(rows):
            return frozenset(rows)
        kind = self._all.kind(tuple(rows), node, scope)
        if kind.name != "list":
            raise self._all.refused(node, scope)
        texts = [written(self._all.to, one, kind.held) for one in rows]
        return Text(self._all.to.a_set(texts), set_of(kind.held))

    def _len(self, node: ast.Call, scope: Scope) -> Any:
        (of,), _ = self._args(node, scope)
        of = self._all.unwrapped(of)
        if isinstance(of, set | frozenset) and holds_text(of):
            of = self._all.whole(of, node, scope)
        if not isinstance(of, Text):
            return len(of)
        to = self._all.to
        match of.kind.name:
            case "list":
                return Text(to.length(of.text), INT)
            case "set":
                return Text(to.size(of.text), INT)
            case "map":
                return Text(to.size(to.keys(of.text)), INT)
        raise self._all.refused(node, scope)

    def _extreme(self, node: ast.Call, scope: Scope) -> Any:
        """`min` and `max`: of numbers that are given, or of all in a collection."""
        least = self._all.expression(node.func, scope) is min
        loops = [one for one in node.args if isinstance(one, ast.GeneratorExp)]
        if any(one.arg != "default" for one in node.keywords) or any(
            isinstance(one, ast.Starred) for one in node.args
        ):
            raise self._all.refused(node, scope)
        if len(node.args) == 1:
            made = ast.SetComp(loops[0].elt, loops[0].generators) if loops else node.args[0]
            rows = self._all.expression(ast.copy_location(made, node.args[0]), scope)
            default = [self._all.expression(one.value, scope) for one in node.keywords]
            if not isinstance(rows, Text) and not rows and default:
                return default[0]
            if isinstance(rows, Text) or not isinstance(rows, Iterable):
                return self._extreme_of(least, rows, default, node, scope)
            values = list(rows)
        else:
            values = [self._all.expression(one, scope) for one in node.args]
        if not holds_text(values):
            return min(values) if least else max(values)
        to, sign = self._all.to, "<" if least else ">"
        name = "min" if least else "max"
        texts = [wanted(to, one, INT, f"{scope.where}: {name}") for one in values]
        whole = texts[0]
        for text in texts[1:]:
            whole = to.choice(to.compare(sign, whole, text), whole, text)
        return Text(whole, INT)

    def _extreme_of(
        self, least: bool, rows: Any, default: list[Any], node: ast.Call, scope: Scope
    ) -> Any:
        to = self._all.to
        group = self.as_set(rows, node, scope)
        if not isinstance(group, Text) or group.kind.held != INT:
            raise self._all.refused(node, scope)
        one, other = self._all.fresh("one"), self._all.fresh("other")
        sign = "<=" if least else ">="
        again = group.text
        found = to.the(one, group.text, to.every(other, again, to.compare(sign, one, other)))
        if not default:
            return Text(found, INT)
        none = to.compare("==", to.size(group.text), to.literal(0))
        return Text(to.choice(none, wanted(to, default[0], INT, scope.where), found), INT)

    def _sum(self, node: ast.Call, scope: Scope) -> Any:
        (rows,), named = self._args(node, scope)
        if named or isinstance(rows, Text) or not isinstance(rows, Iterable):
            raise self._all.refused(node, scope)
        values = list(rows)
        if not holds_text(values):
            return sum(values)
        if isinstance(rows, set | frozenset) and len(values) > 1:
            raise self._all.refused(node, scope)  # two of them may be one
        to = self._all.to
        texts = [wanted(to, self._number(one), INT, scope.where) for one in values]
        whole = texts[0]
        for text in texts[1:]:
            whole = to.arithmetic("+", whole, text)
        return Text(whole, INT)

    def _number(self, value: Any) -> Any:
        """Of what is true or false, 1 or 0."""
        if isinstance(value, Text) and value.kind == BOOL:
            to = self._all.to
            return Text(to.choice(value.text, to.literal(1), to.literal(0)), INT)
        return int(value) if isinstance(value, bool) else value

    def _bool(self, node: ast.Call, scope: Scope) -> Any:
        if len(node.args) != 1 or node.keywords:
            raise self._all.refused(node, scope)
        return self._all.as_text(self._all.truth(node.args[0], scope))

    def _int(self, node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        if len(args) != 1 or named:
            raise self._all.refused(node, scope)
        value = self._number(args[0])
        if isinstance(value, Text) and value.kind != INT:
            raise self._all.refused(node, scope)
        return value if isinstance(value, Text) else int(value)

    def _range(self, node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        if not holds_text(args) and not named:
            return range(*args)
        if len(args) not in (1, 2) or named:
            raise self._all.refused(node, scope)
        texts = [wanted(self._all.to, one, INT, f"{scope.where}: range") for one in args]
        start, end = texts if len(texts) == 2 else (self._all.to.literal(0), texts[0])
        return Text(self._all.to.upto(start, end), set_of(INT))

    def _quantified(self, node: ast.Call, scope: Scope) -> Any:
        every = self._all.expression(node.func, scope) is all
        match node.args:
            case [ast.GeneratorExp(elt=body, generators=loops)]:
                return self._all.as_text(self._all.quantified(every, body, loops, node, scope))
            case [rows]:
                values = self._all.known_rows(rows, scope, node)
                said = [self._all.true(one, node, scope) for one in values]
                return self._all.as_text(self._all.joined(every, said))
        raise self._all.refused(node, scope)

    def _set(self, node: ast.Call, scope: Scope) -> Any:
        if not node.args:
            return frozenset()
        match node.args[0]:
            case ast.GeneratorExp(elt=made, generators=loops):
                same = ast.copy_location(ast.SetComp(made, loops), node)
                return self._all.expression(same, scope)
        return self.as_set(self._all.expression(node.args[0], scope), node, scope)

    def _tuple(self, node: ast.Call, scope: Scope) -> Any:
        args, _ = self._args(node, scope)
        if not args:
            return ()
        of = self._all.unwrapped(args[0])
        if isinstance(of, Text) and of.kind.name in ("list", "tuple"):
            return of
        if isinstance(of, Text) or not isinstance(of, Iterable):
            raise self._all.refused(node, scope)
        return tuple(of)

    def _map(self, node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        if named or len(args) > 1:
            raise self._all.refused(node, scope)
        of = as_map(args[0]) if args else {}
        if isinstance(of, Text) and of.kind.name == "map":
            return of
        if isinstance(of, Text):
            raise self._all.refused(node, scope)
        made = dict(of)
        if len(made) > 1 and any(map(holds_text, made)):
            raise self._all.refused(node, scope)  # two keys may be the same one
        return made

    def _replaced(self, node: ast.Call, scope: Scope) -> Any:
        args, named = self._args(node, scope)
        whole = self._all.unwrapped(args[0])
        if not isinstance(whole, Text):
            if fields_of(whole) is None:
                raise self._all.refused(node, scope)
            return dataclasses.replace(whole, **named)
        if whole.kind.name != "record" or any(whole.kind.item(one) is None for one in named):
            raise self._all.refused(node, scope)
        texts = {
            one.arg: wanted(
                self._all.to,
                named[one.arg],
                whole.kind.item(one.arg) or NOTHING,
                f"{scope.where}: {one.arg}={ast.unparse(one.value)}",
            )
            for one in node.keywords
            if one.arg is not None
        }
        return Text(self._all.to.changed(whole.text, texts) if texts else whole.text, whole.kind)
