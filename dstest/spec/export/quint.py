"""A specification as a module of Quint (Informal Systems): `can_X`, `do_X`, `init`, `step`, and a
definition for each invariant of states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.spec.export.module import ExportedAction, exported
from dstest.spec.export.translate import Kind, Translator
from dstest.spec.model import Model, Step, fields_of


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
        return f"{row}.indices().map(i_ => {row}.nth(i_))"

    def every(self, name: str, group: str, body: str) -> str:
        return f"{group}.forall({name} => {body})"

    def some(self, name: str, group: str, body: str) -> str:
        return f"{group}.exists({name} => {body})"


def _type(kind: Kind) -> str:
    if kind.name in ("list", "set") and kind.of is not None:
        return f"{'List' if kind.name == 'list' else 'Set'}[{_type(kind.of)}]"
    return kind.name


def as_quint(model: Model) -> str:
    """The module. Raises ConfigError for what Quint has no word for."""
    whole = exported(model, Quint())
    lines = [f"// {line}".rstrip() for line in whole.doc.splitlines()]
    lines += [f"// not exported: {', '.join(whole.left_out)}"] if whole.left_out else []
    lines += [f"module {whole.name} {{"]
    fields = ", ".join(f"{name}: {_type(kind)}" for name, kind in whole.fields.items())
    lines += [f"  type State = {{ {fields} }}", "  var st: State", ""]
    for one in whole.actions:
        lines += _definitions(one)
    starts = ", ".join(f"st' = {state}" for state in whole.initial)
    lines += [f"  action init = any {{ {starts} }}", "  action step = any {"]
    lines += [f"    {_taken(one)}," for one in whole.actions]
    lines += ["  }", ""]
    for id_, text in whole.invariants.items():
        lines += [f"  pure def holds_{_word(id_)}(s: State): bool = {text}"]
        lines += [f"  val {_word(id_)} = holds_{_word(id_)}(st)"]
    return "\n".join([*lines, "}", ""])


def _word(id_: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in id_)


def _definitions(one: ExportedAction) -> list[str]:
    params = "".join(f", {n}: {_type(of.kind.of or of.kind)}" for n, of in one.domains.items())
    guards = ", ".join(one.can.values()) or "true"
    return [
        f"  pure def can_{one.name}(s: State{params}): bool = and {{ {guards} }}",
        f"  pure def do_{one.name}(s: State{params}): State = {one.do}",
        "",
    ]


def _taken(one: ExportedAction) -> str:
    """In an action the state is `st`; a domain is of `s`, which is made that."""
    given = "".join(f", {name}" for name in one.domains)
    chosen = "".join(
        f"nondet {name} = oneOf({{ val s = st {of.text} }}) " for name, of in one.domains.items()
    )
    taken = f"all {{ can_{one.name}(st{given}), st' = do_{one.name}(st{given}) }}"
    return f"{{ {chosen}{taken} }}" if chosen else taken


def as_test(model: Model, edges: Sequence[tuple[Any, Step, Any | None]]) -> str:
    """The module with a test `edges`: of each (state, step, next state) that the step leads there,
    and of those with None that it cannot be taken."""
    to = Translator(Quint())
    quint = Quint()

    def text(state: Any) -> str:
        return quint.record({n: to.value(v) for n, v in (fields_of(state) or {}).items()})

    asserted = []
    for before, step, after in edges:
        given = "".join(f", {to.value(one)}" for one in step.args)
        can = f"can_{step.action}({text(before)}{given})"
        if after is None:
            asserted.append(f"not({can})")
        else:
            asserted.append(
                f"and {{ {can}, do_{step.action}({text(before)}{given}) == {text(after)} }}"
            )
    body = ",\n    ".join(f"assert({one})" for one in asserted)
    whole = as_quint(model).rstrip().removesuffix("}")
    return f"{whole}  run edgesTest = all {{\n    {body}, init }}\n}}\n"


def state_from_itf(model: Model, row: Mapping[str, Any]) -> Any:
    """A state out of a trace in the Informal Trace Format."""
    given = row["st"]
    return type(model.initial[0])(**{name: _plain(value) for name, value in given.items()})


def _plain(value: Any) -> Any:
    match value:
        case {"#bigint": str(text)}:
            return int(text)
        case {"#set": list(parts)}:
            return frozenset(map(_plain, parts))
        case {"#tup": list(parts)} | list(parts):
            return tuple(map(_plain, parts))
    return value
