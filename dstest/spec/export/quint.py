"""A specification as a module of Quint (Informal Systems): `can_X`, `do_X`, `init`, `step`, and a
definition for each invariant of states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.spec.export.kinds import Kind
from dstest.spec.export.language import free_word, written
from dstest.spec.export.module import Exported, ExportedAction, exported, instance_of, state_kind
from dstest.spec.model import FrozenDict, Model, Step


class Quint:
    """How Quint writes it."""

    def word(self, name: str) -> str:
        return f"{name}_"  # `to`, `in`, `size` and many more are words of its own

    def literal(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value) if isinstance(value, str) else str(value)

    def both(self, parts: list[str]) -> str:
        return f"and {{ {', '.join(parts)} }}" if parts else "true"

    def either(self, parts: list[str]) -> str:
        return f"or {{ {', '.join(parts)} }}" if parts else "false"

    def negation(self, one: str) -> str:
        return f"not({one})"

    def arithmetic(self, sign: str, left: str, right: str) -> str:
        return f"({left} {sign} {right})"

    def rest(self, one: str, divisor: str) -> str:
        """As Python has it, no less than 0, whichever way the sign of Quint's goes."""
        return f"((({one} % {divisor}) + {divisor}) % {divisor})"

    def quotient(self, one: str, divisor: str) -> str:
        """Rounded down: of what can be divided without a rest."""
        return f"(({one} - {self.rest(one, divisor)}) / {divisor})"

    def compare(self, sign: str, left: str, right: str) -> str:
        return f"({left} {sign} {right})"

    def choice(self, condition: str, yes: str, no: str) -> str:
        return f"(if ({condition}) {yes} else {no})"

    def let(self, name: str, value: str, body: str) -> str:
        return f"{{ val {name} = {value} {body} }}"

    def field(self, state: str, name: str) -> str:
        return f"{state}.{name}"

    def record(self, fields: Mapping[str, str]) -> str:
        return f"{{ {', '.join(f'{name}: {value}' for name, value in fields.items())} }}"

    def changed(self, state: str, fields: Mapping[str, str]) -> str:
        return state + "".join(f'.with("{name}", {value})' for name, value in fields.items())

    def a_list(self, parts: list[str]) -> str:
        return f"[{', '.join(parts)}]"

    def a_set(self, parts: list[str]) -> str:
        return f"Set({', '.join(parts)})"

    def at(self, row: str, index: str) -> str:
        return f"{row}.nth({index})"

    def part(self, row: str, start: str, end: str) -> str:
        return f"{row}.slice({start}, {end})"

    def joined(self, parts: list[str]) -> str:
        first, *rest = parts
        return first + "".join(f".concat({one})" for one in rest)

    def length(self, row: str) -> str:
        return f"{row}.length()"

    def size(self, group: str) -> str:
        return f"{group}.size()"

    def in_list(self, one: str, row: str) -> str:
        return f"{self.members(row)}.contains({one})"

    def in_set(self, one: str, group: str) -> str:
        return f"{group}.contains({one})"

    def of_sets(self, sign: str, left: str, right: str) -> str:
        called = {"|": "union", "&": "intersect", "-": "exclude", "<=": "subseteq"}[sign]
        return f"{left}.{called}({right})"

    def upto(self, start: str, end: str) -> str:
        return f"{start}.to({end} - 1)"

    def members(self, row: str) -> str:
        at = free_word("at", row)
        return f"{row}.indices().map({at} => {row}.nth({at}))"

    def every(self, name: str, group: str, body: str) -> str:
        return f"{group}.forall({name} => {body})"

    def some(self, name: str, group: str, body: str) -> str:
        return f"{group}.exists({name} => {body})"

    def each(self, name: str, group: str, body: str) -> str:
        return f"{group}.map({name} => {body})"

    def only(self, name: str, group: str, condition: str) -> str:
        return f"{group}.filter({name} => {condition})"

    def the(self, name: str, group: str, condition: str) -> str:
        return f"{self.only(name, group, condition)}.getOnlyElement()"

    def a_tuple(self, parts: list[str]) -> str:
        return f"({', '.join(parts)})"

    def item(self, row: str, number: int) -> str:
        return f"{row}._{number}"

    def a_map(self, pairs: list[tuple[str, str]], name: str) -> str:
        return f"Map({', '.join(f'{key} -> {value}' for key, value in pairs)})"

    def keys(self, of: str) -> str:
        return f"{of}.keys()"

    def looked(self, of: str, key: str) -> str:
        return f"{of}.get({key})"

    def mapped(self, name: str, keys: str, body: str) -> str:
        return f"{keys}.mapBy({name} => {body})"


def _type(kind: Kind) -> str:
    match kind.name:
        case "list" | "option":
            return f"List[{_type(kind.held)}]"
        case "set":
            return f"Set[{_type(kind.held)}]"
        case "map":
            return f"({_type(kind.key or kind)} -> {_type(kind.held)})"
        case "tuple":
            return f"({', '.join(_type(one) for _, one in kind.items)})"
        case "record":
            return f"{{ {', '.join(f'{name}: {_type(one)}' for name, one in kind.items)} }}"
        case "nothing":
            return "int"  # of what is always empty
    return kind.name


def as_quint(model: Model) -> str:
    """The module. Raises ConfigError for what Quint has no word for.

    Invariants of steps are of a variable, `broken`: those that the last step did not satisfy."""
    return _module(exported(model, Quint()))


def _module(whole: Exported) -> str:
    lines = [f"// {line}".rstrip() for line in whole.doc.splitlines()]
    lines += [f"// not exported: {', '.join(whole.left_out)}"] if whole.left_out else []
    lines += [f"module {whole.name} {{"]
    lines += [f"  type State = {_type(whole.state)}", "  var st: State"]
    lines += ["  var broken: Set[str]"] if whole.steps else []
    lines += [""]
    for one in whole.actions:
        lines += _definitions(one)
    unbroken = ", broken' = Set()" if whole.steps else ""
    starts = [f"st' = {state}{unbroken}" for state in whole.initial]
    starts = [f"all {{ {one} }}" for one in starts] if whole.steps else starts
    lines += [f"  action init = any {{ {', '.join(starts)} }}", "  action step = any {"]
    lines += [f"    {_taken(one, whole)}," for one in whole.actions]
    lines += ["  }", ""]
    for id_, text in whole.invariants.items():
        lines += [f"  pure def holds_{_word(id_)}(s: State): bool = {text}"]
        lines += [f"  val {_word(id_)} = holds_{_word(id_)}(st)"]
    for id_ in whole.steps:
        lines += [f'  val {_word(id_)} = not(broken.contains("{id_}"))']
    return "\n".join([*lines, "}", ""])


def _word(id_: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in id_)


def _given(one: ExportedAction) -> str:
    return "".join(f", {name}: {_type(of.kind.held)}" for name, of in one.domains.items())


def _definitions(one: ExportedAction) -> list[str]:
    params = _given(one)
    guards = ", ".join(one.can.values()) or "true"
    said = ", ".join(f"{name}={value!r}" for name, value in one.fixed.items())
    return [
        *([f"  // {one.of}: {said}"] if said else []),
        f"  pure def can_{one.name}(s: State{params}): bool = and {{ {guards} }}",
        f"  pure def do_{one.name}(s: State{params}): State = {one.do}",
        *(
            f"  pure def holds_{_word(id_)}_{one.name}(s: State{params}, t: State): bool = {text}"
            for id_, text in one.holds.items()
        ),
        "",
    ]


def _taken(one: ExportedAction, whole: Exported) -> str:
    """In an action the state is `st`; a domain is of `s`, which is made that."""
    given = "".join(f", {name}" for name in one.domains)
    chosen = "".join(
        f"nondet {name} = oneOf({{ val s = st {of.text} }}) " for name, of in one.domains.items()
    )
    after = f"do_{one.name}(st{given})"
    broken = ""
    if whole.steps:
        texts = [
            f'if (holds_{_word(id_)}_{one.name}(st{given}, {after})) Set() else Set("{id_}")'
            for id_ in one.holds
        ]
        broken = f", broken' = Set({', '.join(texts)}).flatten()" if texts else ", broken' = Set()"
    taken = f"all {{ can_{one.name}(st{given}), st' = {after}{broken} }}"
    return f"{{ {chosen}{taken} }}" if chosen else taken


def as_test(model: Model, edges: Sequence[tuple[Any, Step, Any | None]]) -> str:
    """The module with a test `edges`: of each (state, step, next state) that the step leads there,
    and of those with None that it cannot be taken; in both cases whether the invariants hold."""
    quint = Quint()
    whole, kind = exported(model, quint), state_kind(model)

    def text(state: Any) -> str:
        return written(quint, state, kind)

    asserted = []
    for before, step, after in edges:
        one, args = instance_of(whole, model, step.action, step.args)
        kinds = [of.kind.held for of in one.domains.values()]
        pairs = zip(args, kinds, strict=True)
        given = "".join(f", {written(quint, arg, of)}" for arg, of in pairs)
        can = f"can_{one.name}({text(before)}{given})"
        if after is None:
            asserted.append(f"not({can})")
            continue
        said = [can, f"do_{one.name}({text(before)}{given}) == {text(after)}"]
        said += [
            f"holds_{_word(inv.id)}({text(after)}) == {quint.literal(inv.asked(after))}"
            for inv in model.of_kind("state")
        ]
        said += [
            f"holds_{_word(inv.id)}_{one.name}({text(before)}{given}, {text(after)})"
            f" == {quint.literal(inv.asked(before, step, after))}"
            for inv in model.of_kind("action")
            if inv.id in one.holds
        ]
        asserted.append(f"and {{ {', '.join(said)} }}")
    body = ",\n    ".join(f"assert({one})" for one in asserted)
    module = _module(whole).rstrip().removesuffix("}")
    return f"{module}  run edgesTest = all {{\n    {body}, init }}\n}}\n"


def state_from_itf(model: Model, row: Mapping[str, Any]) -> Any:
    """A state out of a trace in the Informal Trace Format."""
    return _plain(row["st"], state_kind(model))


def _plain(value: Any, kind: Kind) -> Any:
    match value:
        case {"#bigint": str(text)}:
            value = int(text)
        case {"#set": list(rows)} | {"#tup": list(rows)} | {"#map": list(rows)}:
            value = rows
    match kind.name:
        case "option":
            return _plain(value[0], kind.held) if value else None
        case "list":
            return tuple(_plain(one, kind.held) for one in value)
        case "set":
            return frozenset(_plain(one, kind.held) for one in value)
        case "tuple":
            return tuple(_plain(v, k) for v, (_, k) in zip(value, kind.items, strict=True))
        case "map":
            pairs = ((_plain(k, kind.key or kind), _plain(v, kind.held)) for k, v in value)
            return FrozenDict(pairs)
        case "record" if kind.made is not None:
            return kind.made(**{name: _plain(value[name], one) for name, one in kind.items})
    return value
